// Package ceiling decides about the units of a bill before they are spent: how many documents an instance may write and
// read, how many counters it may make and how many bytes it may answer, as the setting CEILING says.
//
// Each unit has a bucket. It earns so many a second, and holds what ten minutes earn, so that a peak passes. What is
// spent is taken out of it, even where it isn't there: it is owed then, and whoever asks next is told to wait. So over
// any time an instance spends what the bucket held at its beginning, what it has earned since, and what one moment can
// owe.
package ceiling

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// Rates are how many of each unit are earned a second; 0 is no bound.
type Rates struct{ Writes, Reads, Creates, Bytes, Logs, Requests float64 }

// Unit is what is billed.
type Unit int

// The units, in the order in which [Use] tells them.
const (
	Writes   Unit = iota // documents written or deleted
	Reads                // as Firestore bills them
	Creates              // counters made
	Bytes                // answered
	Requests             // begun
	units
)

// String is the unit's name in the setting.
func (u Unit) String() string {
	return [units]string{"writes", "reads", "creates", "bytes", "requests"}[u]
}

const (
	// Holds is how much a bucket holds at most, and Begins how much it begins with, in the time that it takes to earn
	// it: an instance that is started again and again must not have the whole each time. With nothing, a new one would
	// answer its first request late, or not at all: a look for a counter takes 1.3 s at $5 a day.
	Holds  = 10 * time.Minute
	Begins = 10 * time.Second
	// scarce is the time in which is earned what a unit is short below.
	scarce = 5 * time.Second
)

// bucket is a unit's. It has no clock: its methods are passed the time.
type bucket struct {
	second float64 // what it earns a second; 0 is no bound
	left   float64 // at that time; below 0 it is owed
	lent   float64 // that isn't paid back yet: see [Budget.Lend]
	at     time.Time
}

// of is how much is earned in a time. It is one at least, or nothing could ever be spent of a unit that is seldom.
func (b *bucket) of(d time.Duration) float64 { return max(1, b.second*d.Seconds()) }

// earn brings the bucket to a time. Half of what it earns pays back what is lent. Clocks that go back earn nothing.
func (b *bucket) earn(now time.Time) {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		earned := passed * b.second
		pays := min(b.lent, earned/2)
		b.lent -= pays
		b.left = min(b.of(Holds), b.left+earned-pays)
		b.at = now
	}
}

// few is below how much the unit is short.
func (b *bucket) few() float64 { return min(b.of(scarce), b.of(Begins)) }

// lacks is how much is missing for n: all of it must be there, or as much as the bucket holds.
func (b *bucket) lacks(n float64) float64 { return min(n, b.of(Holds)) - b.left }

// until is how long it takes to earn n; 0 if it is there.
func (b *bucket) until(n float64) time.Duration {
	lacks := b.lacks(n)
	if b.second == 0 || n <= 0 || lacks <= 1e-6 { // of sums of fractions
		return 0
	}
	return b.earns(lacks)
}

// earns is how long it takes to earn so much.
func (b *bucket) earns(n float64) time.Duration {
	return max(time.Millisecond, time.Duration(math.Ceil(min(n/b.second, 1e6)*1e9)))
}

// Budget is what an instance may spend. It is safe for concurrent use. A nil budget bounds nothing.
type Budget struct {
	mu      sync.Mutex
	buckets [units]bucket
	told    time.Time      // when its use was last told
	spent   [units]float64 // since then
	held    int            // how often somebody was held up or refused since then
}

// New makes a budget; nil if nothing has a bound. It leaves logs to whoever writes them.
func New(c Rates) *Budget {
	b, now := &Budget{}, time.Now()
	b.told = now
	bounds := false
	for u, second := range [units]float64{c.Writes, c.Reads, c.Creates, c.Bytes, c.Requests} {
		b.buckets[u] = bucket{second: second, at: now}
		b.buckets[u].left = b.buckets[u].of(Begins)
		bounds = bounds || second > 0
	}
	if !bounds {
		return nil
	}
	return b
}

// Bounds reports whether a unit has a bound.
func (b *Budget) Bounds(u Unit) bool { return b != nil && b.buckets[u].second > 0 }

// Second is how many of a unit are earned a second; 0 is no bound.
func (b *Budget) Second(u Unit) float64 {
	if b == nil {
		return 0
	}
	return b.buckets[u].second
}

// Spend spends n of a unit, whatever is left. What is promised for something that is under way is spent before, and a
// negative n gives it back once what that really took has been spent.
func (b *Budget) Spend(u Unit, n float64) {
	if !b.Bounds(u) || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spend(u, n)
}

