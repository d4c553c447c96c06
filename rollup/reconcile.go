package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// errUnfinished says that the counter's deletion isn't finished. Its note stays until somebody finishes it.
var errUnfinished = errors.New("its deletion was not finished")

// errUnanswered says that queries got no answer in time. Events that were acknowledged for a note may not be counted
// yet.
var errUnanswered = errors.New("its queries got no answer in time")

// reconcile is [Client.Reconcile] with options of its own.
func (c *Client) reconcile(ctx context.Context, counter string, opts ReconcileOptions) (Report, error) {
	if c.db.Layout.Extension && !opts.DryRun {
		if err := c.extension.Check(ctx, c.db); err != nil {
			return Report{Counter: counter}, err
		}
	}
	r := reconciling{client: c, opts: opts, report: Report{Counter: counter}}
	again, err := r.run(ctx)
	if again {
		opts.Remove = nil
		first := r
		r = reconciling{client: c, opts: opts, report: Report{Counter: counter, Deleted: first.report.Deleted}}
		if !first.report.Deleted {
			r.spared = first.since
		}
		_, err = r.run(ctx)
	}
	if err == nil && opts.forNote && (r.asked.unanswered || r.unseen) {
		err = errUnanswered
	}
	return r.report, err
}

// reconciling is a reconcile on its way: a refresh without an event, that names what is wrong.
type reconciling struct {
	client       *Client
	opts         ReconcileOptions
	report       Report
	accounted    bool // what was found first is in the report
	problems     []string
	asked        queried // what the queries said
	queriesAsked bool    // in this reconcile; show asks them again after an early answer
	unseen       bool    // shards of the extension's may hold what was acknowledged for a note
	endedHolds   bool    // those that are over
	// spared is since when the document was missing that is back, so that what is below it stays for its whole time again
	spared time.Time
	// what remains of the counter is to be removed, unless something was written after since
	removes bool
	since   time.Time
	remade  bool // the app has made its document again
	idle    bool // nothing has written the counter since that time, and there is nothing to show
}

// run reconciles the counter, and removes the remains of one that is over. It reports whether to reconcile it again: it
// is back, or events that came while it was being deleted were acknowledged for its note.
func (r *reconciling) run(ctx context.Context) (again bool, err error) {
	c, counter := r.client, r.report.Counter
	early := false
	for more := true; more && err == nil && ctx.Err() == nil; {
		var draft book.Draft
		if draft, more, err = r.commit(ctx); more {
			c.db.Budget.Wait(ctx, ceiling.Reads, ceiling.Writes)
		}
		if err == nil && len(draft.AskAgain) > 0 { // the document says by now from when on an answer is new, and the next one is newer
			if more, r.queriesAsked = true, false; early {
				err = fmt.Errorf("%w: what counts documents was asked for before others wrote the counter", ErrContention)
			}
			early = true
		}
	}
	r.report.Problem = strings.Join(append(r.problems, r.asked.problems...), "; ")
	if r.opts.budget != nil {
		r.opts.budget.spend(r.report.Reads)
	}
	if err == nil && r.idle && r.report.Right() && ctx.Err() == nil {
		if r.report.Idle, err = r.opts.RemoveIdle(ctx, counter, r.since); err != nil {
			return false, fmt.Errorf("remove it, because it is idle: %w", err)
		}
		c.memories.Remove(counter)
	}
	if err != nil || !r.removes {
		return false, err
	}
	removed := r.opts.DryRun
	if !removed {
		if removed, err = r.opts.Remove(ctx, counter, r.since); err != nil {
			return false, fmt.Errorf("remove what is left of it: %w", err)
		}
		c.memories.Remove(counter)
		again = ctx.Err() == nil && (!removed || r.remade)
	}
	if removed {
		r.report.Deleted, r.report.Gone = true, false
	}
	return again, nil
}

