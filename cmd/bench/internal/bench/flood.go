package bench

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/emulator"
)

const (
	// floodLength is how long each flood lasts, unless it is said; floodWarm is how long one lasts before that, in
	// which what the budgets begin with is used up.
	floodLength, quickFlood = time.Minute, 5 * time.Second
	floodWarm               = 20 * time.Second
	// crowdRate is how many increments a second of one counter the honest crowd makes, and floodRate how many requests
	// the flood.
	crowdRate, floodRate = 100, 500
	// crowdPatience is how long one of the crowd tries again, every second.
	crowdPatience = 20 * time.Second
	// frontEnd is how many bytes Google's front end adds to an answer: its name, a trace and what else it speaks.
	frontEnd = 160
	// eventSize is that of an event, in bytes.
	eventSize = 2048
)

// floodCeilings are what a day may cost, in US dollars; fitCeilings are those of what fits.
var floodCeilings, fitCeilings = []float64{5, 50}, []float64{5, 10, 50}

// moreOfOne and moreOfMany are the names of loads that are a third more than fits.
const moreOfOne, moreOfMany = "one counter, a third more than fits", "1,000 counters, a third more than fits"

// flood is what somebody sends.
type flood struct {
	name string
	auth string // AUTH
	rate float64
	next requests
}

// userToken is one of a user's, as Firebase's Auth emulator makes them.
func userToken(user string) string {
	encode := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // not possible: they are texts and numbers
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	now := time.Now().Unix()
	return encode(map[string]string{"alg": "none", "typ": "JWT"}) + "." + encode(map[string]any{
		"iss": "https://securetoken.google.com/" + project, "aud": project, "sub": user, "user_id": user, "iat": now, "auth_time": now, "exp": now + 24*3600,
	}) + "."
}

