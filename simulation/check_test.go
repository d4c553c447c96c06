package simulation

import (
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
			at := s.shard("0", 1)
			s.end(1, OK)
			s.flush(1, map[string]State{"0": {1, at}})
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
		{"a total without its ledger", "not its ledger", func(s *script) {
			s.make()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 3}})
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
		{"a state counted twice", "its ledger has", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.flush(2, map[string]State{"0": {1, at}})
		}},
		{"a ledger goes back", "goes back", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			first := s.shard("0", 1)
			second := s.shard("0", 3)
			s.flush(3, map[string]State{"0": {3, second}})
			s.flush(1, map[string]State{"0": {1, first}})
		}},
		{"a ledger has what a shard never held", "never held", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.flush(1, map[string]State{"0": {1, at + 1}})
		}},
		{"a ledger has another count", "it held", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.flush(2, map[string]State{"0": {2, at}})
		}},
		{"a ledger takes a shard for deleted that never was", "never was", func(s *script) {
			s.make()
			s.flush(0, map[string]State{"0": {0, s.now.UnixMicro() + 1}})
		}},
		{"the next life's ledger has a state of this one", "of before its floor", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.remove()
			s.make()
			s.flush(1, map[string]State{"0": {1, at}})
		}},
		{"the next life's ledger is made with a state of this one", "in this life", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.remove()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1, Total: 1}, ledgerDoc(): {States: map[string]State{"0": {1, at}}}})
		}},
		{"a ledger has a state of before its last snapshot", "of before its floor", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.commit(map[Doc]*Document{ledgerDoc(): {Floor: s.now.UnixMicro()}})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 1}, ledgerDoc(): {Floor: at, States: map[string]State{"0": {1, at}}}})
		}},
		{"a life is ended, and its shards stay", "and its shards stay", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Delete, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): nil, ledgerDoc(): nil})
		}},
		{"a life is ended, and its ledger stays", "and its documents stay", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Delete, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
		}},
		{"a life is ended, and nobody wanted that", "which nobody has asked for", func(s *script) {
			s.make()
			s.commit(map[Doc]*Document{counterDoc(): nil, ledgerDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
		}},
		{"a life is ended whose document is gone", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.end(1, OK)
			s.vanish()
			s.add(Begin{Call: 2, Kind: Delete, Counter: named})
			s.commit(map[Doc]*Document{ledgerDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
			s.end(2, OK)
			s.make()
			s.read(3, ExactRead, 0, nothing)
		}},
		{"without its document it is counted, and made again it shows that", "", func(s *script) {
			s.make()
			s.vanish()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.end(1, OK)
			s.commit(map[Doc]*Document{ledgerDoc(): {Gone: true, States: map[string]State{"0": {1, at}}}})
			s.ack("0", at)
			s.add(Calm{})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 1}, ledgerDoc(): {States: map[string]State{"0": {1, at}}}})
			s.read(2, ExactRead, 1, nothing)
			s.read(3, Read, 1, nothing)
		}},
		{"made again, it begins at zero", "the total of \"named-1\" is 0; its ledger has 1", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.flush(1, map[string]State{"0": {1, s.shard("0", 1)}})
			s.vanish()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}})
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
		{"without its document, what is acknowledged is not counted", "is acknowledged, which the ledger has as of", func(s *script) {
			s.make()
			s.vanish()
			s.begin(1, 1, 1)
			s.ack("0", s.shard("0", 1))
		}},
		{"without its document, its ledger doesn't follow", "the ledger of", func(s *script) {
			s.make()
			s.vanish()
			s.begin(1, 1, 1)
			s.shard("0", 1)
			s.add(Calm{})
		}},
		{"a snippet makes it again with nothing, and the next flush shows what there is", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.flush(1, map[string]State{"0": {1, at}})
			s.vanish()
			s.add(Begin{Call: 2, Kind: Snippet, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}})
			s.add(End{Call: 2, Outcome: Unknown})
			s.add(Calm{})
			s.add(Fair{})
			s.begin(3, 3, 2)
			s.flush(2, map[string]State{"0": {1, at}, "1": {2, s.shard("1", 2)}})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 3}})
			s.add(Calm{})
		}},
		{"a snippet makes it again with nothing, and the next flush only adds to that", "and its ledger has", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.flush(1, map[string]State{"0": {1, at}})
			s.vanish()
			s.add(Begin{Call: 2, Kind: Snippet, Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2}})
			s.add(End{Call: 2, Outcome: Unknown})
			s.add(Fair{})
			s.begin(3, 3, 2)
			s.flush(2, map[string]State{"0": {1, at}, "1": {2, s.shard("1", 2)}})
			s.add(Calm{})
		}},
		{"an older revision leaves the field out, and the newer one shows it", "", func(s *script) {
			s.add(Older{})
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.flush(0, map[string]State{"0": {1, at}})
			s.add(Calm{})
			s.add(Fair{})
			s.begin(2, 2, 2)
			s.flush(2, map[string]State{"0": {1, at}, "1": {2, s.shard("1", 2)}})
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 3}})
			s.add(Calm{})
		}},
		{"an older revision leaves the field out, and it stays so", "and its ledger has", func(s *script) {
			s.add(Older{})
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.flush(0, map[string]State{"0": {1, at}})
			s.add(Fair{})
			s.begin(2, 2, 2)
			s.flush(2, map[string]State{"0": {1, at}, "1": {2, s.shard("1", 2)}})
			s.add(Calm{})
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
		{"a rebase", "", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Rebase, Counter: named})
			s.rebase("a", 7)
			s.end(1, OK)
		}},
		{"a command's commit is applied twice", "command a of \"named-1\" is applied twice", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Rebase, Counter: named})
			s.add(Begin{Call: 2, Kind: Rebase, Counter: named})
			s.rebase("a", 7)
			s.commit(map[Doc]*Document{ledgerDoc(): {Base: 7}})
			s.rebase("a", 7)
		}},
		{"two attempts of a command are applied", "2 commands of \"named-1\" are applied; 1 were asked for", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Rebase, Counter: named})
			s.rebase("a", 7)
			s.rebase("b", 7)
		}},
		{"a command is refused, and applied", "was refused", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Rebase, Counter: named})
			s.rebase("a", 7)
			s.end(1, Refused)
		}},
		{"a command is acknowledged, and not applied", "rebase of \"named-1\" was acknowledged, and is in no commit", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Rebase, Counter: named})
			s.rebase("a", 7)
			s.end(1, OK)
			s.add(Begin{Call: 2, Kind: Rebase, Counter: named})
			s.end(2, OK)
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
		{"an event is acknowledged when it is counted", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.flush(1, map[string]State{"0": {1, at}})
			s.ack("0", at)
		}},
		{"an event is acknowledged before it is counted", "is acknowledged, which the ledger has as of", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.ack("0", at)
			s.flush(1, map[string]State{"0": {1, at}})
		}},
		{"an event is acknowledged for a note, and counted before that is gone", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.add(Noted{named, true})
			s.ack("0", at)
			s.end(1, OK)
			s.add(Calm{})
			s.flush(1, map[string]State{"0": {1, at}})
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
			s.flush(1, map[string]State{"0": {1, at}})
		}},
		{"a note outlasts a reconcile of all", "is noted yet", func(s *script) {
			s.make()
			s.add(Noted{named, true})
			s.add(Settled{})
		}},
		{"an event is acknowledged while a newer one of its shard waits", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			first, second := s.shard("0", 1), s.shard("0", 3)
			s.ack("0", first)
			s.flush(3, map[string]State{"0": {3, second}})
			s.ack("0", second)
		}},
		{"the newer one is acknowledged, too, and neither is counted", "is acknowledged, which the ledger has as of", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			first, second := s.shard("0", 1), s.shard("0", 3)
			s.ack("0", first)
			s.flush(1, map[string]State{"0": {1, first}})
			s.ack("0", second)
		}},
		{"an event is acknowledged while one of another shard waits", "is acknowledged, which the ledger has as of", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			first := s.shard("0", 1)
			s.shard("1", 2)
			s.ack("0", first)
		}},
		{"an event is given up, and acknowledged all the same", "", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("0", 1)
			s.add(Dropped{Counter: named, Shard: "0", Of: at})
			s.ack("0", at)
		}},
		{"a later event after one that was lost is acknowledged, and not counted", "is acknowledged, which the ledger has as of", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			s.begin(2, 2, 2)
			s.add(Dropped{Counter: named, Shard: "0", Of: s.shard("0", 1)})
			s.ack("0", s.shard("0", 3))
		}},
		{"an event is acknowledged that a snapshot has counted", "", func(s *script) {
			s.make()
			at := s.shard("0", 0)
			s.commit(map[Doc]*Document{ledgerDoc(): {Floor: at}})
			s.ack("0", at)
		}},
		{"an event of a counter without a ledger is acknowledged", "has no ledger", func(s *script) {
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1}, shardDoc("0"): {}})
			s.begin(1, 1, 1)
			s.ack("0", s.shard("0", 1))
		}},
		{"a deletion at once is acknowledged, which adopts nothing", "", func(s *script) {
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1}, shardDoc("0"): {}})
			s.docs[shardDoc("0")].Updated += 999_999
			s.add(Begin{Call: 1, Kind: DeleteByHand, Counter: named})
			s.now = s.now.Add(-time.Second)
			s.ack("0", s.commit(map[Doc]*Document{shardDoc("0"): nil}))
		}},
		{"an event of a counter whose ledger is deleted by hand is acknowledged", "", func(s *script) {
			s.make()
			at := s.shard("0", 0)
			s.add(Begin{Call: 1, Kind: DeleteByHand, Counter: named})
			s.commit(map[Doc]*Document{ledgerDoc(): nil})
			s.ack("0", at)
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
		{"a deletion is acknowledged, and the shard stays counted", "is acknowledged, which the ledger has as of", func(s *script) {
			s.make()
			s.begin(1, 1, 1)
			at := s.shard("1", 1)
			s.flush(1, map[string]State{"1": {1, at}})
			s.ack("1", at)
			s.resize()
			s.ack("1", s.commit(map[Doc]*Document{shardDoc("1"): nil, shardDoc("0"): {Count: 1}}))
		}},
		{"a reconciled counter holds less than was acknowledged", "0; 5 were acknowledged", func(s *script) {
			s.add(Begin{Call: 1, Kind: Increment, Intent: 1, Adds: []Add{{"plain-1", 5, ""}}})
			s.commit(map[Doc]*Document{
				{Kind: "counter", Counter: "plain-1"}: {NumShards: 1}, {Kind: "ledger", Counter: "plain-1"}: {}, {Kind: "shard", Counter: "plain-1", Shard: "0"}: {},
			})
			s.end(1, OK)
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
		{"something is stuck", "stuck", func(s *script) { s.add(Stuck{What: "stuck"}) }},
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.make()
	at := s.shard("0", 1)
	s.flush(1, map[string]State{"0": {1, at}})
	if v := Bounds(s.history, 3*time.Second, 1); len(v) > 0 {
		t.Errorf("a quick history: %v", v)
	}
	at = s.shard("0", 3)
	s.shard("1", 1)
	s.flush(3, map[string]State{"0": {3, at}})
	if v := Bounds(s.history, 3*time.Second, 1); len(v) != 1 || !strings.Contains(v[0].Message, "2 times") {
		t.Errorf("two writes in a minute: %v", v)
	}
	s.now = s.now.Add(time.Minute)
	s.add(Calm{})
	if v := Bounds(s.history, 10*time.Second, 2); len(v) != 1 || !strings.Contains(v[0].Message, `"named-1"/1 is not counted`) {
		t.Errorf("a state that is counted late: %v", v)
	}
	gone := newScript()
	gone.make()
	gone.shard("0", 1)
	gone.commit(map[Doc]*Document{counterDoc(): nil})
	gone.shard("0", 2)
	gone.now = gone.now.Add(time.Minute)
	gone.add(Calm{})
	if v := Bounds(gone.history, 3*time.Second, 1); len(v) > 0 {
		t.Errorf("a counter that is gone: %v", v)
	}
}
