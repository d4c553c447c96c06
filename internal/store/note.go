package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ceiling"
)

// Note says that a counter must be reconciled. Something about the counter kept its events from being counted, and they
// were acknowledged all the same. The note isn't among the counter's documents, which may be the cause. It stays until
// a reconcile has covered all events that were acknowledged for it.
//
// Whoever acknowledges an event for a note has read it after the event came, and found that it hasn't
// begun. Whoever reconciles first marks it as begun, and afterwards deletes it only if it hasn't
// changed since. So the reconcile's snapshot covers the event.
type Note struct {
	Counter string
	Why     string
	Since   time.Time // when it was made
	Due     time.Time // when to look at it next
	Tries   int64     // how many reconciles have begun
	// MustAsk are keys of fields whose queries must be asked: see [layout.Field.Key]. A revision that
	// doesn't have one of these fields can't cover events that another revision acknowledged.
	MustAsk []string
	// ForOthers says that everything is covered except the queries in MustAsk, and that a revision which has
	// those fields must ask them.
	ForOthers      bool
	ForOthersSince time.Time
	// Begun says that a reconcile has begun. Nobody may rely on the note before taking this back.
	Begun bool
	At    time.Time // when it was read

	version time.Time // of its document
}

// Fields of a note's document. They keep their automatic indexes: one query looks for what is due,
// another for what is left. There are few notes, each written about once a minute at most.
const (
	noteSince     = "since"
	noteCounter   = "counter"
	noteWhy       = "why"
	noteDue       = "due"
	noteTries     = "tries"
	noteBegun     = "begun"
	noteMustAsk   = "asked"
	noteForOthers = "left" // since when
)

const (
	maxWhy = 1000 // bytes of a reason that are kept
	// NoteDue is how long a note waits for its first reconcile, and how often an instance looks for notes. After each
	// reconcile that fails the pause doubles.
	NoteDue    = time.Minute
	longestDue = 5 * time.Minute
	// After rareAfter reconciles that failed, half an hour, the next ones are rare: each may cost the reads of queries
	// that get no answer in their time.
	rareAfter = 10
	rareDue   = time.Hour
	// besideFor is how long a note waits for a revision that knows all its fields: as long as events
	// are delivered again. After that they are fields of a revision that was rolled back.
	besideFor = 24 * time.Hour
	// notesAtOnce is how many notes are looked at in one go: fewer, and fewNotes at least, if the budget has no more
	// reads left.
	notesAtOnce, fewNotes = 1000, 20
)

// NoteOf is the note of a counter, at the time that it returns; nil if there is none.
func (db *DB) NoteOf(ctx context.Context, counter string) (*Note, time.Time, error) {
	docs, now, err := db.Get(ctx, db.Layout.Note(counter))
	if err != nil || docs[0] == nil {
		return nil, now, err
	}
	n := noteOf(docs[0])
	n.At = now
	return &n, now, nil
}

// Notes are at most limit notes, and fewer where the budget has few reads, the first due first, without those left to
// other revisions.
func (db *DB) Notes(ctx context.Context, limit int) ([]Note, error) {
	notes, err := db.notesBy(ctx, noteDue, time.Time{}, limit)
	return slices.DeleteFunc(notes, func(n Note) bool { return n.ForOthers }), err
}

// NotesDue are up to 1,000 notes that are due by a time, or any if that is zero, and those left to revisions that have
// their fields, such as this one. For other revisions these are due later, so that they don't hide what is due. The
// oldest trouble comes first.
func (db *DB) NotesDue(ctx context.Context, until time.Time) ([]Note, error) {
	notes, err := db.notesBy(ctx, noteDue, until, notesAtOnce)
	if err != nil {
		return nil, err
	}
	left, err := db.notesBy(ctx, noteForOthers, until, notesAtOnce)
	for _, n := range left {
		if _, unknown := db.unasked(n); len(unknown) == 0 {
			notes = append(notes, n)
		}
	}
	slices.SortStableFunc(notes, func(a, b Note) int { return a.Since.Compare(b.Since) })
	return notes, err
}

func (db *DB) notesBy(ctx context.Context, field string, until time.Time, limit int) ([]Note, error) {
	most := int(max(fewNotes, min(notesAtOnce, db.Budget.Left(ceiling.Reads)/2)))
	q := Query{Collection: db.Layout.Notes(), By: field, Limit: min(limit, most)}
	if !until.IsZero() {
		q.Most = Time(until)
	}
	docs, err := db.Documents(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("look for notes: %w", err)
	}
	notes := make([]Note, len(docs))
	for i, doc := range docs {
		notes[i] = noteOf(doc)
	}
	return notes, nil
}

