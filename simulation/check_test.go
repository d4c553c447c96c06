package simulation

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestCheck tells right histories from wrong ones. A wrong one names a part of what is said about
// it.
func TestCheck(t *testing.T) {
	t.Parallel()
	judge(t, Check, storiesOfCommits())
}

func storiesOfCommits() []story {
	return []story{
		{"an increment, its roll-up, reads", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.end(1, OK)
			s.show(1)
			s.read(2, ExactRead, 1, nothing)
			s.read(3, Read, 1, nothing)
			s.add(Calm{})
			s.add(Reconciled{})
			s.add(Settled{})
		}},
		{"two increments share a commit", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 4)
			s.shard("0", 5)
			s.end(1, OK)
			s.end(2, OK)
		}},
		{"an unknown increment comes late", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.end(1, Unknown)
			s.shard("0", 1)
		}},
		{"an unknown increment never comes", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.end(1, Unknown)
			s.add(Calm{})
		}},
		{"acknowledged, and in no commit", "in no commit", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.end(1, OK)
		}},
		{"replayed, and in no commit", "in no commit", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.end(1, Replayed)
		}},
		{"applied twice", "applied twice", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.shard("1", 1)
		}},
		{"a batch with one increment twice", "no call ever asked", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 2)
		}},
		{"a key applied twice by two calls", "applied twice", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.end(1, Unknown)
			s.begin(2, 1, 1)
			s.shard("0", 1)
			s.end(2, OK)
			s.shard("0", 2)
		}},
		{"refused, and applied later", "was refused, and is applied", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.end(1, Refused)
			s.shard("0", 1)
		}},
		{"refused after it was applied", "was refused", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.end(1, Refused)
		}},
		{"refused, and another call of the key applied", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 1, 1)
			s.end(1, Refused)
			s.shard("0", 1)
			s.end(2, OK)
		}},
		{"half of a batch", "of the increments", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{named, 1, ""}, {"named-2", 1, ""}}})
			s.shard("0", 1)
		}},
		{"an exact read misses what was acknowledged", "at no moment", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.end(1, OK)
			s.read(2, ExactRead, 0, nothing)
		}},
		{"an exact read beside an increment may have it or not", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.read(2, ExactRead, 0, func() { s.shard("0", 1) })
			s.read(3, ExactRead, 1, nothing)
		}},
		{"an exact read has half of a commit", "at no moment", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			s.read(3, ExactRead, 1, func() { s.shard("0", 3) })
		}},
		{"Jepsen's lower bound, of a counter whose increments have no names", "acknowledged before", func(s *script) {
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{"plain-1", 5, ""}}})
			s.commit(map[Doc]*Document{{Kind: "counter", Counter: "plain-1"}: {NumShards: 1}, {Kind: "shard", Counter: "plain-1", Shard: "0"}: {}})
			s.add(End{Call: 1, Outcome: OK})
			s.add(Begin{Call: 2, Kind: ExactRead, Counter: "plain-1"})
			s.add(End{Call: 2, Outcome: OK, Total: 0})
		}},
		{"Jepsen's upper bound", "attempted before", func(s *script) {
			shard := Doc{Kind: "shard", Counter: "plain-1", Shard: "0"}
			s.commit(map[Doc]*Document{{Kind: "counter", Counter: "plain-1"}: {NumShards: 1}, shard: {}})
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{"plain-1", 5, ""}}})
			s.commit(map[Doc]*Document{shard: {Count: 10}})
			s.add(Begin{Call: 2, Kind: ExactRead, Counter: "plain-1"})
			s.add(End{Call: 2, Outcome: OK, Total: 10})
		}},
		{"a read finds no counter where there is one", "at no moment", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: ExactRead, Counter: named})
			s.add(End{Call: 1, Outcome: OK, Missing: true})
		}},
		{"somebody else's total", "", func(s *script) {
			s.make()
			s.add(Foreign{Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 3}})
			s.add(Reconciled{Counter: named, Drift: 3})
		}},
		{"drift out of nowhere", "found a drift", func(s *script) {
			s.make()
			s.add(Reconciled{Counter: named, Drift: 3})
		}},
		{"drift of all out of nowhere", "found a drift", func(s *script) {
			s.make()
			s.add(Reconciled{Drift: 3})
		}},
		{"a life is ended, and its shards stay", "and its shards stay", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Delete, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): nil, baseDoc(): nil})
		}},
		{"a life is ended, and its base stays", "and its documents stay", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Delete, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
		}},
		{"a life is ended, and nobody wanted that", "which nobody has asked for", func(s *script) {
			s.make()
			s.commit(map[Doc]*Document{counterDoc(): nil, baseDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
		}},
		{"a life is ended whose document is gone", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.end(1, OK)
			s.vanish()
			s.add(Begin{Call: 2, Kind: Delete, Counter: named})
			s.commit(map[Doc]*Document{baseDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
			s.end(2, OK)
			s.make()
			s.read(3, ExactRead, 0, nothing)
		}},
		{"made again, it has lost what was acknowledged", "1 were acknowledged", func(s *script) {
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{"plain-1", 1, ""}}})
			doc, shard := Doc{Kind: "counter", Counter: "plain-1"}, Doc{Kind: "shard", Counter: "plain-1", Shard: "0"}
			s.commit(map[Doc]*Document{doc: {NumShards: 1}, shard: {Count: 1}})
			s.end(1, OK)
			s.add(Begin{Call: 2, Kind: DeleteDocument, Counter: "plain-1"})
			s.commit(map[Doc]*Document{doc: nil})
			s.end(2, OK)
			s.commit(map[Doc]*Document{doc: {NumShards: 1}, shard: {}})
			s.add(Begin{Call: 3, Kind: ExactRead, Counter: "plain-1"})
			s.add(End{Call: 3, Outcome: OK, Total: 0})
		}},
		{"a total brings a deleted counter back", "makes no counter", func(s *script) {
			s.make()
			s.remove()
			s.commit(map[Doc]*Document{counterDoc(): {Total: 1}})
		}},
		{"a shard of a deleted counter", "which isn't there", func(s *script) {
			s.make()
			s.remove()
			s.now = s.now.Add(longestCommand)
			s.shard("0", 0)
		}},
		{"a resize moves a shard", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("1", 1)
			s.resize()
			s.commit(map[Doc]*Document{shardDoc("1"): nil, shardDoc("0"): {Count: 1}})
			s.end(1, OK)
		}},
		{"a resize loses a shard", "deletes shards", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("1", 1)
			s.resize()
			s.commit(map[Doc]*Document{shardDoc("1"): nil})
		}},
		{"a deletion of an earlier life takes a shard", "that \"named-1\" has", func(s *script) {
			s.make()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}})
			s.commit(map[Doc]*Document{shardDoc("1"): nil})
		}},
		{"a snippet makes shards, and no counter", "", func(s *script) {
			s.add(Begin{Call: 1, Kind: Snippet, Counter: named})
			s.shard("0", 0)
			s.add(End{Call: 1, Outcome: OK})
		}},
		{"a creation out of nowhere", "no commit made it", func(s *script) {
			s.add(Begin{Call: 1, Kind: Create, Counter: named})
			s.end(1, OK)
		}},
		{"a total that never follows", "long after", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.add(Calm{})
		}},
		{"a total that never follows because the event was lost", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.add(Dropped{Counter: named})
			s.add(Calm{})
		}},
		{"a total that a reconcile leaves wrong", "long after", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.add(Dropped{Counter: named})
			s.add(Settled{})
		}},
		{"a note outlasts a reconcile of all", "is noted yet", func(s *script) {
			s.make()
			s.add(Noted{named, true})
			s.add(Settled{})
		}},
		{"a walk leaves a deletion to the next one", "is noted yet", func(s *script) {
			s.markedAndNoted()
			s.add(Settled{})
		}},
		{"a walk leaves a deletion to the next one, because the ceiling has nothing left for it", "", func(s *script) {
			s.add(Bounded{})
			s.markedAndNoted()
			s.add(Settled{})
		}},
		{"what a walk deletes relies on a note that it has begun with", "", func(s *script) {
			at := s.markedAndNoted()
			s.add(Calm{})
			s.ack("0", at)
			s.commit(map[Doc]*Document{baseDoc(): nil})
			s.add(Settled{})
		}},
		{"what was deleted before a calm relied on a note that outlasts a reconcile of all", "is noted yet", func(s *script) {
			at := s.markedAndNoted()
			s.ack("0", at)
			s.add(Calm{})
			s.commit(map[Doc]*Document{baseDoc(): nil})
			s.add(Settled{})
		}},
		{"a counter loses a shard of its number", "no command resized it", func(s *script) {
			s.make()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1}})
		}},
		{"a resize is in the middle of it", "", func(s *script) {
			s.make()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}})
			s.add(Begin{Call: 1, Kind: Resize, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1}})
		}},
		{"a total that the counter has never come to", "a commit changes the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.show(2)
		}},
		{"a total goes back", "a commit changes the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			s.shard("0", 1)
			s.shard("0", 3)
			s.show(3)
			s.show(1)
		}},
		{"a total is a moment old", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			s.shard("0", 1)
			s.shard("1", 2)
			s.show(1)
			s.show(3)
		}},
		{"the next life shows what this one held", "a commit changes the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.show(1)
			s.remove()
			s.make()
			s.show(1)
		}},
		{"without its document it is in the shards, and made again it shows that", "", func(s *script) {
			s.make()
			s.vanish()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.end(1, OK)
			s.ack("0", at)
			s.add(Calm{})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 1}})
			s.read(2, ExactRead, 1, nothing)
			s.read(3, Read, 1, nothing)
		}},
		{"made again, it begins at zero", "a commit changes the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.show(1)
			s.vanish()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}})
			s.add(Calm{})
		}},
		{"a snippet makes it again with nothing, and the next event shows what there is", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.show(1)
			s.vanish()
			s.add(Begin{Call: 2, Kind: Snippet, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Bare: true}})
			s.add(End{Call: 2, Outcome: Unknown})
			s.add(Calm{})
			s.add(Fair{})
			s.begin(3, 3, 2)
			s.shard("1", 2)
			s.show(3)
			s.add(Calm{})
		}},
		{"a snippet makes it again with nothing, and the next event only adds to that", "a commit changes the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.show(1)
			s.vanish()
			s.add(Begin{Call: 2, Kind: Snippet, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Bare: true}})
			s.add(End{Call: 2, Outcome: Unknown})
			s.begin(3, 3, 2)
			s.shard("1", 2)
			s.show(2)
		}},
		{"a later event of another shard makes right what was lost", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			s.add(Dropped{Counter: named, Shard: "0", Of: s.shard("0", 1)})
			at := s.shard("1", 2)
			s.show(3)
			s.ack("1", at)
			s.add(Fair{})
			s.begin(3, 3, 4)
			s.shard("1", 6)
			s.show(7)
			s.add(Calm{})
		}},
		{"a later event of another shard leaves out what was lost", "is acknowledged, and the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			s.add(Dropped{Counter: named, Shard: "0", Of: s.shard("0", 1)})
			s.show(1)
			s.ack("1", s.shard("1", 2))
		}},
		{"one more increment in fair weather leaves out what was lost", "long after everything", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.add(Dropped{Counter: named, Shard: "0", Of: s.shard("0", 1)})
			s.add(Fair{})
			s.begin(3, 3, 4)
			s.shard("1", 4)
			s.show(1)
			s.add(Calm{})
		}},
		{"an event is acknowledged when it is shown", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.show(1)
			s.ack("0", at)
		}},
		{"an event is acknowledged before it is shown", "is acknowledged, and the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.ack("0", at)
			s.show(1)
		}},
		{"an event is acknowledged by who doesn't show the field", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.add(Dropped{Counter: named, Shard: "0", Of: at})
			s.add(Calm{})
		}},
		{"an event is acknowledged while a copy waits of one that was acknowledged by who doesn't show the field", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			first, second := s.shard("0", 1), s.shard("1", 2)
			s.add(Came{Doc: shardDoc("1"), Of: second, Fields: []string{""}})
			s.add(Dropped{Counter: named, Shard: "1", Of: second, Elsewhere: true})
			s.ack("0", first)
			s.show(3)
		}},
		{"an event is acknowledged, and a newer one by who doesn't show the field", "is acknowledged, and the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			first, second := s.shard("0", 1), s.shard("1", 2)
			s.add(Came{Doc: shardDoc("1"), Of: second})
			s.add(Dropped{Counter: named, Shard: "1", Of: second, Elsewhere: true})
			s.ack("0", first)
		}},
		{"an event is acknowledged while a newer one waits, in whichever shard", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			first, second := s.shard("0", 1), s.shard("1", 2)
			s.ack("0", first)
			s.show(3)
			s.ack("1", second)
		}},
		{"an event is acknowledged while a newer one waits, of a 0 where there was none", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			first := s.shard("0", 1)
			second := s.commit(map[Doc]*Document{shardDoc("1"): {Has: true}})
			s.ack("0", first)
			s.show(1)
			s.ack("1", second)
		}},
		{"an event is acknowledged while one waits of a shard that came without the field", "is acknowledged, and the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			first := s.shard("0", 1)
			s.shard("2", 0)
			s.ack("0", first)
		}},
		{"an event is acknowledged of a shard that has gone with the field, before that is shown", "is acknowledged, and the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shardShown("0", 1, 1)
			s.add(Begin{Call: 2, Kind: DeleteByHand, Counter: named})
			s.ack("0", s.commit(map[Doc]*Document{shardDoc("0"): nil}))
		}},
		{"an event is acknowledged while one waits that puts null for a text", "", func(s *script) {
			s.make()
			s.add(Odd{Counter: named})
			s.commit(map[Doc]*Document{shardDoc("1"): {Has: true, Odd: true, What: "a text"}})
			s.begin(1, 1, 1)
			first := s.shard("0", 1)
			s.commit(map[Doc]*Document{shardDoc("1"): {Has: true, Odd: true, What: "null"}})
			s.ack("0", first)
		}},
		{"an event is acknowledged while one waits that never comes", "is acknowledged, and the total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			first, second := s.shard("0", 1), s.shard("1", 2)
			s.add(Dropped{Counter: named, Shard: "1", Of: second})
			s.ack("0", first)
		}},
		{"an event is acknowledged while one waits that comes late", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			first, second := s.shard("0", 1), s.shard("1", 2)
			s.add(Dropped{Counter: named, Shard: "1", Of: second})
			s.add(Came{Doc: shardDoc("1"), Of: second})
			s.ack("0", first)
			s.show(3)
			s.ack("1", second)
		}},
		{"an event is acknowledged for a note, and counted before that is gone", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.add(Noted{named, true})
			s.ack("0", at)
			s.end(1, OK)
			s.add(Calm{})
			s.show(1)
			s.add(Noted{named, false})
			s.add(Settled{})
		}},
		{"an event is acknowledged for a note beside the right number, by chance, and an answer from before it lands", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shardShown("0", 1, 1)
			s.begin(2, 2, 2)
			s.shard("1", 2)
			s.add(Begin{Call: 3, Kind: DeleteByHand, Counter: named})
			at := s.commit(map[Doc]*Document{shardDoc("1"): nil})
			s.add(Noted{named, true})
			s.ack("1", at)
			s.show(3)
			s.show(1)
			s.add(Noted{named, false})
			s.add(Settled{})
		}},
		{"a note is taken away, and what was acknowledged for it is not counted", "is taken away, for which", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.add(Noted{named, true})
			s.ack("0", at)
			s.add(Noted{named, false})
			s.show(1)
		}},
		{"an event of a counter that is gone is acknowledged", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.remove()
			s.ack("0", at)
			s.make()
			s.ack("0", s.now.UnixMicro()-2_000_000)
		}},
		{"a reconciled counter holds less than was acknowledged", "0; 5 were acknowledged", func(s *script) {
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{"plain-1", 5, ""}}})
			s.commit(map[Doc]*Document{
				{Kind: "counter", Counter: "plain-1"}: {NumShards: 1}, {Kind: "base", Counter: "plain-1"}: {}, {Kind: "shard", Counter: "plain-1", Shard: "0"}: {},
			})
			s.end(1, OK)
			s.add(Settled{})
		}},
		{"a rebase, and an increment beside it", "", func(s *script) {
			s.make()
			s.begin(1, 1, 64)
			s.add(Begin{Call: 2, Kind: Rebase, Counter: named, To: 7})
			s.shard("0", 64)
			s.rebase(7)
			s.end(2, OK)
			s.show(71)
			s.read(3, ExactRead, 71, nothing)
			s.add(Calm{})
		}},
		{"after a rebase the counter holds neither what it says nor that and what came beside it", "which it was at no moment", func(s *script) {
			s.make()
			s.begin(1, 1, 64)
			s.add(Begin{Call: 2, Kind: Rebase, Counter: named, To: 7})
			s.shard("0", 64)
			s.rebase(7)
			s.end(2, OK)
			s.read(3, ExactRead, 8, nothing)
		}},
		{"what a counter holds is beyond an integer, and not shown", "", func(s *script) {
			s.make()
			s.add(Begin{Call: 2, Kind: Rebase, Counter: named, To: math.MaxInt64 - 1})
			s.rebase(math.MaxInt64 - 1)
			s.end(2, OK)
			s.begin(1, 1, 4)
			s.ack("0", s.shard("0", 4))
			s.add(Calm{})
		}},
		{"a rebase to another total", "nobody has asked for that", func(s *script) {
			s.make()
			s.add(Begin{Call: 2, Kind: Rebase, Counter: named, To: 7})
			s.rebase(8)
		}},
		{"a reset", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.show(1)
			s.add(Begin{Call: 2, Kind: Reset, Counter: named})
			s.rebase(0)
			s.end(2, OK)
			s.read(3, ExactRead, 0, nothing)
			s.add(Calm{})
		}},
		{"after a reset the counter holds what it held before", "which it was at no moment", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.show(1)
			s.add(Begin{Call: 2, Kind: Reset, Counter: named})
			s.rebase(0)
			s.end(2, OK)
			s.read(3, ExactRead, 1, nothing)
		}},
		{"an older revision resets a field that it has by another name", "", func(s *script) {
			s.add(Older{})
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.show(1)
			s.add(Begin{Call: 2, Kind: Reset, Counter: named, Asked: true})
			s.rebase(1)
			s.end(2, OK)
			s.show(0)
		}},
		{"a command changes the total again", "nobody has asked for that", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Rebase, Counter: named, To: 7})
			s.rebase(7)
			s.end(1, OK)
			s.begin(2, 2, 1)
			s.shard("0", 1)
			s.show(8)
			s.rebase(7)
		}},
		{"two attempts of a command are applied", "2 commands of \"named-1\" are applied, each a rebase; 1 were asked for", func(s *script) {
			s.make()
			s.begin(2, 2, 1)
			s.add(Begin{Call: 1, Kind: Rebase, Counter: named, To: 7})
			s.rebase(7)
			s.shard("0", 1)
			s.show(8)
			s.rebase(7)
		}},
		{"a command is refused, and applied", "was refused", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Rebase, Counter: named, To: 7})
			s.rebase(7)
			s.end(1, Refused)
		}},
		{"a reset leaves the base as it is, which somebody deletes meanwhile", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shardShown("0", 1, 1)
			s.add(Begin{Call: 3, Kind: DeleteByHand, Counter: named})
			s.commit(map[Doc]*Document{shardDoc("0"): nil})
			s.add(Begin{Call: 2, Kind: Reset, Counter: named})
			s.commit(map[Doc]*Document{baseDoc(): nil})
			s.show(0)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.end(2, OK)
			s.end(3, OK)
		}},
		{"a command is acknowledged, and not applied", "rebase of \"named-1\" was acknowledged, and is in no commit", func(s *script) {
			s.make()
			s.add(Begin{Call: 2, Kind: Rebase, Counter: named, To: 7})
			s.end(2, OK)
		}},
		{"a reconcile by name shows what there was when it began", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.add(Dropped{Counter: named, Shard: "0", Of: s.shard("0", 1)})
			s.add(Reconciling{Number: 1, Counters: []string{named}})
			s.begin(2, 2, 2)
			s.shard("1", 2)
			s.show(1)
			s.add(Reconciled{Number: 1, Counter: named, Looked: true})
		}},
		{"a reconcile by name leaves something out", "has ended well, and its total", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.add(Dropped{Counter: named, Shard: "0", Of: s.shard("0", 1)})
			s.add(Reconciling{Number: 1, Counters: []string{named}})
			s.add(Reconciled{Number: 1, Counter: named, Looked: true})
		}},
		{"something is stuck", "stuck", func(s *script) { s.add(Stuck{What: "stuck"}) }},
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.make()
	s.begin(1, 1, 1)
	s.shard("0", 1)
	s.show(1)
	if v := Bounds(s.history, 3*time.Second, 1); len(v) > 0 {
		t.Errorf("a quick history: %v", v)
	}
	s.begin(2, 2, 2)
	s.begin(3, 3, 4)
	s.shard("0", 3)
	s.show(3)
	s.shard("1", 4)
	if v := Bounds(s.history, 3*time.Second, 1); len(v) != 1 || !strings.Contains(v[0].Message, "2 times") {
		t.Errorf("two writes in a minute: %v", v)
	}
	s.now = s.now.Add(time.Minute)
	s.shard("1", 4)
	if v := Bounds(s.history, 10*time.Second, 2); len(v) != 1 || !strings.Contains(v[0].Message, `the total of "named-1" is older than`) {
		t.Errorf("a total that is late: %v", v)
	}
	remade := func(hosted bool) *script {
		s := newScript()
		if hosted {
			s.add(Hosted{})
		}
		s.make()
		s.begin(1, 1, 1)
		s.shardShown("0", 1, 1)
		s.add(AppWrites{Counter: named})
		s.vanish()
		s.show(77)
		s.now = s.now.Add(time.Minute)
		s.shard("0", 1)
		return s
	}
	if v := Bounds(remade(true).history, 10*time.Second, 5); len(v) > 0 {
		t.Errorf("the app has made its document again, and nothing has changed since: %v", v)
	}
	if v := Bounds(remade(false).history, 10*time.Second, 5); len(v) != 1 {
		t.Errorf("a document of ours is made again with a number that is wrong: %v", v)
	}
	late := remade(true)
	late.begin(2, 2, 2)
	late.shard("1", 2)
	late.now = late.now.Add(time.Minute)
	late.shard("0", 1)
	if v := Bounds(late.history, 10*time.Second, 5); len(v) != 1 || !strings.Contains(v[0].Message, "is older than") {
		t.Errorf("the app has made its document again, and what has changed since is late: %v", v)
	}
	gone := newScript()
	gone.make()
	gone.begin(1, 1, 2)
	gone.commit(map[Doc]*Document{counterDoc(): nil})
	gone.shard("0", 2)
	gone.now = gone.now.Add(time.Minute)
	gone.shard("0", 2)
	if v := Bounds(gone.history, 3*time.Second, 1); len(v) > 0 {
		t.Errorf("a counter that is gone: %v", v)
	}
}

// markedAndNoted is a noted counter whose deletion has begun. It returns when a shard was deleted.
func (s *script) markedAndNoted() (at int64) {
	s.make()
	s.add(Noted{named, true})
	s.add(Begin{Call: 1, Kind: Delete, Counter: named})
	at = s.commit(map[Doc]*Document{counterDoc(): nil, baseDoc(): {Deleting: true, Since: 1}, shardDoc("0"): nil, shardDoc("1"): nil})
	s.end(1, OK)
	return at
}
