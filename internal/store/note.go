package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// Note says that a counter must be reconciled: events of it are acknowledged that could not be
// counted, for a reason of its counter's own. It lies apart from the counter, whose documents may be
// that reason, and lasts until a reconcile has covered all who rely on it.
//
// Whoever acknowledges an event for a note has read it after the event came, and found it there and
// not begun. Whoever reconciles says first that this has begun, and takes the note away afterwards
// only as it was then. So what is acknowledged for a note is covered by a snapshot that is newer
// than the note's last word.
type Note struct {
	Counter string
	Why     string
	Since   time.Time // it is there
	Due     time.Time // to be looked at, again
	Tries   int64     // reconciles that have begun
	// keys of the definitions whose queries have to be asked: see [layout.Field.Key]. A revision that
	// doesn't know one of them can't cover what one that does has acknowledged.
	Asked []string
	// Left: all is covered but for the queries in Asked, which a revision is to ask that knows them
	Left   bool
	LeftAt time.Time
	// Begun: nothing more may be acknowledged for the note, until whoever wants to takes this back
	Begun bool

	version time.Time // of its document
}

// Fields of a note's document. They keep the indexes that every field has: a query looks for what is
// due, another for what is left, and there are few notes, each written about once a minute at most.
const (
	noteSince   = "since"
	noteCounter = "counter"
	noteWhy     = "why"
	noteDue     = "due"
	noteTries   = "tries"
	noteBegun   = "begun"
	noteAsked   = "asked"
	noteLeft    = "left" // since when
)

// maxWhy is how many bytes of a reason are kept.
const maxWhy = 1000

// NoteOf is the note of a counter, as of the time that it returns; nil where there is none.
func (db *DB) NoteOf(ctx context.Context, counter string) (*Note, time.Time, error) {
	docs, now, err := db.Get(ctx, db.Note(counter))
	if err != nil || docs[0] == nil {
		return nil, now, err
	}
	n := noteOf(docs[0])
	return &n, now, nil
}

// Notes are the notes that are due by a time, or all where that is zero, those first that are due
// first; limit at most.
func (db *DB) Notes(ctx context.Context, until time.Time, limit int) ([]Note, error) {
	return db.notesBy(ctx, noteDue, until, limit)
}

// LeftNotes are the same of those that are left, for a revision that may know their queries. For others
// they are due later: many may wait for long, and would hide what is due.
func (db *DB) LeftNotes(ctx context.Context, until time.Time, limit int) ([]Note, error) {
	return db.notesBy(ctx, noteLeft, until, limit)
}

func (db *DB) notesBy(ctx context.Context, field string, until time.Time, limit int) ([]Note, error) {
	docs, err := db.Documents(ctx, Query{Collection: db.Layout.Notes(), By: field, Until: until, Limit: limit})
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
	for _, key := range fields[noteAsked].GetArrayValue().GetValues() {
		asked = append(asked, key.GetStringValue())
	}
	left := fields[noteLeft]
	return Note{
		Asked: asked, Left: left != nil, LeftAt: left.GetTimestampValue().AsTime(),
		Counter: fields[noteCounter].GetStringValue(), Why: fields[noteWhy].GetStringValue(),
		Since: fields[noteSince].GetTimestampValue().AsTime(), Due: fields[noteDue].GetTimestampValue().AsTime(),
		Tries: fields[noteTries].GetIntegerValue(), Begun: fields[noteBegun].GetBooleanValue(),
		version: doc.GetUpdateTime().AsTime(),
	}
}

// Unasked are the keys of this revision's fields whose queries a note doesn't say are to be asked, and
// unknown those that it does say, of fields that this revision doesn't have.
func (db *DB) Unasked(n Note) (unasked, unknown []string) {
	unknown = slices.Clone(n.Asked)
	for _, field := range db.Counted {
		key := field.Key()
		if at := slices.Index(unknown, key); at >= 0 {
			unknown = slices.Delete(unknown, at, at+1)
		} else {
			unasked = append(unasked, key)
		}
	}
	return unasked, unknown
}

