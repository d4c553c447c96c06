package simulation

import (
	"testing"
	"time"
)

func sourceDoc() Doc               { return Doc{Kind: "source", Counter: named} }
func sourceShardDoc(id string) Doc { return Doc{Kind: "source shard", Counter: named, Shard: id} }

// old is a client of the extension's that adds to a shard, which holds count from then on.
func (s *script) old(call int, by int64, id string, count int64) {
	s.add(Begin{Call: call, Kind: Old, Intent: call, Adds: []Add{{Counter: named, By: by}}})
	s.commit(map[Doc]*Document{sourceShardDoc(id): {Count: count}})
	s.end(call, OK)
}

// asksImport is the begin of an import, and imported its end.
func (s *script) asksImport(call int) { s.add(Begin{Call: call, Kind: Import, Counter: named}) }

func (s *script) imported(call int, value, added int64) {
	s.add(End{Call: call, Outcome: OK, Value: value, Added: added})
}

// imports is the commit of an import, which sets the total.
func (s *script) imports(total int64) {
	s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: total}, baseDoc(): {}})
}

// uninstalled is the app's document, on which the extension has counted 100, and one of its shards,
// which holds 3.
func (s *script) uninstalled() {
	s.add(Hosted{CleanupAfter: time.Hour, InPlace: true})
	s.add(AppWrites{Counter: named, Title: 1})
	s.add(Foreign{Counter: named})
	s.commit(map[Doc]*Document{counterDoc(): {Title: 1, Total: 100}})
	s.old(1, 1, "a", 1)
	s.old(2, 2, "a", 3)
}

// keeps is the commit that has the document keep its number.
func (s *script) keeps(base int64) {
	s.commit(map[Doc]*Document{counterDoc(): {Title: 1, Total: base}, baseDoc(): {}})
}

// moves is the commit of an import in place: the total, and what is left in the shard.
func (s *script) moves(total, left int64) {
	s.commit(map[Doc]*Document{counterDoc(): {Title: 1, Total: total}, sourceShardDoc("a"): {Count: left}, baseDoc(): {}})
}

// TestCheckImports tells right histories of imports from wrong ones, as TestCheck does.
func TestCheckImports(t *testing.T) {
	t.Parallel()
	judge(t, Check, storiesOfImports())
}