// floods are the rows of the table in docs/cost.md.
func floods() []flood {
	request := func(r *fasthttp.Request, method, path, user string, headers ...string) {
		r.Reset()
		r.Header.SetMethod(method)
		r.Header.SetHost("localhost")
		r.SetRequestURI(path)
		if user != "" {
			r.Header.Set("Authorization", "Bearer "+userToken(user))
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	several := func(prefix string, n int) string {
		var b strings.Builder
		b.WriteString(`{"increments":[`)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"counter":"%s%d"}`, prefix, i)
		}
		return b.String() + "]}"
	}
	long, headers, origins := "/"+strings.Repeat("%3C", 1000)+"?exact=true", strings.Repeat("x", 3000), strings.Repeat("x-a-rather-long-header-name,", 30)
	mallory := func(n int) string { return fmt.Sprint("mallory-", n%1000) }
	one := []flood{
		{"one token: POST / of 20 counters", "firebase", 0, func(n int, r *fasthttp.Request) bool {
			request(r, "POST", "/", "mallory")
			r.SetBodyString(several(fmt.Sprintf("s-%d-", n%50), 20))
			return true
		}},
		{"one token: seats for a second", "firebase", 0, func(n int, r *fasthttp.Request) bool {
			request(r, "PUT", fmt.Sprintf("/s-%d-%d/total/me?hold=1s", n%50, n/50%20), "mallory")
			return true
		}},
		{"1,000 users: new counters", "firebase", 0, func(n int, r *fasthttp.Request) bool {
			request(r, "POST", fmt.Sprint("/new-", n), mallory(n))
			return true
		}},
		{"1,000 users: increments of many", "firebase", 0, func(n int, r *fasthttp.Request) bool {
			request(r, "POST", fmt.Sprintf("/s-%d-%d", n%50, n/50%20), mallory(n))
			return true
		}},
		{"1,000 users: keys again", "firebase", 0, func(n int, r *fasthttp.Request) bool {
			request(r, "POST", "/s-0-0", mallory(n), "Idempotency-Key", "key")
			return true
		}},
		{"nobody: exact GET, a long path", "firebase", 0, func(_ int, r *fasthttp.Request) bool {
			request(r, "GET", long, "")
			return true
		}},
		{"nobody: long headers", "firebase", 0, func(_ int, r *fasthttp.Request) bool {
			request(r, "POST", "/hot", "", "X-Long", headers)
			return true
		}},
		{"nobody: small", "firebase", 0, func(_ int, r *fasthttp.Request) bool {
			request(r, "POST", "/hot", "", "Authorization", "Bearer x")
			return true
		}},
		{"nobody: OPTIONS", "firebase", 0, func(_ int, r *fasthttp.Request) bool {
			request(r, "OPTIONS", "/hot", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", origins)
			return true
		}},
	}
	for i := range one {
		one[i].rate = floodRate
	}
	all := flood{"all of these at once", "firebase", floodRate, func(n int, r *fasthttp.Request) bool { return one[n%len(one)].next(n/len(one), r) }}
	return append(one, all, flood{"AUTH=none: POST / of 500 new counters", "none", 14, func(n int, r *fasthttp.Request) bool {
		request(r, "POST", "/", "")
		r.SetBodyString(several(fmt.Sprintf("new-%d-", n), 500))
		return true
	}})
}

// flood measures what a day costs under floods, and whether an honest crowd gets through; and how much fits.
func (s *session) flood(ctx context.Context) (Result, error) {
	length := pick(s, quickFlood, floodLength)
	if s.FloodFor > 0 {
		length = s.FloodFor
	}
	r := Result{Settings: fmt.Sprintf("one instance of Increment and one of Rollup, billed by the instance, each with the CEILING that counters deploy --most-per-day works out; %d floods a second (14 of 500 new counters), and beside them an honest crowd: %d increments a second of one counter, each by a user of its own, who tries again a second later where there is no answer of 200, for %v; 1,000 other counters; %s. Each for %v, after %v that aren't measured. A day is what was written, read, logged and answered (with %d bytes for each answer that Google's front end adds), and events, at that rate, and instances all day", floodRate, crowdRate, crowdPatience, s.slowly(), length, floodWarm, frontEnd)}
	for _, day := range floodCeilings {
		for _, f := range floods() {
			if err := s.underFlood(ctx, &r, day, f, crowdRate, length); err != nil {
				return r, err
			}
		}
	}
	for _, day := range fitCeilings {
		c, err := boundedBy(day)
		if err != nil {
			return r, err
		}
		if err := s.underFlood(ctx, &r, day, flood{name: moreOfOne, auth: "firebase"}, 1.33*c.Hot, length); err != nil {
			return r, err
		}
		even := flood{name: moreOfMany, auth: "firebase", rate: 1.33 * c.Even}
		even.next = func(n int, r *fasthttp.Request) bool {
			r.Header.SetMethod("POST")
			r.Header.SetHost("localhost")
			r.SetRequestURI(fmt.Sprintf("/s-%d-%d", n%50, n/50%20))
			r.Header.Set("Authorization", "Bearer "+userToken(fmt.Sprint("user-", n)))
			return true
		}
		if err := s.underFlood(ctx, &r, day, even, 0, length); err != nil {
			return r, err
		}
	}
	return r, nil
}

// boundedBy is what a ceiling leaves to functions that are billed by the instance.
func boundedBy(day float64) (cost.Ceiling, error) {
	return cost.Deployment{
		IncrementBilling: cost.ByInstance, RollupBilling: cost.ByInstance, Size: cost.Deployed, Flushes: 64,
		Walks: cost.Walks{Schedule: "7 * * * *", Seconds: 300},
	}.Within(priced("us-central1"), day)
}

// crowd is what became of the increments of honest callers.
type crowd struct {
	mu      sync.Mutex
	sent    int
	counted int
	took    []time.Duration
}

func (c *crowd) done(counted bool, took time.Duration, measured bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !measured {
		return
	}
	c.sent++
	if counted {
		c.counted++
		c.took = append(c.took, took)
	}
}

// underFlood measures one flood below one ceiling.
func (s *session) underFlood(ctx context.Context, r *Result, day float64, f flood, crowdRate float64, length time.Duration) error {
	c, err := boundedBy(day)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("ours, $%v a day", day)
	title := name + ": " + f.name
	if s.Floods != nil && !s.Floods.MatchString(title) {
		return nil
	}
	s.say("%s", title)
	of := ours()
	if f.auth == "firebase" {
		of.environ = append(of.environ, "MEMBERS=own")
	}
	of.environ = append(of.environ, "AUTO_CREATE=true", "AUTH="+f.auth, "FIREBASE_AUTH_EMULATOR_HOST=localhost:1", "ALLOWED_ORIGINS=https://app.example")
	st, err := openStage(ctx, of, setup{
		shards: manyShards, faults: s.commits(), metered: true,
		ceilings: map[string]string{"Increment": c.Increment.Units.String(), "Rollup": c.Rollup.Units.String()},
	})
	if err != nil {
		return err
	}
	defer st.close()
	counters := []string{"hot"}
	for a := range 50 {
		for b := range 20 {
			counters = append(counters, fmt.Sprintf("s-%d-%d", a, b))
		}
	}
	if err := st.create(ctx, counters...); err != nil {
		return err
	}

	sending, stop := context.WithTimeout(ctx, floodWarm+length)
	defer stop()
	began := time.Now()
	var all sync.WaitGroup
	var honest crowd
	var acknowledged atomic.Int64
	statuses := map[string]int{}
	var mu sync.Mutex
	every := func(rate float64, send func(n int, measured bool)) {
		if rate <= 0 {
			return
		}
		all.Go(func() {
			for n := 0; ; n++ {
				due := began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
				select {
				case <-sending.Done():
					return
				case <-time.After(time.Until(due)):
				}
				all.Go(func() { send(n, due.Sub(began) >= floodWarm) })
			}
		})
	}
	at := st.https[0].caller
	every(crowdRate, func(n int, measured bool) {
		var request fasthttp.Request
		var response fasthttp.Response
		request.Header.SetMethod("POST")
		request.Header.SetHost("localhost")
		request.SetRequestURI("/hot")
		request.Header.Set("Authorization", "Bearer "+userToken(fmt.Sprint("alice-", n)))
		for asked := time.Now(); ; {
			err := at.Do(&request, &response)
			if err == nil {
				at.answers.Add(1)
			}
			switch {
			case err == nil && response.StatusCode() == fasthttp.StatusOK:
				acknowledged.Add(1)
				honest.done(true, time.Since(asked), measured)
				return
			case ctx.Err() != nil || time.Since(asked) > crowdPatience || sending.Err() != nil && time.Since(asked) > 5*time.Second:
				honest.done(false, 0, measured)
				return
			}
			time.Sleep(time.Second)
		}
	})
	every(f.rate, func(n int, measured bool) {
		var request fasthttp.Request
		var response fasthttp.Response
		if !f.next(n, &request) {
			return
		}
		status := "no answer"
		if at.Do(&request, &response) == nil {
			at.answers.Add(1)
			status = fmt.Sprint(response.StatusCode())
		}
		if measured {
			mu.Lock()
			statuses[status]++
			mu.Unlock()
		}
	})
	select {
	case <-time.After(floodWarm):
	case <-sending.Done():
	}
	before := st.billed()
	<-sending.Done()
	after, took := st.billed(), time.Since(began)-floodWarm
	all.Wait()
	if err := errors.Join(ctx.Err(), st.alive()); err != nil {
		return err
	}
	wrong := 0.0
	if crowdRate > 0 {
		if err := st.server.WaitForChanges(ctx); err != nil {
			return err
		}
		hot, err := st.counters.Counter("hot")
		if err != nil {
			return err
		}
		st.server.SetFaults(emulator.Faults{})
		sum, err := hot.Sum(ctx)
		if err != nil {
			return err
		}
		wrong = float64(sum.Total - acknowledged.Load())
	}
	second := func(of func(billed) float64) float64 { return (of(after) - of(before)) / took.Seconds() }
	u := priced("us-central1")
	dollars := 86_400 * (second(func(b billed) float64 { return b.writes })*u.Writes/1e5 + second(func(b billed) float64 { return b.deletes })*u.Deletes/1e5 +
		second(func(b billed) float64 { return b.reads })*u.Reads/1e5 + second(func(b billed) float64 { return b.answered })*u.AnswerGiB/(1<<30) +
		second(func(b billed) float64 { return b.logged })*u.LogGiB/(1<<30) + second(func(b billed) float64 { return b.events })*eventSize*u.PubSubTiB/(1<<40))
	dollars += c.Increment.Day + c.Rollup.Day + c.Reconcile.Day
	late := newHistogram()
	for _, d := range honest.took {
		record(late, d)
	}
	counted := float64(honest.counted) / float64(max(1, honest.sent))
	if crowdRate == 0 {
		counted = math.NaN()
	}
	row := Row{Contestant: name, Load: f.name, Errors: statuses, Metrics: []Metric{
		metric("$ a day", "$", []float64{dollars}),
		metric("of the crowd", "%", []float64{100 * counted}),
		metric("counted", "/s", []float64{float64(honest.counted+statuses["200"]) / took.Seconds()}),
		metric("crowd's p99", "s", []float64{quantile(late, 0.99)}),
		metric("writes", "/s", []float64{second(func(b billed) float64 { return b.writes })}),
		metric("reads", "/s", []float64{second(func(b billed) float64 { return b.reads })}),
		metric("answered", "B/s", []float64{second(func(b billed) float64 { return b.answered })}),
		metric("logged", "B/s", []float64{second(func(b billed) float64 { return b.logged })}),
		metric("off by", "", []float64{wrong}),
	}}
	r.Rows = append(r.Rows, row)
	if dollars > day {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %s: $%.2f is more than the ceiling.", name, f.name, dollars))
	}
	return nil
}

// billed is what Google has counted of a stage so far.
type billed struct{ writes, deletes, reads, answered, logged, events float64 }

func (st *stage) billed() (b billed) {
	stats := st.server.Stats()
	b.writes, b.deletes, b.reads = float64(stats.Writes), float64(stats.Deletes+int64(st.meter.markerCount())), float64(stats.Reads)
	for _, p := range st.https {
		b.answered += float64(p.received.Load() + frontEnd*p.answers.Load())
	}
	for _, p := range append(st.https, st.triggers...) {
		b.logged += float64(p.printed.Load())
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, posts := range st.busy {
		b.events += float64(len(posts))
	}
	b.events *= 2 // published, then delivered
	return b
}

// counting counts what is written through it.
type counting struct {
	io.Writer
	bytes *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return c.Writer.Write(p)
}