// EnsureNote sees to it that a counter has a note that may be relied on, which is due after a while
// where it is made. Whoever has begun with one doesn't take it away any more.
func (db *DB) EnsureNote(ctx context.Context, counter, why string, due time.Duration) (made bool, err error) {
	_, err = db.CommitIf(ctx, Patience{Conflicts: 8, Doubts: 6}, func(ctx context.Context) ([]*firestorepb.Write, error) {
		n, now, err := db.NoteOf(ctx, counter)
		if made = err == nil && n == nil; made {
			n = &Note{}
		}
		if err != nil {
			return nil, err
		}
		unasked, _ := db.Unasked(*n)
		if made {
			why := strings.ToValidUTF8(why[:min(len(why), maxWhy)], "") // half a character at the end could not be sent
			return []*firestorepb.Write{Create(db.Note(counter), map[string]*firestorepb.Value{
				noteCounter: String(counter), noteWhy: String(why), noteSince: Time(now), noteDue: Time(now.Add(due)), noteTries: Int(0), noteAsked: texts(unasked),
			})}, nil
		}
		// One that is begun may have its snapshot from before the events, and one of a revision that asks
		// for less doesn't cover them.
		if n.Begun || n.Left || len(unasked) > 0 {
			fields := map[string]*firestorepb.Value{noteAsked: texts(append(n.Asked, unasked...))}
			if n.Left {
				fields[noteDue] = Time(n.Since) // at once
			}
			return []*firestorepb.Write{Update(db.Note(counter), UpdatedAtTime(n.version), fields, []string{noteBegun, noteLeft})}, nil
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

// BeginNote says that a reconcile of the counter begins, and when the note is due again where that
// fails. It reports false where the note has changed meanwhile: another has begun, or relies on it.
func (db *DB) BeginNote(ctx context.Context, n Note, due time.Time) (begun Note, ok bool, err error) {
	n.Tries, n.Due, n.Begun = n.Tries+1, due, true
	resp, err := db.Commit(ctx, []*firestorepb.Write{Update(db.Note(n.Counter), UpdatedAtTime(n.version), map[string]*firestorepb.Value{
		noteTries: Int(n.Tries), noteDue: Time(due), noteBegun: Bool(true),
	}, []string{noteLeft})})
	switch {
	case err == nil:
		n.version = resp.GetWriteResults()[0].GetUpdateTime().AsTime()
		return n, true, nil
	case KindOf(err) == Conflict:
		return n, false, nil
	}
	return n, false, fmt.Errorf("begin with a note: %w", err)
}

// LeaveNote leaves a note that was begun, and is covered but for these queries, from a time on to a
// revision that knows them, until it is due for any, unless others rely on it by now.
func (db *DB) LeaveNote(ctx context.Context, n Note, asked []string, at, due time.Time) error {
	_, err := db.Commit(ctx, []*firestorepb.Write{Update(db.Note(n.Counter), UpdatedAtTime(n.version), map[string]*firestorepb.Value{
		noteAsked: texts(asked), noteLeft: Time(at), noteDue: Time(due),
	}, []string{noteBegun})})
	if err == nil || KindOf(err) == Conflict {
		return nil
	}
	return fmt.Errorf("leave a note: %w", err)
}

// RemoveNote takes a note away that was begun, unless others rely on it by now. Where that fails the
// note stays, and is due again.
func (db *DB) RemoveNote(ctx context.Context, n Note) error {
	_, err := db.Commit(ctx, []*firestorepb.Write{DeleteIf(db.Note(n.Counter), UpdatedAtTime(n.version))})
	if err == nil || KindOf(err) == Conflict {
		return nil
	}
	return fmt.Errorf("take a note away: %w", err)
}