func (b *Budget) spend(u Unit, n float64) {
	at := &b.buckets[u]
	at.earn(time.Now())
	at.left -= n
	b.spent[u] += n
}

// Take spends n of a unit if they are there, and otherwise returns how long it takes until they are. Of what nobody
// could ever have at once it asks for a full bucket, and the rest is owed.
func (b *Budget) Take(u Unit, n float64) (wait time.Duration) {
	if n <= 0 {
		return 0
	}
	var of Amounts
	of[u] = n
	return b.Promise(of)
}

// Until is how long it takes until n of a unit are there; 0 if they are.
func (b *Budget) Until(u Unit, n float64) time.Duration {
	if !b.Bounds(u) {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := &b.buckets[u]
	at.earn(time.Now())
	return at.until(n)
}

// Wait waits until there is one of some units each, or until ctx ends.
func (b *Budget) Wait(ctx context.Context, of ...Unit) {
	b.await(ctx, func() (wait time.Duration) {
		for _, u := range of {
			wait = max(wait, b.Until(u, 1))
		}
		return wait
	})
}

// await waits as long as until says, and asks again. It reports false if ctx ends first.
func (b *Budget) await(ctx context.Context, until func() time.Duration) bool {
	for ctx.Err() == nil {
		wait := until()
		if wait == 0 {
			return true
		}
		b.Held()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return false
}

// Left is how much of a unit is there; less than 0 is owed.
func (b *Budget) Left(u Unit) float64 {
	if !b.Bounds(u) {
		return math.Inf(1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := &b.buckets[u]
	at.earn(time.Now())
	return at.left
}

// Has reports whether more of a unit is there than is earned in a time; of one that is owed, less is owed than in minus
// that time.
func (b *Budget) Has(u Unit, d time.Duration) bool {
	if !b.Bounds(u) {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := &b.buckets[u]
	at.earn(time.Now())
	return at.left > at.second*d.Seconds()
}

// Short is how long it takes until none of some units is short any more; 0 while there is enough of each. What can do
// without is refused that long, or put off, so that there is some for what can't.
func (b *Budget) Short(of ...Unit) (wait time.Duration) {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, u := range of {
		at := &b.buckets[u]
		at.earn(now)
		wait = max(wait, at.until(at.few()))
	}
	return wait
}

// Held notes that somebody was held up or refused for want of a unit.
func (b *Budget) Held() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held++
}

// asked is in the context of a call: how much its caller has asked for lately.
type asked struct{}

// WithAsked says in the context of a call how many units its caller has asked for in the last minute: while a unit is
// short, who has asked for less goes first.
func WithAsked(ctx context.Context, lately float64) context.Context {
	return context.WithValue(ctx, asked{}, lately)
}

// Asked is how many units the caller of a context has asked for in the last minute; 0 where that is not known.
func Asked(ctx context.Context) float64 {
	lately, _ := ctx.Value(asked{}).(float64)
	return lately
}

// LeavesFrom is how many units somebody may ask for in a minute before they leave to others what is earned of a scarce
// unit.
const LeavesFrom = 5

// Leaves is how much of a unit somebody must leave to others who has asked for so many units in the last minute.
func (b *Budget) Leaves(u Unit, lately float64) float64 {
	return b.Second(u) * (scarce / 2).Seconds() * min(1, lately/LeavesFrom)
}

// ShortError says that a unit is short, and how long it takes until there is enough for what was asked. Nothing was done.
type ShortError struct {
	Wait time.Duration
	For  string // what was asked
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("the budget has nothing left for %s for %v", e.For, e.Wait)
}

// Amounts are how much of each unit.
type Amounts [units]float64

// Plus is both together.
func (a Amounts) Plus(b Amounts) Amounts {
	for u, n := range b {
		a[u] += n
	}
	return a
}

// Times is so many times as much.
func (a Amounts) Times(n int) Amounts {
	for u := range a {
		a[u] *= float64(n)
	}
	return a
}

// Promise is [Budget.Take] of several units: all of them, or nothing. It is for what is under way: whoever was promised
// something gives it back with [Budget.Release], once what it really took has been spent. So two that come at the same
// time don't both count on what only one can have.
func (b *Budget) Promise(of Amounts) (wait time.Duration) {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for u, n := range of {
		b.buckets[u].earn(now)
		wait = max(wait, b.buckets[u].until(n))
	}
	for u, n := range of {
		if wait == 0 && b.buckets[u].second > 0 {
			b.spend(Unit(u), n)
		}
	}
	return wait
}

// PromiseTo is [Budget.Promise] to the caller of a context, who leaves reads to those who have asked for less lately.
func (b *Budget) PromiseTo(ctx context.Context, of Amounts) (wait time.Duration) {
	if n := of[Reads]; n > 0 {
		wait = b.Until(Reads, n+b.Leaves(Reads, Asked(ctx)))
	}
	if wait == 0 {
		wait = b.Promise(of)
	}
	return wait
}

// PromiseOrOwe is [Budget.PromiseTo] that lets callers who have asked for little lately owe so much of each unit: beside
// a flood that takes one at a time there would never be enough for what they want.
func (b *Budget) PromiseOrOwe(ctx context.Context, of, missing Amounts) (wait time.Duration) {
	if wait = b.PromiseTo(ctx, of); wait > 0 && missing != (Amounts{}) && Asked(ctx) < LeavesFrom && b.Owe(of, missing) {
		return 0
	}
	return wait
}

// Owe promises several units if no more of each is owed then than may be missing; below 0, so much must be left. It
// reports false if it promises nothing.
func (b *Budget) Owe(of, missing Amounts) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for u, n := range of {
		at := &b.buckets[u]
		if at.earn(now); n > 0 && at.second > 0 && at.lacks(n-missing[u]) > 1e-6 {
			return false
		}
	}
	for u, n := range of {
		if b.buckets[u].second > 0 {
			b.spend(Unit(u), n)
		}
	}
	return true
}

// Lend is [Budget.Promise] for what can't wait until others leave enough, such as the end of a hold. While a unit is
// short all of it is lent, and half of what is earned pays it back, so that others have the other half. Until then
// nothing more is lent, but to who was promised so much before, and a little to callers who have asked for little
// lately: the error is a [ShortError].
func (b *Budget) Lend(ctx context.Context, what string, of, before Amounts) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, wait, lent := time.Now(), time.Duration(0), Amounts{}
	for u, n := range of {
		at := &b.buckets[u]
		at.earn(now)
		if n == 0 || at.until(n+at.few()) == 0 {
			continue
		}
		lent[u] = n
		most := before[u] + b.Leaves(Unit(u), LeavesFrom) - b.Leaves(Unit(u), Asked(ctx))
		if at.lent > most {
			wait = max(wait, at.earns(2*(at.lent-most)))
		}
	}
	if wait > 0 {
		return &ShortError{wait, what}
	}
	for u, n := range of {
		if b.buckets[u].second > 0 {
			b.spend(Unit(u), n)
			b.buckets[u].left += lent[u]
			b.buckets[u].lent += lent[u]
		}
	}
	return nil
}

// Await waits until it can promise several units. It reports false if ctx ends first.
func (b *Budget) Await(ctx context.Context, of Amounts) bool {
	return b.await(ctx, func() time.Duration { return b.Promise(of) })
}

// Release ends a promise: what was really taken has been spent by then.
func (b *Budget) Release(of Amounts) {
	if b != nil { // each request calls this
		b.SpendAll(of.Times(-1))
	}
}

// SpendAll is [Budget.Spend] of several units.
func (b *Budget) SpendAll(of Amounts) {
	for u, n := range of {
		b.Spend(Unit(u), n)
	}
}

// Most is how much of a unit can be there at once.
func (b *Budget) Most(u Unit) float64 {
	if !b.Bounds(u) {
		return math.Inf(1)
	}
	return b.buckets[u].of(Holds)
}

// Use is how much of a ceiling was used in a time.
type Use struct {
	Spent map[Unit]float64 // of each unit that has a bound
	Most  float64          // of what was earned, the part of the unit that was used most; beyond 1 by what was left before
	Held  int              // requests that were held up or refused
	Over  time.Duration
}

// Tell returns the use since it was last told, if that was so long ago. It reports false if it wasn't, or if nothing
// was used.
func (b *Budget) Tell(every time.Duration) (use Use, due bool) {
	if b == nil {
		return Use{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if use.Over = now.Sub(b.told); use.Over < every {
		return Use{}, false
	}
	use.Held, use.Spent = b.held, map[Unit]float64{}
	for u, spent := range b.spent {
		if second := b.buckets[u].second; second > 0 {
			use.Spent[Unit(u)] = spent
			use.Most = max(use.Most, spent/second/use.Over.Seconds())
		}
	}
	due = use.Most > 0 || use.Held > 0
	b.told, b.spent, b.held = now, [units]float64{}, 0
	return use, due
}
