package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/internal/store"
)

// late is how old a shard's write is before doctor says that it should be in the total. An event takes about a second
// and a refresh at most five; an event that failed comes again after ten at the earliest.
const late = time.Minute

func (f *findings) counters(d *Deployment) {
	if d.Counters == nil {
		return
	}
	if names := d.layout(); names.CheckSums() != nil && names.Path.Whole() && !names.Hosted && len(d.Counters.Read) == 0 {
		id, _ := names.Path.ID(names.Path.String())
		f.add("counter-missing", id, "there is no document "+names.Path.String(), lines(d.counters("create", id), d.counters("reconcile", id)))
	}
	if d.Counters.Extension != nil {
		f.add("extension-runs", d.Target.Counters, d.Counters.Extension.Error(), line("firebase", "ext:uninstall", "firestore-counter", "--project="+d.Target.Project))
	}
	for _, n := range d.Counters.Noted {
		f.add("counter-noted", n.Counter, fmt.Sprintf("since %s, tried %s: %s", n.Since.UTC().Format(time.RFC3339), terminal.Count(int(n.Tries), "time"), n.Why), d.counters("reconcile", n.Counter))
	}
	for _, c := range d.Counters.Read {
		switch field := c.otherField(d.layout().Sharded); {
		case c.Deleting():
			if age := c.At.Sub(c.BaseVersion()); age > late {
				f.add("deletion-unfinished", c.Counter, fmt.Sprintf("it was marked as being deleted %s ago, and still has %s", age.Round(time.Second), terminal.Count(len(c.Shards), "shard")),
					d.counters("reconcile", c.Counter))
			}
			continue
		case d.Target.Hosted && c.Doc == nil:
			f.left(d, c)
			continue
		case field != "":
			f.add("count-field-differs", c.Counter, fmt.Sprintf("shards hold no integer %q, but %q: set FIELDS=%s", d.layout().Sharded[0].Shard, field, terminal.Quote(d.countedIn(field))), d.setCountField(c.Counter, field))
			continue
		}
		for _, field := range d.layout().Shown() {
			f.kept(d, c, field.Name)
		}
		f.shards(d, c)
		switch {
		case errors.Is(c.Unusable, book.ErrOthers):
			f.add("base-others", c.Counter, c.Unusable.Error(), "")
		case c.Unusable != nil:
			name := "base-invalid"
			if errors.Is(c.Unusable, book.ErrFormat) {
				name = "base-format"
			}
			f.add(name, c.Counter, c.Unusable.Error(), lines(d.deleteBase(c.Counter), d.counters("reconcile", c.Counter)))
		case !c.HasBase():
			f.add("base-missing", c.Counter, c.unadopted(d.layout().Sharded), d.counters("reconcile", c.Counter))
		default:
			for _, field := range d.layout().Limited() {
				if wrong := seats.Wrong(c.Shards.Counting(field), field); wrong != "" {
					f.add("limit-unclear", c.Counter, wrong, "")
				}
			}
			f.totals(d, c)
			f.recounts(d, c)
		}
	}
}

// held is what the counter's document has in a field.
func (c *Counter) held(field string) Held { return held(c.Doc, field) }

// kept names a field that holds what no total replaces.
func (f *findings) kept(d *Deployment, c Counter, field string) {
	if !c.held(field).Kept {
		return
	}
	if c.held(field).List && d.Target.Hosted && slices.Contains(d.layout().Sharded.Names(), field) {
		f.add("field-not-a-number", c.Counter, fmt.Sprintf("its %s is a list, and no total replaces that; if it lists user ids, the command makes them members", field),
			line(d.command("import members", "--path="+d.Target.Place.Counters, "--field="+field)...))
		return
	}
	f.add("field-not-a-number", c.Counter, fmt.Sprintf("%s, and no total replaces that: delete the field, or show the total in another (FIELDS)", c.total(field)), "")
}

