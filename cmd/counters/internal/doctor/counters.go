package doctor

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// late is how old a shard's state is before doctor says that it should have been counted. An event takes about a second
// and a flush at most five; one that failed comes again after ten at the earliest.
const late = time.Minute

func (f *findings) counters(d *Deployment) {
	if d.Counters == nil {
		return
	}
	for _, c := range d.Counters.Read {
		if c.Deleting {
			if age := c.At.Sub(c.Changed); age > late {
				f.add("deletion-unfinished", c.ID, fmt.Sprintf("it was marked as being deleted %s ago, and still has %s", age.Round(time.Second), count(len(c.Shards), "shard")),
					d.counters("reconcile", c.ID))
			}
			continue
		}
		if field := c.otherField(); field != "" {
			f.add("count-field-differs", c.ID, fmt.Sprintf("shards hold no integer %q, but %q: set FIELDS=%s", d.Target.first().Shard, field, d.countedIn(field)), d.setCountField(c.ID, field))
			continue
		}
		f.shards(d, c)
		switch {
		case c.BadLedger != "":
			f.add("ledger-invalid", c.ID, c.BadLedger, lines(d.deleteLedger(c.ID), d.counters("reconcile", c.ID)))
		case c.Ledger == nil:
			f.add("ledger-missing", c.ID, fmt.Sprintf("%s, and its shards add up to %d", c.total(), c.sum()), d.counters("reconcile", c.ID))
		default:
			f.total(d, c)
		}
	}
}

// sumOf is what the ledger has of the first field.
func (c *Counter) sumOf() *ledger.Sum {
	if sum := c.Ledger.Sums[c.Field]; sum != nil {
		return sum
	}
	return &ledger.Sum{}
}

func (c *Counter) total() string {
	if !c.HasTotal {
		return "it has no total"
	}
	return fmt.Sprintf("its total is %d", c.Total)
}

func (c *Counter) sum() int64 {
	var sum int64
	for _, s := range c.Shards {
		sum += s.Count
	}
	return sum
}

// total compares a counter's total with what it is made of. The total and the ledger are always written together, so
// that any difference between the two is another program's. A shard that is ahead of the ledger may be on its way.
func (f *findings) total(d *Deployment, c Counter) {
	drift := c.Total - c.sumOf().Total()
	behind, oldest := c.behind()
	var seen []string
	if !c.HasTotal {
		seen = append(seen, "it is missing, or not an integer")
	} else if drift != 0 {
		seen = append(seen, fmt.Sprintf("%+d was written by another program", drift))
	}
	if behind != 0 {
		seen = append(seen, fmt.Sprintf("%+d in its shards has been waiting to be counted for %s", behind, oldest.Round(time.Second)))
	}
	if len(seen) > 0 {
		f.add("total-differs", c.ID, fmt.Sprintf("%s, and should be %d: %s", c.total(), c.sumOf().Total()+behind, strings.Join(seen, "; ")), d.counters("reconcile", c.ID))
	}
}

// behind is what the shards hold beyond the ledger for longer than is usual, and for how long at most.
func (c *Counter) behind() (sum int64, oldest time.Duration) {
	there := map[string]bool{}
	for _, s := range c.Shards {
		there[ledger.Key(s.ID)] = true
		known := c.sumOf().Shards[ledger.Key(s.ID)] // a shard that is unknown to the ledger counts at any age
		age := c.At.Sub(s.Updated)
		if s.Bad == "" && s.Count != known.Count && s.Updated.After(known.AsOf) && age > late {
			sum += s.Count - known.Count
			oldest = max(oldest, age)
		}
	}
	for id, known := range c.sumOf().Shards {
		// When it was deleted is not known. While the ledger is being written, its event is likely on its way.
		if age := c.At.Sub(c.Ledger.Updated); !there[id] && known.Count != 0 && age > late {
			sum -= known.Count
			oldest = max(oldest, age)
		}
	}
	return sum, oldest
}

// shards looks at the shards by themselves.
func (f *findings) shards(d *Deployment, c Counter) {
	var above []string
	var most int64
	for _, s := range c.Shards {
		if n, err := strconv.ParseInt(s.ID, 10, 64); err == nil && c.NumShards > 0 && n >= c.NumShards {
			above = append(above, s.ID)
			most = max(most, n+1)
		}
		if s.Bad != "" {
			f.add("shard-count-not-number", c.ID, fmt.Sprintf("shard %s holds %s in %s", s.ID, s.Bad, d.Target.first().Shard), d.setCount(c, s))
		}
	}
	if len(above) > 0 {
		slices.Sort(above)
		f.add("shards-above-number", c.ID, fmt.Sprintf("%s is %d, and there are shards %s", store.NumShards, c.NumShards, strings.Join(above, ", ")),
			d.counters("resize", c.ID, fmt.Sprintf("--shards=%d", most)))
	}
}

// otherField is the field that the shards count in, where none has the one that is expected: Google's snippet for Go
// writes Count. It is empty where there is no such field, or more than one.
func (c *Counter) otherField() string {
	var field string
	for _, s := range c.Shards {
		if s.Counted || len(s.Others) != 1 || field != "" && s.Others[0] != field {
			return ""
		}
		field = s.Others[0]
	}
	return field
}

// countedIn is FIELDS with another field of the shards for the first.
func (d *Deployment) countedIn(field string) string {
	fields := slices.Clone(d.Target.fields())
	first := slices.IndexFunc(fields, func(field store.Field) bool { return field.Counted == nil })
	fields[first].Shard = field
	return fields.String()
}

// setCountField lets all functions count in another field; where there are none, a command does.
func (d *Deployment) setCountField(id, field string) string {
	var fixes []string
	for _, function := range d.Functions.all() {
		fixes = append(fixes, d.setEnv(function, "FIELDS", d.countedIn(field)))
	}
	if len(fixes) == 0 {
		there := *d
		there.Target.Fields = d.countedIn(field)
		fixes = append(fixes, there.counters("reconcile", id))
	}
	return lines(fixes...)
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

func (d *Deployment) layout() store.Layout {
	path, _ := store.ParsePath(d.Target.Path) // whose counters have been read
	layout := store.Layout{Database: "projects/" + d.Target.Project + "/databases/" + d.Target.Database, Path: path, Shards: d.Target.Shards, Hosted: d.Target.Hosted}
	layout.Fields, layout.Counted = d.Target.fields().Split()
	return layout
}

// curl begins a command that acts as the account that gcloud is logged in with, or as an emulator's owner.
func (d *Deployment) curl() string {
	if d.Target.Emulator != "" {
		return `curl --fail -H "Authorization: Bearer owner" `
	}
	return `curl --fail -H "Authorization: Bearer $(gcloud auth print-access-token)" `
}

// setCount writes a shard's count: the integer nearest to what it holds, or else what is counted of it, as far as that is
// known. The document's other fields stay.
func (d *Deployment) setCount(c Counter, s Shard) string {
	var count int64
	if s.Nearest != nil {
		count = *s.Nearest
	} else if c.Ledger != nil {
		count = c.sumOf().Shards[ledger.Key(s.ID)].Count
	}
	body := fmt.Sprintf(`{"fields":{%q:{"integerValue":"%d"}}}`, d.Target.first().Shard, count)
	return d.curl() + line("-X", "PATCH", "-H", "Content-Type: application/json", "-d", body,
		d.address(d.layout().Shard(c.ID, s.ID))+"?updateMask.fieldPaths="+d.Target.first().Shard)
}

func (d *Deployment) deleteLedger(id string) string {
	return d.curl() + line("-X", "DELETE", d.address(d.layout().LedgerOf(id)))
}
