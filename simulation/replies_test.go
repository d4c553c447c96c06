package simulation

import "time"

// rated makes a counter that has the average of its ratings and their sum as a double, and one
// rating.
func (s counting) rated(is any) int64 {
	s.add(Counting{Fields: []CountedField{rating, score}})
	s.make()
	doc := countedDoc(named, "ratings", "a")
	s.add(AppChanges{Doc: doc})
	s.now = s.now.Add(time.Second)
	s.history = append(s.history, Entry{At: s.now, What: Commit{At: s.now, Counted: []Change{{Doc: doc, After: &Document{Updated: s.now.UnixMicro(), Data: map[string]any{"score": is}}}}}})
	return s.now.UnixMicro()
}

// doubles sets an average and a sum.
func (s counting) doubles(average, sum any) {
	s.commit(map[Doc]*Document{counterDoc(): {Data: map[string]any{"rating": average, "score": sum}}})
}

// reply has a reply move: to the counter, from it, or to where it is nobody's.
func (s counting) reply(before, after *Document) (doc Doc, at int64) {
	doc = countedDoc(named, repliesAt, "a")
	s.now = s.now.Add(time.Second)
	if after != nil {
		after.Updated = s.now.UnixMicro()
	}
	nobodys := doc
	nobodys.Counter, nobodys.Shard = "", repliesAt+"/a"
	s.history = append(s.history, Entry{At: s.now, What: Commit{At: s.now, Counted: []Change{{Doc: doc, Before: before, After: after}}, Replies: []Doc{nobodys}}})
	return doc, s.now.UnixMicro()
}

// replies makes a counter that counts replies, and an app that writes so many.
func (s counting) replies(writes int) {
	s.add(Counting{Fields: []CountedField{Plan{}.replies()}})
	s.make()
	for range writes {
		s.add(AppChanges{Doc: Doc{Kind: "counted", Shard: repliesAt + "/a"}})
	}
}
