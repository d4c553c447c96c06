package shards

import (
	"context"
	"sync"
	"time"
)

// patience is how long calls wait whose contexts have no deadline: see Config.Wait. 0 is until they
// have their outcomes.
type patience struct {
	lasts time.Duration

	mu    sync.Mutex
	made  time.Time
	ended chan struct{} // closed when those are to end that begin soon after it was made
}

// end is closed when a call that begins now has waited for long enough, or up to a hundredth before. It
// is nil if nothing ends it so.
func (p *patience) end(ctx context.Context) <-chan struct{} {
	if _, has := ctx.Deadline(); has || p.lasts == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.ended == nil || now.Sub(p.made) > p.lasts/100 {
		ended := make(chan struct{})
		time.AfterFunc(p.lasts, func() { close(ended) })
		p.made, p.ended = now, ended
	}
	return p.ended
}
