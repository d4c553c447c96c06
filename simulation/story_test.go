package simulation

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// script writes a history by hand. Its documents are of the counter named-1, unless a method says
// otherwise.
type script struct {
	history History
	now     time.Time
	docs    map[Doc]*Document
}

func newScript() *script {
	return &script{now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), docs: map[Doc]*Document{}}
}

func (s *script) add(what any) {
	s.now = s.now.Add(time.Second)
	s.history = append(s.history, Entry{At: s.now, What: what})
}

// commit replaces documents; nil deletes one. It returns the commit's time in microseconds.
func (s *script) commit(docs map[Doc]*Document) int64 {
	s.now = s.now.Add(time.Second)
	c := Commit{At: s.now}
	for name, doc := range docs {
		if doc == nil && s.docs[name] == nil {
			continue
		}
		if doc != nil {
			doc.Updated = s.now.UnixMicro()
		}
		c.Changes = append(c.Changes, Change{Doc: name, Before: s.docs[name], After: doc})
		s.docs[name] = doc
	}
	s.history = append(s.history, Entry{At: s.now, What: c})
	return s.now.UnixMicro()
}

const named = "named-1"

func counterDoc() Doc        { return Doc{Kind: "counter", Counter: named} }
func baseDoc() Doc           { return Doc{Kind: "base", Counter: named} }
func shardDoc(id string) Doc { return Doc{Kind: "shard", Counter: named, Shard: id} }

// make is the creation of the counter, with two shards.
func (s *script) make() {
	s.commit(map[Doc]*Document{
		counterDoc(): {NumShards: 2}, baseDoc(): {}, shardDoc("0"): {}, shardDoc("1"): {},
	})
}

// remove deletes the counter, at once.
func (s *script) remove() {
	s.add(Begin{Call: 99, Kind: Delete, Counter: named})
	s.commit(map[Doc]*Document{counterDoc(): nil, baseDoc(): nil, shardDoc("0"): nil, shardDoc("1"): nil})
	s.end(99, OK)
}

// resize is the begin of a resize to one shard.
func (s *script) resize() {
	s.add(Begin{Call: 97, Kind: Resize, Counter: named})
	s.commit(map[Doc]*Document{counterDoc(): {NumShards: 1, Total: s.docs[counterDoc()].Total}})
}

// vanish deletes the counter's document in a console.
func (s *script) vanish() {
	s.add(Begin{Call: 98, Kind: DeleteDocument, Counter: named})
	s.commit(map[Doc]*Document{counterDoc(): nil})
	s.end(98, OK)
}

// rebase is the commit of a command that sets the total.
func (s *script) rebase(total int64) {
	s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: total}, baseDoc(): {}})
}

// shard sets a shard's count.
func (s *script) shard(id string, count int64) int64 {
	return s.commit(map[Doc]*Document{shardDoc(id): {Count: count}})
}

// show sets the total.
func (s *script) show(total int64) {
	s.commit(map[Doc]*Document{counterDoc(): {NumShards: 2, Total: total}})
}

func (s *script) begin(call, intent int, by int64) {
	s.add(Begin{Call: call, Kind: Increment, Intent: intent, Adds: []Add{{Counter: named, By: by}}})
}

func (s *script) end(call int, outcome Outcome) { s.add(End{Call: call, Outcome: outcome}) }

// ack acknowledges the event of a shard.
func (s *script) ack(shard string, of int64) {
	s.add(Acknowledged{Doc: shardDoc(shard), Of: of, Fields: []string{""}})
}

func (s *script) read(call int, kind Kind, total int64, meanwhile func()) {
	s.add(Begin{Call: call, Kind: kind, Counter: named})
	meanwhile()
	s.add(End{Call: call, Outcome: OK, Total: total})
}

func nothing() {}

// story is a history, right or wrong.
type story struct {
	name  string
	wrong string // "" is right
	write func(*script)
}

// judge has stories told from one another: nothing is found in a right one, and in a wrong one what
// it names comes first.
func judge(t *testing.T, check func(History) []Violation, stories []story) {
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			s := newScript()
			story.write(s)
			violations := check(s.history)
			switch {
			case story.wrong == "":
				for _, v := range violations {
					t.Errorf("a right history: %s", v)
				}
			case len(violations) == 0:
				t.Error("nothing was found")
			case !strings.Contains(violations[0].Message, story.wrong):
				t.Errorf("found %q; want %q in it", violations[0].Message, story.wrong)
			}
		})
	}
}

// Each message of the checkers has a story that is wrong by it first: without it, it would pass, or
// be found later and by another.
func TestEveryMessage(t *testing.T) {
	t.Parallel()
	var said []string
	for _, story := range slices.Concat(storiesOfCommits(), storiesOfHosted(), storiesOfHostedLimits(), storiesOfImports(), storiesOfMembers(), storiesOfOdd(), storiesOfStrangers(), storiesOfClicks(), storiesOfLives(), storiesOfLimits(), storiesOfHolds(), storiesOfAmounts()) {
		s := newScript()
		if story.write(s); story.wrong != "" {
			if found := Check(s.history); len(found) > 0 {
				said = append(said, found[0].Message)
			}
		}
	}
	for _, story := range storiesOfAnswers() {
		s := newScript()
		if story.write(s); story.wrong != "" {
			if found := CheckAnswers(s.history); len(found) > 0 {
				said = append(said, found[0].Message)
			}
		}
	}
	files, err := filepath.Glob("check*.go")
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`c\.fail\(("(?:[^"\\]|\\.)*")`).FindAllSubmatch(source, -1) {
			format, err := strconv.Unquote(string(m[1]))
			if err != nil || strings.HasSuffix(file, "_test.go") {
				continue
			}
			messages++
			like := regexp.MustCompile("^" + regexp.MustCompile(`%(\\\+)?[a-z]`).ReplaceAllString(regexp.QuoteMeta(format), "(?s:.*)") + "$")
			if !slices.ContainsFunc(said, like.MatchString) {
				t.Errorf("%s: no story is wrong by %q", file, format)
			}
		}
	}
	if messages < 40 {
		t.Errorf("%d messages were found", messages)
	}
}