// recounts looks at the fields that count documents.
func (f *findings) recounts(d *Deployment, c Counter) {
	for _, field := range d.layout().Counted {
		now, held, mend := c.Recounts[field.Name], c.held(field.Name), d.counters("reconcile", c.Counter)
		written := c.Written(field)
		right, counted := held.integer() && held.Count == written.GetIntegerValue(), now.Count == held.Count
		shows, should, came := c.total(field.Name), fmt.Sprint(written.GetIntegerValue()), fmt.Sprint(now.Count)
		if !field.Integer() { // such as an average
			number := store.Number(written)
			right, counted = held.There && sameNumber(held.Number, number), nearly(now.Number, number)
			shows, should, came = fmt.Sprintf("its %s is %s", field.Name, terminal.Number(held.Number)), terminal.Number(number), terminal.Number(now.Number)
		}
		switch {
		case held.Kept: // which is said
		case now.Never:
			f.add("recount-impossible", c.Counter, fmt.Sprintf("%s can't be counted: %s", field, now.Refused), "")
		case now.Refused != "" && d.unindexed(field.Counted): // which is said once, of the index
		case now.Refused != "":
			f.add("recount-refused", c.Counter, fmt.Sprintf("%s can't be counted: %s", field, now.Refused), d.composite(field.Counted))
		case written == nil && (now.Slow || !held.There || !nearly(held.Number, now.Number)):
			f.add("field-not-counted", c.Counter, c.total(field.Name)+", and it doesn't say as of when", mend)
		case written == nil: // it is right, whoever wrote it
		case now.Bad != "" && field.Integer(): // a whole double counts as the integer that it is
			f.add("recount-not-integer", c.Counter, fmt.Sprintf("%s comes to %s%s", field, now.text(), now.because()), mend)
		case !right:
			f.add("total-differs", c.Counter, fmt.Sprintf("%s, and should be %s: another program has written it%s", shows, should, d.perhapsTheApp()), mend)
		case !now.Slow && !counted:
			f.add("recount-waiting", c.Counter, fmt.Sprintf("%s, and %s came to %s when doctor counted", shows, field.Counted, came), mend)
		}
	}
}