func storiesOfImports() []story {
	return []story{
		{"an import, and what has come since", "", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.imports(1)
			s.imported(2, 1, 1)
			s.old(3, 4, "a", 5)
			s.asksImport(4)
			s.imports(5)
			s.imported(4, 5, 4)
			s.asksImport(5)
			s.imported(5, 5, 0)
			s.read(6, ExactRead, 5, nothing)
			s.add(Calm{})
			s.add(Settled{})
		}},
		{"workers move what is imported", "", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.commit(map[Doc]*Document{sourceShardDoc("a"): nil, sourceDoc(): {Count: 1}})
			s.imports(1)
			s.imported(2, 1, 1)
		}},
		{"a source counts twice", "nobody has asked for that", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.imports(2)
		}},
		{"a source counts again", "nobody has asked for that", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.imports(1)
			s.old(3, 4, "a", 5)
			s.asksImport(4)
			s.imports(6)
		}},
		{"a worker's move is read half", "nobody has asked for that", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.commit(map[Doc]*Document{sourceShardDoc("a"): nil, sourceDoc(): {Count: 1}})
			s.imports(2)
		}},
		{"an import has what the source held before the last one", "nobody has asked for that", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.old(2, 2, "a", 3)
			s.asksImport(3)
			s.imports(3)
			s.asksImport(4)
			s.imports(1)
		}},
		{"acknowledged, and in no commit", "no commit has that", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.imported(2, 1, 1)
		}},
		{"acknowledged with another number", "nobody has asked for that", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.old(2, 2, "a", 3)
			s.asksImport(3)
			s.imports(1)
			s.imported(3, 3, 3)
		}},
		{"two are told of the same commit", "no commit has that", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.asksImport(3)
			s.imports(1)
			s.imported(2, 1, 1)
			s.imported(3, 1, 1)
		}},
		{"nothing is new in a document that is made again meanwhile", "", func(s *script) {
			s.host()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.commit(map[Doc]*Document{
				counterDoc(): {Title: 1, Total: 1}, baseDoc(): {},
			})
			s.imported(2, 1, 1)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.asksImport(3)
			s.add(AppWrites{Counter: named, Title: 2})
			s.commit(map[Doc]*Document{counterDoc(): {Title: 2}})
			s.imported(3, 1, 0)
		}},
		{"nothing is new, it says, and there is", "found all of 1 there", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.imported(2, 1, 0)
		}},
		{"refused, and applied", "was refused", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.imports(1)
			s.end(2, Refused)
		}},
		{"refused, and applied later", "nobody has asked for that", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.end(2, Refused)
			s.imports(1)
		}},
		{"refused, and the other one applied", "", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.asksImport(3)
			s.imports(1)
			s.end(2, Refused)
			s.imported(3, 1, 1)
		}},
		{"nobody asked for it", "nobody has asked for that", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.imports(1)
		}},
		{"a reset keeps in mind what was imported", "", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.imports(1)
			s.imported(2, 1, 1)
			s.add(Begin{Call: 3, Kind: Reset, Counter: named})
			s.imports(0)
			s.end(3, OK)
			s.asksImport(4)
			s.imported(4, 1, 0)
		}},
		{"a base out of nowhere", "nobody has asked for that", func(s *script) {
			s.make()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 1}, baseDoc(): {}})
		}},
		{"the next life imports all of it again", "", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.imports(1)
			s.imported(2, 1, 1)
			s.remove()
			s.make()
			s.asksImport(4)
			s.imports(1)
			s.imported(4, 1, 1)
		}},
		{"made again, it has what was imported", "", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.imports(1)
			s.imported(2, 1, 1)
			s.vanish()
			s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: 1}})
			s.read(3, ExactRead, 1, nothing)
		}},
		{"another field is imported", "", func(s *script) {
			s.make()
			s.add(Begin{Call: 1, Kind: Elsewhere, Counter: named})
			s.commit(map[Doc]*Document{baseDoc(): {}})
			s.end(1, OK)
		}},
		{"an exact read misses an import that was acknowledged", "at no moment", func(s *script) {
			s.make()
			s.old(1, 1, "a", 1)
			s.asksImport(2)
			s.imports(1)
			s.imported(2, 1, 1)
			s.read(3, ExactRead, 0, nothing)
		}},

		{"in place, and what has come since", "", func(s *script) {
			s.uninstalled()
			s.asksImport(3)
			s.keeps(100)
			s.moves(103, 0)
			s.imported(3, 103, 3)
			s.old(4, 4, "a", 4)
			s.asksImport(5)
			s.moves(107, 0)
			s.imported(5, 107, 4)
			s.asksImport(6)
			s.imported(6, 107, 0)
			s.add(Calm{})
		}},
		{"in place, and the document waits for the import", "", func(s *script) {
			s.uninstalled()
			s.add(Calm{})
			s.add(Settled{})
		}},
		{"in place, and the total doesn't follow", "long after", func(s *script) {
			s.uninstalled()
			s.begin(3, 3, 4)
			s.commit(map[Doc]*Document{shardDoc("0"): {}})
			s.shard("0", 4)
			s.add(Settled{})
		}},
		{"in place, while a client adds", "", func(s *script) {
			s.uninstalled()
			s.asksImport(3)
			s.keeps(100)
			s.old(4, 4, "a", 7)
			s.moves(103, 4)
			s.imported(3, 103, 3)
		}},
		{"in place after adoption, which has replaced the number", "", func(s *script) {
			s.uninstalled()
			s.commit(map[Doc]*Document{counterDoc(): {Title: 1}, baseDoc(): {}})
			s.asksImport(3)
			s.moves(103, 0)
			s.imported(3, 103, 103)
		}},
		{"in place after adoption, without the number that it replaced", "nobody has asked for that", func(s *script) {
			s.uninstalled()
			s.commit(map[Doc]*Document{counterDoc(): {Title: 1}, baseDoc(): {}})
			s.asksImport(3)
			s.moves(3, 0)
		}},
		{"in place, by the commit that first shows the field", "", func(s *script) {
			s.uninstalled()
			s.commit(map[Doc]*Document{baseDoc(): {}})
			s.asksImport(3)
			s.commit(map[Doc]*Document{
				counterDoc(): {Title: 1, Total: 103}, sourceShardDoc("a"): {},
				baseDoc(): {},
			})
			s.imported(3, 103, 103)
		}},
		{"in place, and the document's number is lost", "a commit changes the total", func(s *script) {
			s.uninstalled()
			s.asksImport(3)
			s.keeps(1)
		}},
		{"in place, and a shard keeps what was moved", "a commit changes the total", func(s *script) {
			s.uninstalled()
			s.asksImport(3)
			s.keeps(100)
			s.moves(103, 3)
		}},
		{"in place, and a shard loses what a client has added meanwhile", "a commit changes the total", func(s *script) {
			s.uninstalled()
			s.asksImport(3)
			s.keeps(100)
			s.old(4, 4, "a", 7)
			s.moves(103, 0)
		}},
		{"in place, and two move the same", "that holds 0", func(s *script) {
			s.uninstalled()
			s.asksImport(3)
			s.asksImport(4)
			s.keeps(100)
			s.moves(103, 0)
			s.moves(106, -3)
		}},
		{"in place, and one moves what the other has while a client adds", "that holds 4", func(s *script) {
			s.uninstalled()
			s.asksImport(3)
			s.asksImport(4)
			s.keeps(100)
			s.moves(103, 0)
			s.old(5, 4, "a", 4)
			s.moves(106, 1)
		}},
		{"in place, and what is taken goes nowhere", "and imports nothing", func(s *script) {
			s.uninstalled()
			s.keeps(100)
			s.commit(map[Doc]*Document{sourceShardDoc("a"): {}})
		}},
		{"in place, and a flush takes off what no import has", "nobody has asked for that", func(s *script) {
			s.uninstalled()
			s.asksImport(3)
			s.keeps(100)
			s.moves(103, 0)
			s.old(4, 4, "a", 4)
			s.moves(103, 0)
		}},
		{"in place, while the extension runs", "has last run", func(s *script) {
			s.uninstalled()
			s.commit(map[Doc]*Document{{Kind: "extension"}: {}})
			s.asksImport(3)
			s.keeps(100)
			s.moves(103, 0)
			s.imported(3, 103, 3)
		}},
		{"in place, five minutes after the extension", "", func(s *script) {
			s.uninstalled()
			s.commit(map[Doc]*Document{{Kind: "extension"}: {}})
			s.now = s.now.Add(oldUninstall)
			s.asksImport(3)
			s.keeps(100)
			s.moves(103, 0)
			s.imported(3, 103, 3)
		}},

		{"live, and what has come since", "", func(s *script) {
			s.live(100)
			of := s.told()
			s.moves(101, 0)
			s.acknowledges(of)
			s.old(2, 2, "a", 2)
			of = s.told()
			s.moves(103, 0)
			s.acknowledges(of)
			s.add(Calm{})
			s.add(Settled{})
		}},
		{"live, and a click is acknowledged that is not taken over", "the shard holds 1 yet", func(s *script) {
			s.live(100)
			s.acknowledges(s.told())
		}},
		{"live, and a newer click waits", "", func(s *script) {
			s.live(100)
			of := s.told()
			s.old(2, 2, "a", 3)
			s.acknowledges(of)
		}},
		{"live, and a newer click comes late", "", func(s *script) {
			s.live(100)
			of := s.told()
			s.old(2, 2, "a", 3)
			s.add(Dropped{Counter: named, Shard: "a", Of: s.told()})
			s.add(Came{Doc: sourceShardDoc("a"), Of: s.told()})
			s.acknowledges(of)
		}},
		{"live, and a copy waits of a newer click that was acknowledged by who doesn't show the field", "", func(s *script) {
			s.live(100)
			of := s.told()
			s.old(2, 2, "a", 3)
			s.add(Came{Doc: sourceShardDoc("a"), Of: s.told(), Fields: []string{""}})
			s.add(Dropped{Counter: named, Shard: "a", Of: s.told(), Elsewhere: true})
			s.acknowledges(of)
		}},
		{"live, and a newer click is acknowledged by who doesn't show the field", "the shard holds 3 yet", func(s *script) {
			s.live(100)
			of := s.told()
			s.old(2, 2, "a", 3)
			s.add(Dropped{Counter: named, Shard: "a", Of: s.told(), Elsewhere: true})
			s.acknowledges(of)
		}},
		{"live, and a newer click never comes", "the shard holds 3 yet", func(s *script) {
			s.live(100)
			of := s.told()
			s.old(2, 2, "a", 3)
			s.add(Dropped{Counter: named, Shard: "a", Of: s.told()})
			s.acknowledges(of)
		}},
		{"live, and the page was away", "", func(s *script) {
			s.live(100)
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.acknowledges(s.told())
		}},
		{"live, and a click is acknowledged for a note", "", func(s *script) {
			s.live(100)
			s.add(Noted{Counter: named, There: true})
			s.acknowledges(s.told())
			s.moves(101, 0)
			s.add(Noted{Counter: named})
		}},
		{"live, and the note goes while the page is away", "", func(s *script) {
			s.live(100)
			s.add(Noted{Counter: named, There: true})
			s.acknowledges(s.told())
			s.commit(map[Doc]*Document{counterDoc(): nil})
			s.add(Noted{Counter: named})
			s.add(Foreign{Counter: named})
			s.commit(map[Doc]*Document{counterDoc(): {Title: 1, Total: 100}})
			s.add(Settled{})
		}},
		{"live, and the note goes first", "the note of", func(s *script) {
			s.live(100)
			s.add(Noted{Counter: named, There: true})
			s.acknowledges(s.told())
			s.add(Noted{Counter: named})
		}},
		{"live, and something waits in the end", "2 wait in the extension's shards", func(s *script) {
			s.live(100)
			s.moves(101, 0)
			s.old(2, 2, "a", 2)
			s.add(Settled{})
		}},
		{"live, and a click was acknowledged that nobody has", "of the extension's clients too", func(s *script) {
			s.live(0)
			s.add(Begin{Call: 2, Kind: Old, Intent: 2, Adds: []Add{{Counter: named, By: 2}}})
			s.end(2, OK)
			s.moves(1, 0)
			s.add(Settled{})
		}},
		{"live, and an import says again what clients were told", "", func(s *script) {
			s.live(0)
			s.asksImport(3)
			s.moves(1, 0)
			s.imported(3, 1, 1)
			s.add(Settled{})
		}},
		{"live, and who reads both sees a number fall", "sees a number fall", func(s *script) {
			s.live(100)
			s.moves(101, 0)
			s.old(2, 2, "a", 2)
			s.moves(101, 0)
		}},
	}
}

// live is the app's document, on which the extension has counted, and a shard that holds 1, where that is taken over
// live.
func (s *script) live(total int64) {
	s.add(Hosted{CleanupAfter: time.Hour, InPlace: true, Live: true})
	s.add(AppWrites{Counter: named, Title: 1})
	s.add(Foreign{Counter: named})
	s.commit(map[Doc]*Document{counterDoc(): {Title: 1, Total: total}})
	s.old(1, 1, "a", 1)
}

// told is the time of the event of what the shard holds.
func (s *script) told() int64 { return s.docs[sourceShardDoc("a")].Updated }

func (s *script) acknowledges(of int64) {
	s.add(Acknowledged{Doc: sourceShardDoc("a"), Of: of, Fields: []string{""}})
}