// commit has the document show what the counter's fields hold. It reports whether there is more to take over.
func (r *reconciling) commit(ctx context.Context) (draft book.Draft, more bool, err error) {
	c := r.client
	var moved extension.Moved
	done, err := c.books.Commit(ctx, thorough, func(ctx context.Context) (book.Draft, error) {
		moved = extension.Moved{}
		var b *book.Book
		if b, draft, err = r.find(ctx); err != nil || b == nil {
			return draft, err
		}
		if err = r.endHolds(ctx, b); err != nil {
			return draft, err
		}
		r.problems = nil
		if moved, err = extension.Take(ctx, c.db, b, nil, true); err != nil {
			return draft, err
		}
		r.unseen = moved.Unseen
		answers, err := r.answers(ctx, moved)
		if err != nil {
			return draft, err
		}
		draft = moved.Show(answers, time.Time{})
		r.problems = slices.Concat(r.problems, moved.Problems, draft.Problems)
		r.account(moved.Book, draft, answers)
		r.idle = len(draft.Writes) == 0 && r.isIdle(b)
		if r.opts.DryRun {
			draft = book.Draft{}
		}
		return draft, nil
	})
	if err == nil && done.Full {
		r.problems = append(r.problems, problemTooLarge)
	}
	if err == nil && done.Wrote && len(moved.Idle) > 0 {
		moved.Sweep(ctx, c.db)
	}
	return draft, done.Wrote && !done.Full && len(moved.Writes) == extension.AtOnce, err
}

// isIdle reports whether a counter of ours may be removed because nothing has written it for long, as far as document
// and base tell.
func (r *reconciling) isIdle(b *book.Book) bool {
	if r.opts.RemoveIdle == nil || r.opts.DryRun || r.opts.forNote || !b.Made() {
		return false
	}
	for _, field := range r.client.db.Layout.Sharded.Named() {
		if n, ok := book.Whole(b.Doc.GetFields()[field.Name]); r.opts.IdleAtZero && (!ok || n != 0) {
			return false
		}
	}
	r.since = b.At.Add(-cmp.Or(r.opts.CleanupAfter, defaultCleanupAfter))
	return !b.Version().After(r.since) && !b.BaseVersion().After(r.since)
}

// find reads the counter. If it was never rolled up, find makes its document. It returns no book if there is nothing to
// show, and then what is to be noted of that, if anything.
func (r *reconciling) find(ctx context.Context) (b *book.Book, draft book.Draft, err error) {
	r.removes, r.report.Gone = false, false // whatever an earlier attempt has found
	b, err = r.client.books.Read(ctx, r.report.Counter)
	if err == nil && b.Doc == nil && b.Unusable == nil && !b.Deleting() {
		r.report.Gone = true
		if b.HasBase() {
			return nil, r.gone(b), nil
		}
		b, err = r.make(ctx, b)
	}
	switch {
	case err != nil || b == nil || b.Doc == nil && b.Unusable == nil && !b.Deleting():
		return nil, draft, err
	case b.CheckOurs() != nil && r.opts.budget != nil && !b.HasBase():
		return nil, draft, r.foreign(ctx, b, b.Unusable)
	case b.Deleting() && b.CheckOurs() == nil: // whatever is in its shards
		return nil, draft, r.unfinished(b)
	}
	return b, draft, b.Unusable
}

