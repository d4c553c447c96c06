package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

// members draws who comes and goes. It has dice of its own: what else a plan is does not depend on
// it.
func (p *Plan) members() {
	r := dice(p.Seed, "members", 0)
	on, n, sdk := r.IntN(2) == 0, 1+r.IntN(6), r.IntN(2) == 0
	often, resets := between(r, 5, 100.0), between(r, 0.5, 8)
	if !on {
		return
	}
	p.Members, p.SDK, p.Mix.Member, p.Mix.Reset = n, sdk, often, resets
	p.Environ = append(p.Environ, "MEMBERS=any")
	p.Holds = dice(p.Seed, "holds", 0).IntN(2) == 0
}

// memberBits is how many of a shard's lowest bits are for members alone, where there are any:
// increments add multiples of what is above them, so that whatever is wrong with a member shows at
// once.
const memberBits = 10

// firstBit is the lowest bit that increments may add.
func (p Plan) firstBit() int {
	if p.Members > 0 {
		return memberBits
	}
	return 0
}

// fieldOf is the name of a field in a history: "" is the first.
func fieldOf(name string) string {
	if name == "total" {
		return ""
	}
	return name
}

// nameOf is what the first field is called where it has to have a name.
func nameOf(field string) string {
	if field == "" {
		return "total"
	}
	return field
}

// member adds the change of a membership to a commit, which is one of its field alone.
func (c *Commit) member(doc Doc, change Change) {
	if doc.Field == "" {
		c.Changes = append(c.Changes, change)
		return
	}
	if c.Others == nil {
		c.Others = map[string][]Change{}
	}
	c.Others[doc.Field] = append(c.Others[doc.Field], change)
}

// membershipOf is what a membership holds.
func membershipOf(doc *firestorepb.Document) *Document {
	if doc == nil {
		return nil
	}
	until := int64(0)
	if at := doc.GetFields()["until"]; at != nil {
		until = at.GetTimestampValue().AsTime().UnixMicro()
	}
	return &Document{
		Until:     until,
		Updated:   doc.GetUpdateTime().AsTime().UnixMicro(),
		CountedOn: doc.GetFields()["shard"].GetStringValue(),
		Since:     doc.GetFields()["at"].GetTimestampValue().AsTime().UnixMicro(),
	}
}

// member is one who comes or goes, or something that is asked about members.
func (w *world) member(r *rand.Rand, id string) {
	m := w.someone(r, id)
	switch x := r.IntN(20); {
	case x < 2:
		w.look(r, m)
	case x == 2:
		w.audit(id)
	case x < 8 && w.plan.SDK && !(w.plan.Limits && m.field == "likes"): // whose shards nobody else writes
		w.toggleBySDK(r, m)
	case x < 11: // two at a time, of one mind or of two
		other := m
		other.join = r.IntN(2) == 0
		var both sync.WaitGroup
		for _, m := range []toggling{m, other} {
			r := rand.New(rand.NewPCG(r.Uint64(), 0))
			both.Go(func() { w.toggle(r, m) })
		}
		both.Wait()
	case x < 15: // it is asked for again while the first call is under way
		var all sync.WaitGroup
		for range 2 + r.IntN(2) {
			own := rand.New(rand.NewPCG(r.Uint64(), 0))
			all.Go(func() { w.toggle(own, m) })
			if !w.sleep(between(r, time.Millisecond, 20*time.Second)) {
				break
			}
		}
		all.Wait()
	default: // until there is an answer
		for range 6 {
			if w.toggle(r, m) == OK || !w.sleep(between(r, time.Millisecond, time.Minute)) {
				return
			}
		}
	}
}

// crowd is members who come and go while something is done to their counter as a whole.
func (w *world) crowd(all *sync.WaitGroup, number uint64, id string) {
	if w.plan.Members == 0 {
		return
	}
	r := dice(w.plan.Seed, "crowd", number)
	for range r.IntN(9) {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		all.Go(func() {
			if w.sleep(between(own, time.Millisecond, 10*time.Second)) {
				w.toggle(own, w.someone(own, id))
			}
		})
	}
}

// tidy is a reconcile that comes by when the app has deleted its document, and once more when what
// is below it is to go.
func (w *world) tidy(r *rand.Rand, id string) {
	if w.plan.Members == 0 || !w.plan.Hosted {
		return
	}
	for range 2 {
		if !w.sleep(between(r, time.Second, w.settings.CleanupAfter+time.Minute)) {
			return
		}
		w.reconcile([]string{id}, never)
	}
}

// someone is a member who wants something, more often to join.
func (w *world) someone(r *rand.Rand, id string) toggling {
	return toggling{counter: id, field: w.plan.Fields()[r.IntN(len(w.plan.Fields()))], member: "m" + strconv.Itoa(r.IntN(w.plan.Members)), join: r.IntN(5) < 3}
}

// toggling is what a member wants.
type toggling struct {
	counter, field, member string
	join                   bool
}

func (m toggling) path() string { return route(m.counter) + "/" + nameOf(m.field) + "/" + m.member }

