//go:build !race

package simulation

import (
	"slices"
	"testing"
	"time"
)

// TestReached runs a world of each part that only some plans have, and sees that it is really
// there: a plan that is never carried out finds nothing.
func TestReached(t *testing.T) {
	t.Parallel()
	calls := map[int]Begin{}
	shrunk := map[Dropped]bool{} // the events of shards that are gone
	outcome := func(what any, of func(Begin) bool, is Outcome) bool {
		if b, ok := what.(Begin); ok && of(b) {
			calls[b.Call] = b
		}
		e, ok := what.(End)
		b, asked := calls[e.Call]
		return ok && asked && of(b) && e.Outcome == is
	}
	changed := func(what any, is func(Change) bool) bool {
		c, ok := what.(Commit)
		return ok && (slices.ContainsFunc(c.Changes, is) || slices.ContainsFunc(c.Counted, is))
	}
	shows := func(is func(rating any) bool) func(any) bool {
		return func(what any) bool {
			return changed(what, func(ch Change) bool { return ch.Doc.Kind == "counter" && is(documentOr(ch.After).Data["rating"]) })
		}
	}
	refused := func(kind Kind) func(any) bool { // for a limit
		return func(what any) bool {
			e, _ := what.(End)
			return outcome(what, func(b Begin) bool { return b.Kind == kind }, Refused) && e.Full != nil
		}
	}
	answered := func(kind Kind, is Outcome, state string) func(any) bool { // about a hold that is in that state, or in any
		return func(what any) bool {
			e, _ := what.(End)
			return outcome(what, func(b Begin) bool { return b.Kind == kind }, is) && e.Hold != nil && (state == "" || e.Hold.State == state)
		}
	}
	for _, test := range []struct {
		name    string
		has     func(Plan) bool
		reached map[string]func(any) bool
	}{
		{"renamed", func(p Plan) bool { return p.Renamed && !p.Auth && p.Mix.Odd == 0 }, map[string]func(any) bool{
			"the older revision shows likes by their other name": func(what any) bool {
				return changed(what, func(ch Change) bool { return documentOr(ch.After).Hearts != 0 })
			},
		}},
		{"no integers", func(p Plan) bool { return p.Mix.Odd > 2 }, map[string]func(any) bool{
			"a fraction": func(what any) bool {
				return changed(what, func(ch Change) bool { d := documentOr(ch.After); return d.Odd && d.Double })
			},
			"a text or null": func(what any) bool {
				return changed(what, func(ch Change) bool { d := documentOr(ch.After); return d.Odd && !d.Double })
			},
			"a double that can be no count": func(what any) bool {
				return changed(what, func(ch Change) bool { return documentOr(ch.After).Endless })
			},
			"a shard that is made with one": func(what any) bool {
				return changed(what, func(ch Change) bool { return ch.Doc.Kind == "shard" && ch.Before == nil && documentOr(ch.After).Odd })
			},
			"an integer again": func(what any) bool {
				return changed(what, func(ch Change) bool { return documentOr(ch.Before).Odd && ch.After != nil && !ch.After.Odd })
			},
		}},
		{"doubles and replies", func(p Plan) bool { return slices.Contains(p.Counted, rating) && p.refers() && p.Events.Drop < 1 }, map[string]func(any) bool{
			"a fraction": shows(func(rating any) bool { f, is := rating.(float64); return is && f != float64(int64(f)) }),
			"no average": shows(func(rating any) bool { return rating == none }),
			"a reply that goes to another counter": func(what any) bool {
				c, ok := what.(Commit)
				return ok && len(c.Replies) == 1 && len(c.Counted) == 2
			},
			"replies": func(what any) bool {
				return changed(what, func(ch Change) bool { n, is := documentOr(ch.After).Data["replies"].(int64); return is && n > 0 })
			},
		}},
		{"callers", func(p Plan) bool { return p.Auth && p.Members > 2 && p.Mix.Member > 20 }, map[string]func(any) bool{
			"a stranger is refused": func(what any) bool {
				return outcome(what, func(b Begin) bool { return b.Stranger }, Refused)
			},
			"a user counts, and joins": func(what any) bool {
				return outcome(what, func(b Begin) bool { return b.Kind == Join && !b.Stranger }, OK)
			},
		}},
		{"damaged bases", func(p Plan) bool { return p.Damage > 0 && p.Damage < 4*time.Minute && p.Events.Drop < 1 }, map[string]func(any) bool{
			"a counter is noted": func(what any) bool { n, is := what.(Noted); return is && n.There },
			"and no longer":      func(what any) bool { n, is := what.(Noted); return is && !n.There },
		}},
		{"lives", func(p Plan) bool {
			return p.Mix.Pieces > 0.6 && p.Mix.Ends > 0.6 && p.Starts && p.Mix.Delete > 1 && p.Messages.LostAnswer > 0.1
		}, map[string]func(any) bool{
			"a counter is made from a number": func(what any) bool {
				return outcome(what, func(b Begin) bool { return b.Kind == Create && b.Start != 0 }, OK)
			},
			"a life of shards only ends": func(what any) bool {
				c, ok := what.(Commit)
				return ok && len(c.Changes) > 1 && !slices.ContainsFunc(c.Changes, func(ch Change) bool { return ch.Doc.Kind != "shard" || ch.After != nil })
			},
			"a shrink near the ends of an int64": func(what any) bool {
				return changed(what, func(ch Change) bool { return ch.Doc.Kind == "shard" && ch.After == nil && ch.Before.Count == 1<<62 })
			},
		}},
		{"shrinks", func(p Plan) bool { return p.Mix.Shrink > 2 && !p.Auth && p.Events.Drop == 0 }, map[string]func(any) bool{
			"an event of a shard that is deleted is lost": func(what any) bool {
				if c, ok := what.(Commit); ok {
					for _, ch := range c.Changes {
						if ch.Doc.Kind == "shard" && ch.After == nil {
							shrunk[Dropped{Counter: ch.Doc.Counter, Shard: ch.Doc.Shard, Of: c.At.UnixMicro()}] = true
						}
					}
				}
				d, ok := what.(Dropped)
				return ok && shrunk[d]
			},
			"a reconcile by name finds what it has to": func(what any) bool { r, ok := what.(Reconciled); return ok && r.Looked },
		}},
		{"limits", func(p Plan) bool {
			return p.Limits && p.Mix.Limit > 15 && p.Members > 2 && p.Mix.Member > 30 && p.Mix.Resize > 1 && !p.Auth
		}, map[string]func(any) bool{
			"a field gets a limit": func(what any) bool {
				return changed(what, func(ch Change) bool {
					return ch.Doc.Kind == "counter" && ch.Before != nil && documentOr(ch.After).Limited && !ch.Before.Limited
				})
			},
			"an increment goes to several shards": func(what any) bool {
				c, ok := what.(Commit)
				return ok && len(c.Changes) > 1 && !slices.ContainsFunc(c.Changes, func(ch Change) bool {
					return !documentOr(ch.Before).Shared || !documentOr(ch.After).Shared || ch.Before.Count == ch.After.Count || ch.Before.Share != ch.After.Share
				})
			},
			"an increment is refused":                   refused(Increment),
			"who joins is refused":                      refused(Join),
			"a limit is refused, because more is taken": refused(Limit),
		}},
		{"limits of the app's documents", func(p Plan) bool { return p.Limits && p.Hosted && p.Mix.Limit > 15 && !p.Auth }, map[string]func(any) bool{
			"the app leaves a limit away": func(what any) bool {
				return changed(what, func(ch Change) bool {
					return ch.Doc.Kind == "counter" && documentOr(ch.Before).Limited && ch.After != nil && !ch.After.Limited && ch.Before.Title != ch.After.Title
				})
			},
			"and it is shown again": func(what any) bool {
				shown := changed(what, func(ch Change) bool {
					return ch.Doc.Kind == "counter" && ch.Before != nil && !ch.Before.Limited && documentOr(ch.After).Limited && ch.Before.Title == ch.After.Title
				})
				return shown && !changed(what, func(ch Change) bool { return ch.Doc.Kind == "shard" })
			},
			"a life with a limit ends": func(what any) bool {
				return changed(what, func(ch Change) bool {
					return ch.Doc.Kind == "shard" && documentOr(ch.Before).Shared && ch.After == nil
				})
			},
		}},
		{"holds", func(p Plan) bool { return p.Holds && p.Mix.Member > 40 && !p.Auth }, map[string]func(any) bool{
			"a seat is held": func(what any) bool {
				return changed(what, func(ch Change) bool {
					return ch.Doc.Kind == "member" && ch.Before == nil && documentOr(ch.After).Until != 0
				})
			},
			"and kept": func(what any) bool {
				return changed(what, func(ch Change) bool {
					return ch.Doc.Kind == "member" && documentOr(ch.Before).Until != 0 && ch.After != nil && ch.After.Until == 0
				})
			},
			"a hold is over": func(what any) bool {
				c, ok := what.(Commit)
				return ok && slices.ContainsFunc(c.Changes, func(ch Change) bool {
					until := documentOr(ch.Before).Until
					return ch.Doc.Kind == "member" && ch.After == nil && until != 0 && until <= c.At.UnixMicro()
				})
			},
			"who confirms too late is refused": func(what any) bool {
				e, _ := what.(End)
				return outcome(what, func(b Begin) bool { return b.Kind == Confirm }, Refused) && e.Missing
			},
		}},
		{"amounts", func(p Plan) bool { return p.Mix.Amount > 30 && p.Messages.LostAnswer > 0 }, map[string]func(any) bool{
			"an amount is held": answered(Reserve, OK, ""),
			"and of several shards": func(what any) bool {
				c, ok := what.(Commit)
				held := 0
				for _, ch := range c.Changes {
					if ch.Doc.Kind == "shard" && documentOr(ch.After).Held > documentOr(ch.Before).Held {
						held++
					}
				}
				return ok && held > 1
			},
			"it is settled": answered(Settle, OK, "settled"),
			"for more than was held": func(what any) bool {
				e, _ := what.(End)
				return e.Outcome == OK && e.Hold != nil && e.Hold.Used > e.Hold.Held
			},
			"given back":                answered(GiveBack, OK, "ended"),
			"there is no room for it":   refused(Reserve),
			"nor for more":              refused(Settle),
			"another amount is settled": answered(Settle, Refused, "settled"),
			"it is too late":            answered(Settle, Refused, "ended"),
			"one ends by its time": func(what any) bool {
				c, _ := what.(Commit)
				return slices.ContainsFunc(c.Changes, func(ch Change) bool {
					before := documentOr(ch.Before)
					return ch.Doc.Kind == "hold" && before.State == "held" && before.Until <= c.At.UnixMicro() && documentOr(ch.After).State == "ended"
				})
			},
		}},
		{"resets", func(p Plan) bool { return p.Mix.Reset > 1 && !p.Auth && p.Members == 0 }, map[string]func(any) bool{
			"by a function": func(what any) bool { return outcome(what, func(b Begin) bool { return b.Asked }, OK) },
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			seed := *firstSeed
			for !test.has(PlanOf(seed)) {
				seed++
			}
			missing := test.reached
			for range 12 { // a short world may not come to all of it
				p := PlanOf(seed).Shortened(*operations)
				p.Epochs = 1
				h, _ := simulate(t, p)
				check(t, p, h)
				clear(calls)
				for _, e := range slices.Concat(h, h.Of("likes")) {
					for name, is := range missing {
						if is(e.What) {
							delete(missing, name)
						}
					}
				}
				if len(missing) == 0 {
					return
				}
				for seed++; !test.has(PlanOf(seed)); {
					seed++
				}
			}
			for name := range missing {
				t.Errorf("not reached: %s", name)
			}
		})
	}
}