// answers are those that the document must show: those that differ from what it shows, or of which nobody knows as of
// when it shows them; all counts of documents, or each walk would ask again; and for a note, or without a base, all.
func (r *reconciling) answers(ctx context.Context, taken extension.Moved) (map[string]book.Answer, error) {
	b := taken.Book
	answers, err := r.sums(ctx, b)
	if err == nil && !r.queriesAsked {
		err = r.askDueQueries(ctx, b)
		r.queriesAsked = true
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(answers, r.asked.answers)
	if r.opts.forNote || !b.HasBase() {
		return answers, nil
	}
	for _, field := range r.client.db.Layout.Sharded {
		total, err := b.Total(field, answers[field.Name])
		_, takesOver := taken.Amounts[field.Name]
		if !takesOver && err == nil && !b.AsOf(field).IsZero() && proto.Equal(total, b.Doc.GetFields()[field.Name]) {
			delete(answers, field.Name)
		}
	}
	return answers, nil
}

// sums asks for the sums of the shards, as of the time of the book. If one holds no whole number, or each is to be
// looked at, it reads the shards, and names what is wrong with them.
func (r *reconciling) sums(ctx context.Context, b *book.Book) (map[string]book.Answer, error) {
	db, collection := r.client.db, r.client.db.Layout.ShardsOf(b.Counter)
	answers, err := r.client.books.Sums(ctx, b.Counter, db.Layout.Sharded, nil, b.At)
	if err != nil {
		return nil, err
	}
	look := r.opts.each
	for _, field := range db.Layout.Sharded {
		look = look || !store.IsInteger(answers[field.Name].Value)
	}
	for _, field := range db.Layout.Sharded {
		n, numbers := book.NumShards(db.Layout, b.Doc), answers[field.Name].Numbers
		if look || n > 0 && numbers == int64(n) && field.Apart() == "" {
			continue
		}
		has, err := db.Count(ctx, collection, field.Shard, b.At)
		if err != nil {
			return nil, fmt.Errorf("count shards: %w", err)
		}
		look = has != numbers // one holds a text
	}
	if !look {
		return answers, nil
	}
	if !r.opts.each {
		r.opts.each, r.endedHolds = true, false // look for holds in all fields
		if err := r.endHolds(ctx, b); err != nil {
			return nil, err
		}
	}
	shards, err := r.client.books.Shards(ctx, db, b.Counter, b.At)
	if err != nil {
		return nil, err
	}
	if problem := r.client.problemOf(shards); problem != "" {
		r.problems = append(r.problems, problem)
	}
	return answers, nil
}

// foreign is for a document of the app's own that a walk finds among counters. It returns the error that says so if
// something is counted below the document.
func (r *reconciling) foreign(ctx context.Context, b *book.Book, others error) error {
	shards, err := r.client.db.Documents(ctx, store.Query{Collection: r.client.db.Layout.ShardsOf(b.Counter), Limit: 1, Names: true})
	if err != nil {
		return fmt.Errorf("look for shards: %w", err)
	}
	r.report.Gone = len(shards) == 0
	if r.report.Gone {
		return nil
	}
	return others
}

// endHolds ends holds that are over, for a read per field with a limit. If each shard is looked at, so are all fields:
// a restore may have lost the entries of holds.
func (r *reconciling) endHolds(ctx context.Context, b *book.Book) error {
	if r.endedHolds || r.opts.DryRun {
		return nil
	}
	r.endedHolds = true
	fields := r.client.db.Layout.Limited()
	if r.opts.each {
		fields = append(fields, r.client.db.Layout.Plain()...)
	}
	for _, field := range fields {
		if _, err := hold.In(r.client.db).End(ctx, b.Counter, field); err != nil {
			return fmt.Errorf("end holds: %w", err)
		}
	}
	return nil
}

// askDueQueries asks all queries of a counter that was named; a walk those that nothing has asked for long, within its
// budget.
func (r *reconciling) askDueQueries(ctx context.Context, b *book.Book) error {
	var due layout.Fields
	for _, field := range r.client.db.Layout.Counted {
		at := b.AsOf(field)
		old := at.IsZero() || b.At.Sub(at) >= cmp.Or(r.opts.RecountAge, defaultRecountAge)
		if r.opts.budget == nil || old && r.opts.budget.allows(b.Counter) {
			due = append(due, field)
		}
	}
	if len(due) == 0 {
		return nil
	}
	got, err := r.client.askQueries(ctx, b.Counter, due)
	if err != nil {
		return fmt.Errorf("count documents: %w", err)
	}
	r.report.Reads += got.reads
	for _, field := range due {
		if a, ok := got.answers[field.Name]; ok && field.Integer() && !store.IsInteger(a.Value) {
			if _, whole := store.Integer(a.Value); !whole {
				got.problems = append(got.problems, fmt.Sprintf("%s is no whole number, because some of the documents hold fractions: its whole part is shown; set them to integers, or show it as double", field))
			}
		}
	}
	r.asked = got
	return nil
}

// unfinished is for a counter whose deletion is under way, or was cut short.
func (r *reconciling) unfinished(b *book.Book) error {
	r.removes = r.opts.Remove != nil
	if !r.removes {
		r.problems = []string{"its deletion was not finished: delete it again"}
	}
	r.remade, r.report.Gone = b.Doc != nil, b.Doc == nil
	if r.opts.forNote && !r.removes {
		return errUnfinished
	}
	return nil
}

// make makes the document of a counter that was never rolled up, if it has shards, and reads that.
func (r *reconciling) make(ctx context.Context, b *book.Book) (made *book.Book, err error) {
	if r.opts.DryRun {
		return nil, nil
	}
	documents := false
	if r.opts.forNote { // perhaps for events of its collections
		if err := r.askDueQueries(ctx, b); err != nil {
			return nil, err
		}
		documents = anyCounted(r.asked.answers)
	}
	made, err = r.client.appear(ctx, b.Counter, documents)
	r.report.Adopted, r.report.Gone = made != nil, made == nil
	return made, err
}

// gone is for a counter whose document is missing, and notes that. If the app's own has been gone for long, the counter
// is over.
func (r *reconciling) gone(b *book.Book) (draft book.Draft) {
	r.since = b.Base.Gone
	long := !r.since.IsZero() && b.At.Sub(r.since) >= cmp.Or(r.opts.CleanupAfter, defaultCleanupAfter)
	r.removes = r.opts.Remove != nil && long && r.client.db.Layout.Hosted
	if !r.opts.DryRun && r.since.Equal(r.spared) {
		draft = b.SetGone()
	}
	return draft
}

// account says in the report what the fields were, and what they are from now on: as it was found first.
func (r *reconciling) account(b *book.Book, draft book.Draft, answers map[string]book.Answer) {
	if r.accounted {
		return
	}
	r.accounted = true
	r.report.Adopted = r.report.Adopted || !b.HasBase()
	changes := map[string]book.FieldDiff{}
	for _, change := range draft.Changes {
		changes[change.Field.Name] = change
	}
	r.report.Doubles, r.report.Fields = map[string]DoubleReport{}, map[string]FieldReport{}
	for i, field := range r.client.db.Layout.Shown() {
		c, changed := changes[field.Name]
		if !changed {
			c.Before, c.After = b.Doc.GetFields()[field.Name], b.Doc.GetFields()[field.Name]
		}
		if !field.Integer() {
			r.report.Doubles[field.Name] = DoubleReport{Before: store.Number(c.Before), After: store.Number(c.After)}
			continue
		}
		f := FieldReport{Drift: c.Drift}
		f.Before, _ = book.Whole(c.Before)
		f.After, _ = book.Whole(c.After)
		if a, asked := answers[field.Name]; asked && !b.MayShow(field) { // no field shows its total, so nothing was behind
			f.After, _ = b.Base.Total(field, a.Value)
			f.Before = f.After
		}
		f.Late = store.Sub(f.After, store.Sub(f.Before, f.Drift))
		if i == 0 {
			r.report.FieldReport = f
		} else {
			r.report.Fields[field.Name] = f
		}
	}
}

// ReconcileOptions are the choices in reconciling counters. The zero value is fine.
type ReconcileOptions struct {
	DryRun bool // only report what would be done

	// Remove removes what is left of a counter whose deletion was cut short, or whose document is missing, if nothing
	// was written into its shards after that time: shards.Client.Remove. It reports false if the counter is back, or
	// time was too short. Without it such a counter is only reported.
	Remove func(ctx context.Context, counter string, since time.Time) (removed bool, err error)

	// CleanupAfter is how long a reconcile must have found a document of the app's own missing, with nothing counted,
	// before what is below it is removed; default 24h. For RemoveIdle, how long nothing has written a counter.
	CleanupAfter time.Duration

	// RemoveIdle removes a counter that nothing has written since that time, unless something speaks against it:
	// shards.Client.RemoveIdle. A reconcile calls it where a counter is right. IdleAtZero says that it removes those
	// alone whose sums are 0.
	RemoveIdle func(ctx context.Context, counter string, since time.Time) (removed bool, err error)
	IdleAtZero bool

	// The rest is for several counters.

	// Parallel is how many counters are reconciled side by side, default 8.
	Parallel int
	// Resume goes on where the last ReconcileAll ran out of time. A dry run doesn't.
	Resume bool
	// RecountAge is when ReconcileAll asks queries again, because events may be lost: default 24h. RecountReads is how
	// many reads that, and queries never asked, may take: about 10,000 by default; none if negative.
	RecountAge   time.Duration
	RecountReads int64
	// Report is called for every counter, one call at a time, with its error; if named, also for one that isn't there.
	Report func(Report, error)

	limit  time.Duration // for one counter
	budget *walkReads    // of a walk; nil where all queries are asked
	each   bool          // look at each shard, whatever the sums say
	// for a note, which stands for events: commit in any case, so that no earlier answer is shown any more
	forNote bool
}

const (
	defaultCleanupAfter = 24 * time.Hour
	defaultRecountAge   = 24 * time.Hour
	defaultRecountReads = 10_000
)

// walkReads are the reads that a walk may spend on queries that nothing has asked for long. Where they run out, the
// next walk goes on: otherwise those of the first counters, which are due again by then, would take them each time.
type walkReads struct {
	mu      sync.Mutex
	left    int64  // the last one to take some may take more
	from    string // the first counter whose queries this walk asks; empty for all
	unasked string // the first one from there on for which nothing was left; empty if there was none
}

func (r *walkReads) spend(reads int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left -= reads
}

// allows reports whether queries of a counter are asked.
func (r *walkReads) allows(counter string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if inOrder(counter, r.from) < 0 {
		return false
	}
	if r.left > 0 {
		return true
	}
	if r.unasked == "" || inOrder(counter, r.unasked) < 0 {
		r.unasked = counter
	}
	return false
}

// first is the first counter for which no reads were left, in this call or in an earlier one of the same walk.
func (r *walkReads) first(earlier string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unasked != "" && (earlier == "" || inOrder(r.unasked, earlier) < 0) {
		return r.unasked
	}
	return earlier
}

// inOrder compares ids as walks meet them.
func inOrder(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) }