func noteOf(doc *firestorepb.Document) Note {
	fields := doc.GetFields()
	var asked []string
	for _, key := range fields[noteMustAsk].GetArrayValue().GetValues() {
		asked = append(asked, key.GetStringValue())
	}
	left := fields[noteForOthers]
	return Note{
		MustAsk: asked, ForOthers: left != nil, ForOthersSince: left.GetTimestampValue().AsTime(),
		Counter: fields[noteCounter].GetStringValue(), Why: fields[noteWhy].GetStringValue(),
		Since: fields[noteSince].GetTimestampValue().AsTime(), Due: fields[noteDue].GetTimestampValue().AsTime(),
		Tries: fields[noteTries].GetIntegerValue(), Begun: fields[noteBegun].GetBooleanValue(),
		version: doc.GetUpdateTime().AsTime(),
	}
}

// unasked are the keys of this revision's fields that a note's MustAsk lacks. Unknown are the keys in
// Asked that this revision doesn't have.
func (db *DB) unasked(n Note) (unasked, unknown []string) {
	unknown = slices.Clone(n.MustAsk)
	for _, field := range db.Layout.Shown() {
		key := field.Key()
		if at := slices.Index(unknown, key); at >= 0 {
			unknown = slices.Delete(unknown, at, at+1)
		} else {
			unasked = append(unasked, key)
		}
	}
	return unasked, unknown
}

// EnsureNote makes a note of a counter, or changes the existing one, so that the caller may rely on it.
// A new note is due after [NoteDue].
func (db *DB) EnsureNote(ctx context.Context, counter, why string) (made bool, err error) {
	_, err = db.CommitIf(ctx, Patience{Conflicts: 8, Doubts: 6}, func(ctx context.Context) ([]*firestorepb.Write, error) {
		n, now, err := db.NoteOf(ctx, counter)
		if err != nil {
			return nil, err
		}
		if n == nil {
			made = true // also if the next try finds it, because the answer is lost
			unasked, _ := db.unasked(Note{})
			why := strings.ToValidUTF8(why[:min(len(why), maxWhy)], "") // gRPC refuses half a character at the end
			return []*firestorepb.Write{Create(db.Layout.Note(counter), map[string]*firestorepb.Value{
				noteCounter: String(counter), noteWhy: String(why), noteSince: Time(now), noteDue: Time(now.Add(NoteDue)), noteTries: Int(0), noteMustAsk: texts(unasked),
			})}, nil
		}
		unasked, _ := db.unasked(*n)
		// If a reconcile has begun, its snapshot may be older than the events. If the note asks for fewer
		// queries than this revision has, it doesn't cover them.
		if n.Begun || n.ForOthers || len(unasked) > 0 {
			fields := map[string]*firestorepb.Value{noteMustAsk: texts(append(n.MustAsk, unasked...))}
			if n.ForOthers {
				fields[noteDue] = Time(n.Since) // at once
			}
			return []*firestorepb.Write{Update(db.Layout.Note(counter), IfVersion(n.version), fields, []string{noteBegun, noteForOthers})}, nil
		}
		return nil, nil
	})
	return made, err
}

func texts(list []string) *firestorepb.Value {
	values := make([]*firestorepb.Value, len(list))
	for i, text := range list {
		values[i] = String(text)
	}
	return Array(values...)
}

// BeginNote marks the note of a counter as begun, and returns it: a reconcile follows, and the note is due again if
// that fails. With due, only a note that is due is begun. It returns nil if there is nothing to do: there is no note,
// another instance was faster, or only queries of another revision are left. With other errors it returns the note.
func (db *DB) BeginNote(ctx context.Context, counter string, due bool) (begun *Note, err error) {
	n, now, err := db.NoteOf(ctx, counter)
	if err != nil || n == nil || due && !n.ForOthers && n.Due.After(now) {
		return nil, err
	}
	if _, unknown := db.unasked(*n); n.ForOthers && len(unknown) > 0 && now.Sub(n.ForOthersSince) < besideFor {
		return nil, nil
	}
	pause := rareDue
	if n.Tries < rareAfter {
		pause = min(NoteDue<<n.Tries, longestDue)
	}
	n.Tries, n.Due, n.Begun = n.Tries+1, now.Add(pause), true
	resp, err := db.Commit(ctx, Update(db.Layout.Note(counter), IfVersion(n.version), map[string]*firestorepb.Value{
		noteTries: Int(n.Tries), noteDue: Time(n.Due), noteBegun: Bool(true),
	}, []string{noteForOthers}))
	switch {
	case err == nil:
		n.version = resp.GetWriteResults()[0].GetUpdateTime().AsTime()
		return n, nil
	case KindOf(err) == Conflict:
		return nil, nil
	}
	return n, fmt.Errorf("begin with a note: %w", err)
}