func (m toggling) kind() Kind {
	if m.join {
		return Join
	}
	return Leave
}

func (m toggling) begin(w *world, kind Kind) int {
	return w.begin(Begin{Kind: kind, Counter: m.counter, Field: m.field, Member: m.member})
}

// toggle asks a function for a member to join or leave, once.
func (w *world) toggle(r *rand.Rand, m toggling) Outcome {
	to := w.increments.pick(r)
	patience := time.Minute
	if r.IntN(5) == 0 {
		patience = between(r, 10*time.Millisecond, time.Minute)
	}
	method, path, holds := http.MethodDelete, m.path(), false
	if m.join {
		method = http.MethodPut
		switch hold := r.IntN(4); {
		case w.plan.Holds && hold == 0:
			holds = true
			path += "?hold=" + between(r, time.Second, 10*time.Minute).String()
		case w.plan.Holds && hold == 1:
			return w.confirm(r, m)
		}
	}
	caller, stranger := w.callerOf(r, m.member)
	end := End{Call: w.begin(Begin{Kind: m.kind(), Counter: m.counter, Field: m.field, Member: m.member, Holds: holds, Stranger: stranger}), Outcome: Unknown}
	var answer struct {
		refusal
		Counted bool
		Detail  string
	}
	code, err := w.requestAs(caller, to, method, path, "", nil, patience, &answer)
	switch {
	case err != nil:
		end.Detail = err.Error()
	case code == http.StatusOK:
		end.Outcome, end.There = OK, !answer.Counted
	case code != http.StatusGatewayTimeout:
		end.Outcome, end.Detail, end.Full = Refused, fmt.Sprint(code, " ", answer.Detail), answer.full()
	}
	w.rec.add(end)
	return end.Outcome
}

// confirm asks a function to keep a seat that a member holds, once.
func (w *world) confirm(r *rand.Rand, m toggling) Outcome {
	to := w.increments.pick(r)
	caller, stranger := w.callerOf(r, m.member)
	end := End{Call: w.begin(Begin{Kind: Confirm, Counter: m.counter, Field: m.field, Member: m.member, Stranger: stranger}), Outcome: Unknown}
	var answer struct{ Detail, Reason string }
	code, err := w.requestAs(caller, to, http.MethodPost, m.path()+"/confirm", "", nil, time.Minute, &answer)
	switch {
	case err != nil:
		end.Detail = err.Error()
	case code == http.StatusOK:
		end.Outcome = OK
	case code != http.StatusGatewayTimeout:
		end.Outcome, end.Detail, end.Missing = Refused, fmt.Sprint(code, " ", answer.Detail), answer.Reason == "hold-ended"
	}
	w.rec.add(end)
	return end.Outcome
}

// look asks a function whether a member is there.
func (w *world) look(r *rand.Rand, m toggling) {
	to := w.increments.pick(r)
	end := End{Call: m.begin(w, Look), Outcome: Unknown}
	var answer struct {
		Joined bool
		At     time.Time
	}
	switch code, err := w.request(to, http.MethodGet, m.path(), "", nil, time.Minute, &answer); {
	case err != nil:
	case code == http.StatusOK:
		end.Outcome, end.There = OK, answer.Joined
		if answer.Joined {
			end.Since = answer.At.Add(to.link.ahead).UnixMicro()
		}
	case code == http.StatusNotFound:
		end.Outcome, end.Missing = OK, true
	}
	w.rec.add(end)
}