func sameNumber(a, b *float64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// nearly is sameNumber of two queries, which may have added the same doubles up in another order.
func nearly(a, b *float64) bool {
	return sameNumber(a, b) || a != nil && b != nil && math.Abs(*a-*b) <= 1e-9*max(math.Abs(*a), math.Abs(*b))
}

// because says which documents a sum that is no integer has that from.
func (r Recount) because() string {
	switch {
	case len(r.Fractions) > 0:
		return ": " + strings.Join(r.Fractions, ", ")
	case r.Searched > 0:
		return fmt.Sprintf(", by none of the first %d documents", r.Searched)
	}
	return ""
}

// composite makes the index that an aggregation needs, as `counters deploy` does, or gives a field its
// own back.
func (d *Deployment) composite(a *layout.Aggregation) string {
	if p := d.indexOf(a); p != nil {
		return p.mend()
	}
	if index := settings.IndexOf(a, d.enterprise()); index != "" { // which could not be read
		return d.made("the composite index of "+index, "the index of "+strings.Join(strings.Split(index, " COLLECTION_GROUP "), ".")+" in the collection group")
	}
	field := a.Sum // those that Firestore makes by itself do, so one of them is turned off
	if len(a.Where) > 0 {
		field = a.Where[0].Field
	}
	return line("gcloud", "firestore", "indexes", "fields", "update", field, "--project="+d.Target.Project, "--database="+d.Target.Database, "--collection-group="+a.Collection, "--clear-exemption")
}

func (h Held) integer() bool { return h.There && h.Bad == "" && !h.Double }

// text is what is held.
func (h Held) text() string {
	switch {
	case !h.There:
		return "nothing"
	case h.Bad != "":
		return h.Bad
	case h.Double:
		return fmt.Sprintf("%d as a double", h.Count)
	default:
		return strconv.FormatInt(h.Count, 10)
	}
}

// left looks at what lies below a document of the app's own that is gone.
func (f *findings) left(d *Deployment, c Counter) {
	after := d.cleanupAfter()
	seen := fmt.Sprintf("its document is gone, and %s below it wait for a reconcile that sees it", terminal.Count(len(c.Shards), "shard"))
	if !c.Base.Gone.IsZero() {
		gone := c.At.Sub(c.Base.Gone)
		seen = fmt.Sprintf("its document has been gone for %s at least, and %s below it wait until that is %s", gone.Round(time.Second), terminal.Count(len(c.Shards), "shard"), after)
		if gone > after+overdue {
			f.add("cleanup-overdue", c.Counter, seen, d.counters("reconcile", c.Counter))
			return
		}
	}
	f.add("cleanup-waiting", c.Counter, seen, d.counters("reconcile", c.Counter))
}

// overdue is how long Reconcile may take to come by, where it is called less often than each hour
// too.
const overdue = 24 * time.Hour

// cleanupAfter is how long a document of the app's own has to be gone.
func (d *Deployment) cleanupAfter() time.Duration {
	var env map[string]string
	if d.Functions != nil && d.Functions.Reconcile != nil {
		env = d.Functions.Reconcile.Env
	}
	parsed, err := parse(env)
	if err != nil { // with which Reconcile doesn't start
		parsed, _ = parse(nil)
	}
	return parsed.CleanupAfter
}

// total is what the document says of a counted field.
func (c *Counter) total(field string) string {
	if held := c.held(field); held.There {
		return fmt.Sprintf("its %s is %s", field, held.text())
	}
	return "it has no " + field
}

// unadopted says of each field what the document and the shards hold.
func (c *Counter) unadopted(fields layout.Fields) string {
	seen := make([]string, len(fields))
	for i, field := range fields {
		seen[i] = fmt.Sprintf("%s, and its shards add up to %s", c.total(field.Name), c.sum(field))
	}
	if len(seen) == 0 {
		return "its documents have not been counted yet"
	}
	return strings.Join(seen, "; ")
}

// totals compares what a counter's document shows with what its base and its shards come to. A number that isn't the
// one that Rollup wrote there is another program's. What was written to shards after that may be on its way.
func (f *findings) totals(d *Deployment, c Counter) {
	for _, field := range d.layout().Sharded {
		held, mend := c.held(field.Name), d.counters("reconcile", c.Counter)
		shown := c.Written(field)
		total, known := c.Base.Total(field, c.Shards.SumOf(field))
		behind, waited := c.behind(field)
		var seen []string
		switch {
		case held.Kept: // which is said
			continue
		case !known:
			seen = append(seen, "no integer holds that, so it isn't shown")
		case shown == nil && !held.There:
			f.add("field-not-counted", c.Counter, c.total(field.Name)+" yet", mend)
			continue
		case shown == nil && waited > late:
			f.add("field-not-counted", c.Counter, fmt.Sprintf("%s, and it doesn't say as of when: base and shards come to %d", c.total(field.Name), total), mend)
			continue
		case shown == nil && (behind == 0 || waited > 0): // or it may be on its way
			continue
		case !held.integer():
			seen = append(seen, "it is missing, or not an integer")
		case held.Count != cmp.Or(shown, store.Int(total)).GetIntegerValue():
			drift := store.Sub(held.Count, cmp.Or(shown, store.Int(total)).GetIntegerValue())
			seen = append(seen, fmt.Sprintf("%+d was written by another program%s", drift, d.perhapsTheApp()))
		}
		if behind != 0 && waited > late {
			seen = append(seen, fmt.Sprintf("%+d in its shards has been waiting to be counted for %s", behind, waited.Round(time.Second)))
		}
		if len(seen) > 0 {
			f.add("total-differs", c.Counter, fmt.Sprintf("%s, and should be %s: %s", c.total(field.Name), c.sum(field), strings.Join(seen, "; ")), mend)
		}
	}
}

// sum is what a field's base and shards come to.
func (c *Counter) sum(field layout.Field) string {
	if total, known := c.Base.Total(field, c.Shards.SumOf(field)); known {
		return strconv.FormatInt(total, 10)
	}
	return "beyond ±2⁶³"
}

// behind is what base and shards come to beyond the number that was written last, and for how long that has been so.
func (c *Counter) behind(field layout.Field) (sum int64, waited time.Duration) {
	written := c.held(field.Name).Count
	if shown := c.Written(field); shown != nil {
		written = shown.GetIntegerValue()
	}
	total, known := c.Base.Total(field, c.Shards.SumOf(field))
	if !known || total == written {
		return 0, 0
	}
	_, waited = Waiting(c.Book, field, c.Shards)
	return store.Sub(total, written), waited
}

// Waiting are the names of the shards that were written after what the document shows of a field, and for how long the
// first of them waits. Where nobody knows as of when that is, these are the shards that hold something. Without one, as
// where a shard was deleted or the base changed, the field has waited since it was shown.
func Waiting(b *book.Book, field layout.Field, shards book.Shards) (names []string, longest time.Duration) {
	asOf := b.AsOf(field)
	for _, shard := range shards {
		at := shard.GetUpdateTime().AsTime()
		if n, _ := store.Float(shard.GetFields()[field.Shard]); at.After(asOf) && (n != 0 || !asOf.IsZero()) {
			names = append(names, shard.GetName())
			longest = max(longest, b.At.Sub(at))
		}
	}
	if longest == 0 && !asOf.IsZero() {
		longest = b.At.Sub(asOf)
	}
	return names, longest
}

func (d *Deployment) perhapsTheApp() string {
	if d.Target.Hosted {
		return ", such as an app that writes a whole document back"
	}
	return ""
}

// shards looks at the shards by themselves.
func (f *findings) shards(d *Deployment, c Counter) {
	var above []string
	var most int
	numShards := book.NumShards(d.layout(), c.Doc)
	for _, shard := range c.Shards {
		id, holds := store.IDOf(shard.GetName()), false
		for _, field := range d.layout().Sharded {
			if !field.CountedIn(id) {
				continue
			}
			held := held(shard, field.Shard)
			holds = holds || held.Count != 0 || held.Bad != ""
			switch {
			case held.Bad != "":
				f.add("shard-count-not-number", c.Counter, fmt.Sprintf("shard %s holds %s in %s", terminal.Quote(id), held.Bad, field.Shard), d.setCount(shard, field))
			case held.Double:
				f.add("shard-count-double", c.Counter, fmt.Sprintf("shard %s holds %d in %s as a double", terminal.Quote(id), held.Count, field.Shard), d.setCount(shard, field))
			}
		}
		// Those that a resize has kept, for clients whose writes still wait, hold nothing.
		if n, ok := layout.ShardNumber(id); ok && numShards > 0 && n >= numShards && holds {
			above = append(above, id)
			most = max(most, n+1)
		}
	}
	if len(above) > 0 {
		slices.Sort(above)
		f.add("shards-above-number", c.Counter, fmt.Sprintf("%s is %d, and there are shards %s", layout.NumShards, numShards, strings.Join(above, ", ")),
			d.counters("resize", c.Counter, fmt.Sprintf("--shards=%d", most)))
	}
}

// otherField is the field that the shards count in, where none has any that is expected: Google's
// snippet for Go writes Count. It is empty where there is no such field, or more than one.
func (c *Counter) otherField(fields layout.Fields) string {
	var other string
	if len(fields) == 0 {
		return ""
	}
	for _, shard := range c.Shards {
		for name, value := range shard.GetFields() {
			_, integer := store.Integer(value)
			switch counted := slices.ContainsFunc(fields, func(field layout.Field) bool { return field.Shard == name }); {
			case counted, integer && other != "" && name != other:
				return ""
			case integer:
				other = name
			}
		}
	}
	return other
}

// countedIn is FIELDS with another field of the shards for the first.
func (d *Deployment) countedIn(field string) string {
	fields := slices.Clone(d.Target.fields())
	first := slices.IndexFunc(fields, func(field layout.Field) bool { return field.Counted == nil })
	fields[first].Shard = field
	return fields.String()
}

// setCountField lets all functions count in another field; where there are none, a command does.
func (d *Deployment) setCountField(id, field string) string {
	if len(d.Functions.all()) > 0 {
		return d.recounted(d.with("FIELDS", d.countedIn(field)))
	}
	there := *d
	there.Target.Fields = d.countedIn(field)
	return there.counters("reconcile", id)
}

// recounted reconciles after a command that sets FIELDS: what only a revision with other fields saw is missing until
// then.
func (d *Deployment) recounted(command string) string {
	if job := d.reconcileJob(); job != nil {
		return lines(command, d.job("run", path.Base(job.Text("name"))))
	}
	return command
}

// address is a document's in Firestore's REST API.
func (d *Deployment) address(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	server := "https://firestore.googleapis.com"
	if d.Target.Emulator != "" {
		server = "http://" + d.Target.Emulator
	}
	return server + "/v1/" + strings.Join(parts, "/")
}

func (d *Deployment) layout() layout.Layout {
	path, _ := layout.ParsePath(d.Target.Counters) // whose counters have been read
	names := layout.Layout{Database: "projects/" + d.Target.Project + "/databases/" + d.Target.Database, Path: path, Shards: d.Target.Shards, Hosted: d.Target.Hosted, Extension: d.Target.Extension}
	names.Sharded, names.Counted = d.Target.fields().Split()
	return names
}

// curl begins a command that acts as the account that gcloud is logged in with, or as an emulator's
// owner.
func (d *Deployment) curl() string {
	if d.Target.Emulator != "" {
		return `curl --fail -H "Authorization: Bearer owner" `
	}
	return `curl --fail -H "Authorization: Bearer $(gcloud auth print-access-token)" `
}

// deleteBase deletes a base that can't be used.
func (d *Deployment) deleteBase(id string) string {
	return d.curl() + line("-X", "DELETE", d.address(d.layout().BaseOf(id)))
}

// setCount writes a shard's count: the integer nearest to what it holds, or 0 where that is no number. The document's
// other fields stay, and so does all of it where it has been written since.
func (d *Deployment) setCount(shard *firestorepb.Document, field layout.Field) string {
	held := held(shard, field.Shard)
	count := held.Count
	if held.Nearest != nil {
		count = *held.Nearest
	}
	body := fmt.Sprintf(`{"fields":{%q:{"integerValue":"%d"}}}`, field.Shard, count)
	query := url.Values{"updateMask.fieldPaths": {layout.FieldPath(field.Shard)}, "currentDocument.updateTime": {shard.GetUpdateTime().AsTime().Format(time.RFC3339Nano)}}
	return d.curl() + line("-X", "PATCH", "-H", "Content-Type: application/json", "-d", body, d.address(shard.GetName())+"?"+query.Encode())
}