// Report is what a reconcile found of one counter, and did about it.
type Report struct {
	Counter string `json:"counter"`

	FieldReport                        // of the first field that is counted
	Fields      map[string]FieldReport `json:"fields,omitempty"` // of further ones, by their names

	// of fields that are doubles, by their names
	Doubles map[string]DoubleReport `json:"doubles,omitempty"`

	Reads int64 `json:"reads,omitempty"` // that counting documents took

	Adopted bool `json:"adopted,omitempty"` // it was never rolled up before
	Deleted bool `json:"deleted,omitempty"` // what was left of it is removed, or would be
	Gone    bool `json:"gone,omitempty"`    // there is no such counter
	Idle    bool `json:"idle,omitempty"`    // it was removed, because nothing has written it for long

	Problem string `json:"problem,omitempty"` // what keeps the total from being right, and what to do about it
}

// FieldReport is what a reconcile found of one counted field.
type FieldReport struct {
	Before int64 `json:"before"` // its total before
	After  int64 `json:"after"`  // its total now, or what it would be

	Late  int64 `json:"late"`  // of the difference, what the document was behind
	Drift int64 `json:"drift"` // what something else had added to the total; it was taken off
}

// DoubleReport is what a reconcile found in a field that holds a double, such as an average. Before and After are null
// for the average of nothing, and for a number that JSON can't hold.
type DoubleReport struct {
	Before *float64 `json:"before"`
	After  *float64 `json:"after"`
}