// audit is a command that asks what the fields of a counter are made of.
func (w *world) audit(id string) {
	l := w.newLink("audit")
	defer w.forget(l)
	i, err := newIncrement(w.dial, l, w.settings)
	if err != nil {
		w.rec.add(Stuck{What: err.Error()})
		return
	}
	defer i.end()
	counter, err := i.client.Counter(id)
	if err != nil {
		w.rec.add(Stuck{What: err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	end := End{Call: w.begin(Begin{Kind: Audit, Counter: id}), Outcome: Unknown}
	audits, err := counter.Audit(ctx)
	switch {
	case errors.Is(err, shards.ErrNotFound):
		end.Outcome, end.Missing = OK, true
	case err == nil:
		end.Outcome, end.Audits = OK, map[string]*Audited{}
		for _, a := range audits {
			end.Audits[fieldOf(a.Field)] = &Audited{Shards: a.Shards, Members: a.Members, Base: a.Base, Total: a.Total}
		}
		end.Audit = end.Audits[""]
	}
	w.rec.add(end)
}

// reset is a command, whose caller says whether members go.
func (w *world) reset(r *rand.Rand, id string) {
	if !w.plan.Auth && r.IntN(2) == 0 {
		w.resetByFunction(r, id)
		return
	}
	kind, opts := Reset, shards.ResetOptions{}
	if w.plan.Members > 0 && r.IntN(3) > 0 {
		kind, opts = ResetMembers, shards.ResetOptions{RemoveMembers: true}
	}
	w.command(r, kind, id, func(ctx context.Context, c shards.Counter) error { return c.Reset(ctx, opts) })
}

// resetByFunction asks a function for a reset, once. It is refused where there are members.
func (w *world) resetByFunction(r *rand.Rand, id string) {
	to := w.increments.pick(r)
	patience := time.Minute
	if r.IntN(5) == 0 {
		patience = between(r, 10*time.Millisecond, time.Minute)
	}
	end := End{Call: w.begin(Begin{Kind: Reset, Counter: id, Asked: true}), Outcome: Unknown}
	var answer struct {
		Reset  bool
		Detail string
	}
	code, err := w.request(to, http.MethodPost, route(id)+"/reset", "", nil, patience, &answer)
	switch {
	case err != nil:
		end.Detail = err.Error()
	case code == http.StatusOK && answer.Reset:
		end.Outcome = OK
	case code != http.StatusGatewayTimeout:
		end.Outcome, end.Detail = Refused, fmt.Sprint(code, " ", answer.Detail)
	}
	w.rec.add(end)
}

// toggleBySDK is a member who joins or leaves by a batch of its own, as firestore.rules allow it,
// sent again and again until it is answered: at once, as an SDK does whose stream breaks, or hours
// later, as an app that was closed does. Each of these is a call of its own, because each may be
// applied: when the member was toggled in between, a replay does it again.
func (w *world) toggleBySDK(r *rand.Rand, m toggling) {
	l := w.newLink("sdk")
	defer w.forget(l)
	shard := strconv.Itoa(r.IntN(4))
	if !m.join { // the undo goes where the membership says, which a listener has
		var there bool
		if shard, there = w.listen(l, m); !there {
			return
		}
	}
	for range 1 + r.IntN(6) {
		end := End{Call: m.begin(w, m.kind()), Outcome: Unknown}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := l.call(ctx, "Commit", func(ctx context.Context, _ fate) error { return w.evaluate(ctx, m, shard) })
		cancel()
		switch status.Code(err) {
		case codes.OK:
			end.Outcome = OK
		case codes.PermissionDenied, codes.Aborted:
			end.Outcome, end.Detail = Refused, err.Error()
		default:
			end.Detail = err.Error()
		}
		w.rec.add(end)
		longest := time.Minute
		if r.IntN(4) == 0 {
			longest = 5 * time.Hour
		}
		if end.Outcome == OK || status.Code(err) == codes.PermissionDenied || !w.sleep(between(r, time.Millisecond, longest)) {
			return
		}
	}
}

// listen is the shard that a membership names, and whether there is one.
func (w *world) listen(l *link, m toggling) (shard string, there bool) {
	conn, err := l.connect(w.dial)
	if err != nil {
		return "", false
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	doc, err := firestorepb.NewFirestoreClient(conn).GetDocument(ctx, &firestorepb.GetDocumentRequest{Name: m.document()})
	return doc.GetFields()["shard"].GetStringValue(), err == nil
}

// document is the name of the membership.
func (m toggling) document() string {
	return counterName(m.counter) + "/" + nameOf(m.field) + "_members/" + m.member
}

var errDenied = status.Error(codes.PermissionDenied, "simulated: Missing or insufficient permissions.")

// evaluate is the server's side of such a batch: what firestore.rules ask for, as conditions of the
// commit, or else as looks at documents whose versions are.
func (w *world) evaluate(ctx context.Context, m toggling, shard string) error {
	conn, err := w.server.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	firestore := firestorepb.NewFirestoreClient(conn)
	get := func(name string) *firestorepb.Document {
		doc, err := firestore.GetDocument(ctx, &firestorepb.GetDocumentRequest{Name: name})
		if err != nil {
			return nil
		}
		return doc
	}
	field := m.field
	if field == "" {
		field = "count"
	}
	for {
		on := get(path.Join(counterName(m.counter), "shards", shard))
		if _, double := on.GetFields()[field].GetValueType().(*firestorepb.Value_DoubleValue); on == nil || double {
			return errDenied
		}
		for name := range on.GetFields() {
			if strings.HasPrefix(name, "share(") { // it may hold nothing but counts
				return errDenied
			}
		}
		by, write := int64(1), store.Create(m.document(), map[string]*firestorepb.Value{
			"member": store.String(m.member), "shard": store.String(shard),
		}, store.ServerTime("at"))
		if !m.join {
			was := get(m.document())
			home := was.GetFields()["shard"].GetStringValue()
			if get(path.Join(counterName(m.counter), "shards", home)) == nil {
				home = "0"
			}
			if was == nil || home != shard {
				return errDenied
			}
			by, write = -1, store.Delete(m.document())
			write.CurrentDocument = store.IfVersion(was.GetUpdateTime().AsTime())
		}
		_, err := firestore.Commit(ctx, &firestorepb.CommitRequest{Database: database, Writes: []*firestorepb.Write{
			write, store.Update(on.GetName(), store.IfVersion(on.GetUpdateTime().AsTime()), nil, nil, store.Increment(field, by)),
		}})
		switch status.Code(err) {
		case codes.FailedPrecondition, codes.NotFound: // one of them has changed
		case codes.AlreadyExists:
			return errDenied
		default:
			return err
		}
	}
}