// EndNote ends a begun note, which is covered, unless others rely on it by now. If another revision has to ask queries
// of it, EndNote leaves it to one that has their fields: such a one may take it at once, any a day later.
func (db *DB) EndNote(ctx context.Context, n Note) error {
	name, same := db.Layout.Note(n.Counter), IfVersion(n.version)
	w := DeleteIf(name, same)
	if _, unknown := db.unasked(n); len(unknown) > 0 && !n.ForOthers {
		w = Update(name, same, map[string]*firestorepb.Value{
			noteMustAsk: texts(unknown), noteForOthers: Time(n.At), noteDue: Time(n.At.Add(besideFor)),
		}, []string{noteBegun})
	}
	if _, err := db.Commit(ctx, w); err != nil && KindOf(err) != Conflict {
		return fmt.Errorf("end a note: %w", err)
	}
	return nil
}

// Cursor is where a walk over all counters goes on: after the last counter of a page that it has done. Beside it is the
// look for counters that have changed, which may be elsewhere.
type Cursor struct {
	Page string // token of the page
	Done string // id of the last counter of the page that was done; empty if none was

	Changes string // token of the page at which the look for changes goes on
	// ChangesBegan is when that look began; zero if none is under way. ChangedSince is when the last one began that came
	// to its end; zero if none has.
	ChangesBegan, ChangedSince time.Time

	// AsksFrom is the counter from which on a walk asks queries: for an earlier one's too few reads were left. Unasked is
	// the first for which this walk had none. Both are ids, empty if there is none.
	AsksFrom, Unasked string
}

// Fields of the document that says where the last walk stopped.
const (
	cursorWalks   = "walks" // :: path of counters → where its walk goes on
	cursorPage    = "page"
	cursorDone    = "done"
	cursorChanges = "changes"
	cursorBegan   = "began"
	cursorSince   = "since"
	cursorAsks    = "asks_from"
	cursorUnasked = "unasked"
	cursorAt      = "updated_at"
)

// ReadCursor is where the last walk over all counters stopped, at the time that it returns.
func (db *DB) ReadCursor(ctx context.Context) (Cursor, time.Time, error) {
	docs, now, err := db.Get(ctx, db.Layout.Cursor())
	if err != nil {
		return Cursor{}, now, err
	}
	walk := docs[0].GetFields()[cursorWalks].GetMapValue().GetFields()[db.Layout.Path.String()].GetMapValue().GetFields()
	timeIn := func(field string) time.Time {
		if t := walk[field].GetTimestampValue(); t != nil {
			return t.AsTime()
		}
		return time.Time{}
	}
	return Cursor{
		Page: walk[cursorPage].GetStringValue(), Done: walk[cursorDone].GetStringValue(),
		Changes: walk[cursorChanges].GetStringValue(), ChangesBegan: timeIn(cursorBegan), ChangedSince: timeIn(cursorSince),
		AsksFrom: walk[cursorAsks].GetStringValue(), Unasked: walk[cursorUnasked].GetStringValue(),
	}, now, nil
}

// SaveCursor stores where a walk over all counters stopped. The walk's own time may have run out: this is worth a few
// seconds more.
func (db *DB) SaveCursor(ctx context.Context, at Cursor) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	fields := map[string]*firestorepb.Value{}
	for field, text := range map[string]string{cursorPage: at.Page, cursorDone: at.Done, cursorChanges: at.Changes, cursorAsks: at.AsksFrom, cursorUnasked: at.Unasked} {
		fields[field] = String(text)
	}
	for field, t := range map[string]time.Time{cursorBegan: at.ChangesBegan, cursorSince: at.ChangedSince} {
		if !t.IsZero() {
			fields[field] = Time(t)
		}
	}
	_, err := db.Commit(ctx, Update(db.Layout.Cursor(), nil,
		map[string]*firestorepb.Value{cursorWalks: Map(map[string]*firestorepb.Value{db.Layout.Path.String(): Map(fields)})}, nil, ServerTime(cursorAt)))
	return err
}