// Repaired reports whether anything had to be done.
func (r Report) Repaired() bool {
	for _, field := range r.fields() {
		if field.Late != 0 || field.Drift != 0 {
			return true
		}
	}
	for _, d := range r.Doubles {
		if (d.Before == nil) != (d.After == nil) || d.Before != nil && *d.Before != *d.After {
			return true
		}
	}
	return r.Adopted || r.Deleted
}

// fields are what was found of all fields that are integers.
func (r Report) fields() []FieldReport {
	return append(slices.Collect(maps.Values(r.Fields)), r.FieldReport)
}

// drift is what something else had added to all totals, summed up without signs.
func (r Report) drift() (sum int64) {
	for _, field := range r.fields() {
		sum = store.Add(sum, max(field.Drift, store.Sub(0, field.Drift)))
	}
	return sum
}

// Right reports whether nothing had to be done, and nothing is left to do.
func (r Report) Right() bool { return !r.Repaired() && r.Problem == "" }

// problemOf says what is wrong with shards that hold no whole number in a shown field; empty if nothing is.
func (c *Client) problemOf(shards book.Shards) string {
	var problems []string
	counted := false // a shard has one of the fields
	for _, field := range c.db.Layout.Sharded {
		var fractions, noNumber []string // ids of shards in which it is not an integer, or not a number
		for _, doc := range shards.Counting(field) {
			value, has := doc.GetFields()[field.Shard]
			counted = counted || has
			_, whole := store.Integer(value)
			switch _, number := store.Float(value); {
			case whole:
			case number:
				fractions = append(fractions, store.IDOf(doc.GetName()))
			default:
				noNumber = append(noNumber, store.IDOf(doc.GetName()))
			}
		}
		if len(fractions) > 0 {
			problems = append(problems, fmt.Sprintf("%q is no whole number in %s, so the total is the whole part of the sum: set it to an integer", field.Shard, list(fractions)))
		}
		if len(noNumber) > 0 {
			problems = append(problems, fmt.Sprintf("%q is no number in %s, and counts 0 there: set it to one", field.Shard, list(noNumber)))
		}
	}
	for _, field := range c.db.Layout.Limited() {
		if wrong := seats.Wrong(shards.Counting(field), field); wrong != "" {
			problems = append(problems, wrong+": set right what it counts, and set the limit again")
		}
	}
	if !counted && len(shards) > 0 && len(c.db.Layout.Sharded) > 0 {
		problems = append(problems, uncounted(c.db.Layout.Sharded, shards))
	}
	return strings.Join(problems, "; ")
}

// uncounted says that no shard has any of the fields, and which integers they have instead.
func uncounted(fields layout.Fields, shards book.Shards) string {
	var names, others []string
	for _, field := range fields {
		names = append(names, strconv.Quote(field.Shard))
	}
	for _, doc := range shards {
		for name, v := range doc.GetFields() {
			if _, ok := store.Integer(v); ok && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
	}
	slices.Sort(others)
	problem := "shards hold no integer " + strings.Join(names, " or ")
	if len(others) > 0 {
		problem += fmt.Sprintf(", but %s: set FIELDS=%s=%s", strings.Trim(fmt.Sprintf("%q", others), "[]"), fields[0].Name, others[0])
	}
	return problem
}

// list names the first few of several shards.
func list(ids []string) string {
	const few = 5
	more := ""
	if len(ids) > few {
		ids, more = ids[:few], fmt.Sprintf(" and %d more", len(ids)-few)
	}
	return fmt.Sprintf("shards %.40q%s", ids, more)
}
