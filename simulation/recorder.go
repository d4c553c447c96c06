package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
)

// recorder writes a history.
type recorder struct {
	fields  []string // that are counted beside the first
	nested  bool     // counters are below teams
	notes   string   // how names of this deployment's notes begin
	asked   []string // keys of the fields that the newest revision shows
	mu      sync.Mutex
	history History
	faults  Faults
}

func (r *recorder) fault(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[kind]++
}

func (r *recorder) add(what any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, Entry{At: time.Now(), What: what})
}

// commit records what the server tells of a commit.
func (r *recorder) commit(changes []emulator.Change) {
	c := Commit{At: changes[0].CommitTime}
	for _, change := range changes {
		if _, name, _ := strings.Cut(change.Name, "/documents/"); r.notes != "" && strings.HasPrefix(name, r.notes) {
			there := func(doc *firestorepb.Document) bool {
				left := doc.GetFields()["left"] != nil // since when, to a revision that has one of these fields
				return doc != nil && (!left || slices.ContainsFunc(doc.GetFields()["asked"].GetArrayValue().GetValues(), func(key *firestorepb.Value) bool {
					return slices.Contains(r.asked, key.GetStringValue())
				}))
			}
			if there(change.Old) != there(change.New) {
				r.add(Noted{Counter: cmp.Or(change.New, change.Old).GetFields()["counter"].GetStringValue(), There: there(change.New)})
			}
			continue
		}
		if isReply(change.Name) {
			c.Counted = append(c.Counted, repliesOf(change, r.nested)...)
			c.Replies = append(c.Replies, replyOf(change.Name))
			continue
		}
		doc, ok := docOf(change.Name)
		old, before, was := recordOf(change.Old)
		hold, after, is := recordOf(change.New)
		switch {
		case was || is:
			if !is {
				hold = old
			}
			c.member(hold, Change{Doc: hold, Before: before, After: after})
		case doc.Kind == "member":
			c.member(doc, Change{Doc: doc, Before: membershipOf(change.Old), After: membershipOf(change.New)})
		case doc.Kind == "counted":
			c.Counted = append(c.Counted, countedChange(change, doc))
		case ok:
			c.Changes = append(c.Changes, Change{Doc: doc, Before: documentOf(change.Old, ""), After: documentOf(change.New, "")})
			for _, field := range r.fields {
				if c.Others == nil {
					c.Others = map[string][]Change{}
				}
				c.Others[field] = append(c.Others[field], Change{Doc: doc, Before: documentOf(change.Old, field), After: documentOf(change.New, field)})
			}
		}
	}
	if len(c.Changes)+len(c.Others)+len(c.Counted)+len(c.Replies) > 0 {
		r.add(c)
	}
}

// docOf reads the name of a document in the public layout. That is done here again, and not by the
// system's own code, so that a mistake there is no mistake here.
func docOf(name string) (Doc, bool) {
	_, name, _ = strings.Cut(name, "/documents/")
	p := strings.Split(name, "/")
	if p[0] == "_firebase_ext_" {
		return Doc{Kind: "extension"}, true
	}
	if p[0] == "pages" {
		id := strings.ReplaceAll(p[1], "|", "/")
		if len(p) == 4 && p[2] == "_counter_shards_" {
			return Doc{Kind: "source shard", Counter: id, Shard: p[3]}, true
		}
		return Doc{Kind: "source", Counter: id}, len(p) == 2
	}
	id, below, ok := counterOf(p)
	switch {
	case !ok:
		return Doc{}, false
	case len(below) == 0:
		return Doc{Kind: "counter", Counter: id}, true
	case len(below) != 2:
		return Doc{}, false
	case below[0] == "_counter_shards_":
		return Doc{Kind: "source shard", Counter: id, Shard: below[1]}, true
	case below[0] == "shards":
		return Doc{Kind: "shard", Counter: id, Shard: below[1]}, true
	case slices.Contains(countedCollections, below[0]):
		return countedDoc(id, below[0], below[1]), true
	case below[0] == "counter_rollup" && below[1] == "base":
		return Doc{Kind: "base", Counter: id}, true
	case strings.HasSuffix(below[0], "_members"):
		return Doc{Kind: "member", Counter: id, Field: fieldOf(strings.TrimSuffix(below[0], "_members")), Member: below[1]}, true
	}
	return Doc{}, false
}

// documentOf is what a document holds of a field; "" is the first, which is total in the counter's
// document and count in shards.
func documentOf(doc *firestorepb.Document, field string) *Document {
	if doc == nil {
		return nil
	}
	f := doc.GetFields()
	shown, counted := "total", "count"
	if field != "" {
		shown, counted = field, field
	}
	if kind, _ := docOf(doc.GetName()); kind.Kind == "base" {
		d := &Document{Updated: doc.GetUpdateTime().AsTime().UnixMicro()}
		if d.Deleting = f["ending"].GetBooleanValue(); d.Deleting {
			d.Since = d.Updated
		} else if since := f["ending"].GetTimestampValue(); since != nil {
			d.Deleting, d.Since = true, since.AsTime().UnixMicro()
		}
		return d
	}
	own := maps.Clone(f["counter_rollup"].GetMapValue().GetFields()) // where the document is the app's
	if own == nil {
		own = map[string]*firestorepb.Value{}
	}
	maps.Copy(own, f)
	d := &Document{
		Updated:   doc.GetUpdateTime().AsTime().UnixMicro(),
		Total:     integer(f[shown]),
		NumShards: integer(own["num_shards"]),
		Count:     integer(f[counted]),
		Title:     f["title"].GetIntegerValue(),
		Hearts:    integer(f[olderLikes]),
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if !slices.Contains([]string{"total", "likes", olderLikes, "title", "counter_rollup", "likes_limit"}, name) && !slices.Contains(countedNames, name) {
			d.Others = append(d.Others, name)
		}
	}
	if field == "" {
		d.withCounted(f)
	}
	kind, _ := docOf(doc.GetName())
	d.Bare = kind.Kind == "counter" && f[shown] == nil
	if n := f[counted]; n != nil {
		d.Has = true
		if d.Double, d.Odd = isDouble(n), !whole(n); d.Odd {
			d.Count, d.Rest, d.What = 0, n.GetDoubleValue(), fmt.Sprintf("%T %v", n.GetValueType(), n.GetDoubleValue())
		}
		if math.Abs(d.Rest) >= 1<<53 || math.IsNaN(d.Rest) { // JSON has no infinities
			d.Rest, d.Endless = 0, true
		}
	}
	if kind.Kind == "source" || kind.Kind == "source shard" {
		d.Count, d.Odd, d.Double, d.Rest, d.What = oldAmount(doc, field), false, false, 0, ""
	}
	limit := f[shown+"_limit"]
	d.Limited, d.Limit = limit != nil, integer(limit)
	share := f["share("+counted+")"]
	d.Shared, d.Share, d.Joined = share != nil, integer(share), integer(f["members("+counted+")"])
	d.Held = integer(f["held("+counted+")"])
	return d
}

// integer is the integer that a field stands for: one client's increment(1.0) makes it a double for
// good.
func integer(v *firestorepb.Value) int64 {
	if f := v.GetDoubleValue(); f != 0 {
		return int64(f)
	}
	return v.GetIntegerValue()
}
