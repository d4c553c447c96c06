// Package store is the only way to Firestore: it reads and writes documents. Package book knows what
// is in counters' documents and their bases.
//
// A commit is sent exactly once. The official client resends commits on UNAVAILABLE and
// RESOURCE_EXHAUSTED, and an increment that is sent again counts twice. So this package hands out no
// client: [DB.Commit] and [DB.Transact] use the generated client (firestore/apiv1) with its retries
// switched off, and the caller decides by [KindOf] what a failure means. Reads are idempotent, and
// this package repeats them.
//
// Documents are protocol buffers, named by their whole resource names, which [Layout] makes.
//
// The files in the order in which they are read; each uses what is declared below it:
//
//	note.go        counters that must be reconciled, and where a walk over all counters has stopped
//	read.go        documents, queries, listeners, sums and counts
//	store.go       commits: one is sent once; the loop of those on a condition; transactions; writes, and values in them
//	connection.go  the database, its time, its connection, why there is none, and calls that are made again
package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	apiv1 "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
)

// Commit applies all writes or none. It is sent once: no layer below resends it. [KindOf] says of its
// error whether the commit may have been applied.
func (db *DB) Commit(ctx context.Context, writes ...*firestorepb.Write) (*firestorepb.CommitResponse, error) {
	return db.commit(ctx, &firestorepb.CommitRequest{Database: db.Layout.Database, Writes: writes}, false)
}

// CommitInstead is [DB.Commit] while another one is in doubt, where at most one of the two can be applied. The other
// one has paid. This one pays once it is known to be applied, so it may be sent for as long as Firestore is away.
func (db *DB) CommitInstead(ctx context.Context, writes ...*firestorepb.Write) (*firestorepb.CommitResponse, error) {
	return db.commit(ctx, &firestorepb.CommitRequest{Database: db.Layout.Database, Writes: writes}, true)
}

// commit sends a commit. It pays if it was applied. It also pays if nobody knows whether it was, unless it replaces a
// commit that has paid.
func (db *DB) commit(ctx context.Context, req *firestorepb.CommitRequest, instead bool) (resp *firestorepb.CommitResponse, err error) {
	err = db.api.call(ctx, func(ctx context.Context, api *apiv1.Client) error {
		resp, err = api.Commit(db.outgoing(ctx), req)
		return err
	})
	if err == nil || KindOf(err) == Doubtful && !instead { // which may have been applied
		db.Budget.Spend(ceiling.Writes, writeUnits(db.Budget, req.GetWrites()))
	}
	if err == nil {
		db.clock.saw(resp.GetCommitTime().AsTime())
	}
	return resp, err
}

// Kind is what a commit's error says about the commit.
type Kind int

const (
	// Permanent: not applied, and the same commit will never be.
	Permanent Kind = iota
	// Conflict: not applied, because a precondition does not hold (NOT_FOUND, ALREADY_EXISTS,
	// FAILED_PRECONDITION).
	Conflict
	// Contention: not applied, because too many want the same document (ABORTED). The same commit may
	// succeed later.
	Contention
	// Doubtful: nobody knows whether it was applied. RESOURCE_EXHAUSTED is doubtful, too: a quota answers
	// it before anything is applied, but gRPC also reports a torn HTTP/2 stream (ENHANCE_YOUR_CALM)
	// and an answer that is too large like that.
	Doubtful
)

// IsTooLarge reports whether Firestore refuses a commit because of what it would write, such as a
// document of over a megabyte.
func IsTooLarge(err error) bool {
	return status.Code(err) == codes.InvalidArgument && KindOf(err) == Permanent
}

// InvalidQuery reports whether Firestore says that a query will never succeed, as without an index.
// DEADLINE_EXCEEDED doesn't say that: our deadlines are long before Firestore's own.
func InvalidQuery(err error) bool {
	return status.Code(err) == codes.FailedPrecondition || status.Code(err) == codes.InvalidArgument
}

// KindOf says whether a commit was applied, by its error.
func KindOf(err error) Kind {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Doubtful
	}
	if errors.Is(err, ErrClosed) {
		return Permanent
	}
	s, ok := status.FromError(err)
	if !ok {
		return Doubtful
	}
	switch s.Code() {
	case codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition:
		return Conflict
	case codes.Aborted:
		return Contention
	case codes.ResourceExhausted, codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.Canceled:
		return Doubtful
	case codes.InvalidArgument:
		// If a transaction's commit is sent twice because the first answer was lost, Firestore doesn't
		// know the transaction any more ("has expired", googleapis/nodejs-firestore#1347; "is invalid or
		// closed" in the official emulator). Running the transaction again tells what happened.
		switch message := strings.ToLower(s.Message()); {
		case strings.Contains(message, "transaction"):
			return Doubtful
		case strings.Contains(message, "base version"):
			// The document is older than the version in the commit's condition: the database was
			// restored from a backup, or an emulator was reset. Reading again tells, as with any other
			// changed version.
			return Conflict
		}
	}
	return Permanent
}

// writeUnits is how many writes are spent on a commit: one for each KiB of what is written, as Enterprise edition bills
// it. So who makes counters whose ids are long pays for their longer events, too.
func writeUnits(budget *ceiling.Budget, writes []*firestorepb.Write) (n float64) {
	if !budget.Bounds(ceiling.Writes) {
		return 0
	}
	for _, w := range writes {
		n += float64(1 + proto.Size(w)/1024)
	}
	return n
}

// rollbackTimeout bounds the call that gives a transaction's locks back. If it fails, Firestore releases
// them after a minute.
const rollbackTimeout = 2 * time.Second

// rollback ends the transaction of a commit that was not made, if it has one.
func (db *DB) rollback(ctx context.Context, req *firestorepb.CommitRequest) {
	if len(req.GetTransaction()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = db.api.call(ctx, func(ctx context.Context, api *apiv1.Client) error {
		return api.Rollback(db.outgoing(ctx), &firestorepb.RollbackRequest{Database: db.Layout.Database, Transaction: req.GetTransaction()})
	})
}

const (
	// transactionTries is how often a transaction is tried after contention or doubt, for about
	// fifteen seconds.
	transactionTries   = 20
	transactionTimeout = time.Minute
)

// Tx is a read-write transaction: nobody else changes what it has read before its commit.
type Tx struct {
	reader
	mu     sync.Mutex
	writes []*firestorepb.Write
}

// Write adds writes to the transaction's commit. It is safe for concurrent use.
func (tx *Tx) Write(writes ...*firestorepb.Write) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.writes = append(tx.writes, writes...)
}

// Transact is [DB.CommitIf] with a body that reads and writes in a transaction. Body runs again after
// contention and doubt, so applying it twice must do no harm. Its own errors, and Firestore's of the
// kinds [Permanent] and [Conflict], end the transaction. After others it is tried again, and in the end
// the error is an [ErrContention] or an [ErrDoubt]. If ctx has no deadline, it takes a minute at most.
func (db *DB) Transact(ctx context.Context, body func(context.Context, *Tx) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, transactionTimeout)
		defer cancel()
	}
	var last []byte // the id of the last attempt: the next one inherits its age
	patience := Patience{Conflicts: transactionTries, Doubts: transactionTries, locks: true}
	_, err := db.commitIf(ctx, patience, func(ctx context.Context) (*firestorepb.CommitRequest, error) {
		req, err := db.begin(ctx, last, body)
		if len(req.Transaction) > 0 {
			last = req.Transaction
		}
		return req, err
	})
	return err
}

// TryTransact is one attempt of [DB.Transact]. It reports whether it sent a commit that writes. If so,
// [KindOf] tells what the error says about that commit, and at is when it was committed without one.
func (db *DB) TryTransact(ctx context.Context, body func(context.Context, *Tx) error) (at time.Time, sent bool, err error) {
	req, err := db.begin(ctx, nil, body)
	var resp *firestorepb.CommitResponse
	if err == nil {
		sent = len(req.Writes) > 0
		resp, err = db.commit(ctx, req, false)
	}
	if err != nil {
		db.rollback(ctx, req)
		return time.Time{}, sent, err
	}
	return resp.GetCommitTime().AsTime(), sent, nil
}

// begin begins a transaction, runs body in it, and returns the commit of body's writes. A transaction
// whose answer gets lost holds no locks.
func (db *DB) begin(ctx context.Context, last []byte, body func(context.Context, *Tx) error) (*firestorepb.CommitRequest, error) {
	var begun *firestorepb.BeginTransactionResponse
	err := db.api.read(ctx, func(ctx context.Context, api *apiv1.Client) (err error) {
		begun, err = api.BeginTransaction(db.outgoing(ctx), &firestorepb.BeginTransactionRequest{
			Database: db.Layout.Database,
			Options: &firestorepb.TransactionOptions{Mode: &firestorepb.TransactionOptions_ReadWrite_{
				ReadWrite: &firestorepb.TransactionOptions_ReadWrite{RetryTransaction: last},
			}},
		})
		return err
	})
	req := &firestorepb.CommitRequest{Database: db.Layout.Database, Transaction: begun.GetTransaction()}
	if err == nil {
		tx := &Tx{reader: reader{db: db, transaction: req.Transaction}}
		err = body(ctx, tx)
		req.Writes = tx.writes
	}
	return req, err
}

// Errors of [DB.CommitIf] and [DB.Transact]. They also return the plan's errors, and those of Firestore
// that a repetition can't change.
var (
	// ErrContention says that nothing was applied, because the documents or the database are too busy.
	ErrContention = errors.New("too busy")
	// ErrDoubt says that a commit may have been applied, or may yet be.
	ErrDoubt = errors.New("outcome unknown")
)

// Patience says how long [DB.CommitIf] keeps trying.
type Patience struct {
	Conflicts int  // so many commits may find that another was faster
	Doubts    int  // so many may lose their answers; twelve take some three seconds
	Yield     bool // end at the first contention, because the caller tries again later anyway
	// Smaller returns what to send instead of a plan's writes, once Firestore has refused some as too
	// large: fewer of them, or none. It may be nil.
	Smaller func(writes []*firestorepb.Write) []*firestorepb.Write

	// locks says that the plan reads within a transaction. Once it has read, no earlier commit can
	// arrive, so its errors and failed conditions are final. But its reads may meet contention.
	locks bool
}

// lastLook bounds the last look for a commit whose answer was lost, once there is no time for another
// commit.
const lastLook = 3 * time.Second

// CommitIf commits what a plan makes of the documents as they are: writes on condition that what it
// read hasn't changed, or none if there is nothing to do. If another commit was faster, or an answer
// was lost, the plan runs again. So it must recognize its own work, by a difference that is gone or by
// an id that it has left. After contention the same commit is sent, because its conditions say whether
// what it was planned by has changed. CommitIf returns the answer to its commit, or nil.
func (db *DB) CommitIf(ctx context.Context, p Patience, plan func(context.Context) ([]*firestorepb.Write, error)) (*firestorepb.CommitResponse, error) {
	return db.commitIf(ctx, p, func(ctx context.Context) (*firestorepb.CommitRequest, error) {
		writes, err := plan(ctx)
		return &firestorepb.CommitRequest{Database: db.Layout.Database, Writes: writes}, err
	})
}

// commitIf is the one loop that all commits on a condition go through.
func (db *DB) commitIf(ctx context.Context, p Patience, plan func(context.Context) (*firestorepb.CommitRequest, error)) (*firestorepb.CommitResponse, error) {
	pause := Pauses()
	s := attempts{Patience: p}
	var req *firestorepb.CommitRequest
	var paid []*firestorepb.Write // of the last commit in doubt
	for planned := false; ; {
		var err error
		if !planned {
			if req, err = plan(ctx); err == nil && s.smaller {
				req.Writes = p.Smaller(req.Writes)
			}
		}
		sent := err == nil
		if sent {
			if len(req.Writes) == 0 && !p.locks {
				return nil, nil
			}
			var resp *firestorepb.CommitResponse
			if resp, err = db.commit(ctx, req, excludes(paid, req.Writes)); err == nil {
				return resp, nil
			}
			if KindOf(err) == Doubtful {
				paid = req.Writes
			}
		}
		db.rollback(ctx, req)
		planned = sent && KindOf(err) == Contention && !p.locks
		switch next, last := s.failed(err, sent, len(req.Writes) > 0); {
		case next == end:
			return nil, last
		case next == again, next == afterAPause && gax.Sleep(ctx, pause.Pause()) == nil:
			continue
		case s.doubt == nil:
			return nil, s.gaveUp(err)
		}
		return nil, db.lookLast(ctx, plan, s.doubt)
	}
}

// lookLast plans once more, because there is no time for another commit. If there is nothing to write any more, the
// commit in doubt was applied. Otherwise nobody knows.
func (db *DB) lookLast(ctx context.Context, plan func(context.Context) (*firestorepb.CommitRequest, error), doubt error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	req, err := plan(ctx)
	db.rollback(ctx, req)
	if err == nil && len(req.Writes) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDoubt, doubt)
}

// excludes reports whether at most one of two commits can be applied: both change a document on condition that it is of
// a version, or make one that isn't there.
func excludes(a, b []*firestorepb.Write) bool {
	return slices.ContainsFunc(a, func(w *firestorepb.Write) bool {
		condition, makes := w.GetCurrentDocument(), w.GetUpdate() != nil
		final := condition.GetUpdateTime() != nil || makes && condition != nil && !condition.GetExists() // once it is met
		return final && slices.ContainsFunc(b, func(v *firestorepb.Write) bool {
			return proto.Equal(v.GetCurrentDocument(), condition) && v.GetUpdate().GetName() == w.GetUpdate().GetName() && v.GetDelete() == w.GetDelete()
		})
	})
}

// attempts is what is known of a commit after some attempts. It says what follows from one more, and
// does nothing itself.
type attempts struct {
	Patience
	conflicts, doubts int   // attempts that ended so
	doubt             error // of a commit that may have been applied, or may yet be
	smaller           bool  // less is sent from now on
}

// verdict is what follows from an attempt.
type verdict int

const (
	again       verdict = iota // at once
	afterAPause                // if there is time
	giveUp                     // no patience is left
	end                        // with an error
)

// failed says what follows from an attempt that failed: with the error of a commit that was sent, with or without
// writes, or the plan's. The rule: an error of the plan's own ends the attempts, and so does an error of Firestore's
// that a repetition can't change. While a commit is in doubt, Firestore's errors end nothing, and what ends the attempts
// ends them as a doubt.
func (s *attempts) failed(err error, sent, hasWrites bool) (verdict, error) {
	if sent {
		return s.commitFailed(err, hasWrites)
	}
	return s.planFailed(err)
}

// planFailed says what follows from a plan's error: nothing was sent in this attempt.
func (s *attempts) planFailed(err error) (verdict, error) {
	// A plan of a transaction settles the doubt by its reads: no earlier commit can arrive after them. A database that
	// is closed reads nothing.
	settled := s.doubt == nil || s.locks && !errors.Is(err, ErrClosed)
	switch {
	case !FromFirestore(err) && !settled:
		return end, fmt.Errorf("%w: %w", ErrDoubt, err)
	case !FromFirestore(err):
		return end, err
	case s.doubt == nil && !s.locks: // reads without locks have been repeated already
		return end, err
	}
	if last := s.final(err); last != nil {
		return end, last
	}
	return s.retry(KindOf(err)), nil
}

// commitFailed says what follows from the error of a commit that was sent.
func (s *attempts) commitFailed(err error, hasWrites bool) (verdict, error) {
	if IsTooLarge(err) && s.Smaller != nil && !s.smaller {
		s.smaller = true
		return again, nil
	}
	if last := s.final(err); last != nil {
		return end, last
	}
	if hasWrites && KindOf(err) == Doubtful {
		s.doubt = err
	}
	return s.retry(KindOf(err)), nil
}

// final is the error that ends the attempts, because a repetition can't change Firestore's error, or because the caller
// tries again later. It is nil if the attempts go on: a doubt must be settled first, whatever the error says.
func (s *attempts) final(err error) error {
	kind := KindOf(err)
	switch {
	case s.doubt != nil:
		return nil
	case NothingListens(err), kind == Permanent, kind == Conflict && s.locks:
		return err
	case kind == Contention && s.Yield:
		return fmt.Errorf("%w: %w", ErrContention, err)
	}
	return nil
}

// retry counts an attempt that ended with an error of this kind. It says whether the patience allows another one, and
// when.
func (s *attempts) retry(kind Kind) verdict {
	if kind == Contention || kind == Conflict {
		s.conflicts++
	} else {
		s.doubts++
	}
	switch {
	case kind == Conflict && s.conflicts == 1 && s.doubt == nil:
		return again // another commit came first, and is done
	case s.conflicts < s.Conflicts && s.doubts < s.Doubts:
		return afterAPause
	}
	return giveUp
}

// gaveUp is the error after the last attempt, if nothing is in doubt.
func (s *attempts) gaveUp(err error) error {
	if KindOf(err) == Doubtful { // of a read
		return err
	}
	return fmt.Errorf("%w: gave up at attempt %d: %w", ErrContention, s.conflicts+s.doubts, err)
}

// FromFirestore reports whether an error is from Firestore, or from the way there, and not a plan's own.
func FromFirestore(err error) bool {
	_, ok := status.FromError(err)
	return ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// MayPass reports whether a read that failed may succeed later. A read has no preconditions: a [Conflict] says that the
// database isn't there, or is of another mode.
func MayPass(err error) bool {
	kind := KindOf(err)
	return FromFirestore(err) && (kind == Doubtful || kind == Contention)
}

// Int is n as a Firestore value.
func Int(n int64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: n}}
}

// Double is f as a Firestore value.
func Double(f float64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: f}}
}

// Float is a number as a double; false if it isn't a number. Beyond ±2⁵³ it is the nearest double.
func Float(v *firestorepb.Value) (float64, bool) {
	switch n := v.GetValueType().(type) {
	case *firestorepb.Value_IntegerValue:
		return float64(n.IntegerValue), true
	case *firestorepb.Value_DoubleValue:
		return n.DoubleValue, true
	}
	return 0, false
}

// Number is a number as a pointer to a double, for JSON. It is nil for what JSON lacks, NaN and the
// infinities, and for what isn't a number.
func Number(v *firestorepb.Value) *float64 {
	if f, ok := Float(v); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return &f
	}
	return nil
}

// ErrNotInteger says that a value is not a whole number, or is a double from ±2⁵³ on.
var ErrNotInteger = errors.New("not an integer")

// IsInteger reports whether a value has the type integer: a double such as 5.0 hasn't.
func IsInteger(v *firestorepb.Value) bool {
	_, is := v.GetValueType().(*firestorepb.Value_IntegerValue)
	return is
}

// Integer is the integer that a value stands for; 0 if there is no value. A whole double within ±2⁵³
// counts, because one client's increment(1.0) makes a field a double for good. From 2⁵³ on a double
// may stand for two integers. For those, and for anything else, Integer reports false.
func Integer(v *firestorepb.Value) (int64, bool) {
	switch n := v.GetValueType().(type) {
	case nil:
		return 0, v == nil
	case *firestorepb.Value_IntegerValue:
		return n.IntegerValue, true
	case *firestorepb.Value_DoubleValue:
		if f := n.DoubleValue; f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), true
		}
	}
	return 0, false
}

// String is s as a Firestore value.
func String(s string) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: s}}
}

// Bool is b as a Firestore value.
func Bool(b bool) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: b}}
}

// Time is t as a Firestore value. Firestore keeps microseconds.
func Time(t time.Time) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_TimestampValue{TimestampValue: timestamppb.New(t.Truncate(time.Microsecond))}}
}

// Map is fields as a Firestore value.
func Map(fields map[string]*firestorepb.Value) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: fields}}}
}

// Array is values as a Firestore value.
func Array(values ...*firestorepb.Value) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: &firestorepb.ArrayValue{Values: values}}}
}

// Increment is the transform that adds n to an integer field. Transforms take a field's path, as
// of [FieldPath].
func Increment(path string, n int64) *firestorepb.DocumentTransform_FieldTransform {
	return &firestorepb.DocumentTransform_FieldTransform{
		FieldPath:     path,
		TransformType: &firestorepb.DocumentTransform_FieldTransform_Increment{Increment: Int(n)},
	}
}

// ServerTime is the transform that sets a field to the time of the commit.
func ServerTime(path string) *firestorepb.DocumentTransform_FieldTransform {
	return &firestorepb.DocumentTransform_FieldTransform{
		FieldPath: path,
		TransformType: &firestorepb.DocumentTransform_FieldTransform_SetToServerValue{
			SetToServerValue: firestorepb.DocumentTransform_FieldTransform_REQUEST_TIME,
		},
	}
}

// Exists is the precondition that a document is there, or isn't.
func Exists(yes bool) *firestorepb.Precondition {
	return &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_Exists{Exists: yes}}
}

// IfVersion is the precondition that a document is still the version of that update time.
func IfVersion(t time.Time) *firestorepb.Precondition {
	return &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_UpdateTime{UpdateTime: timestamppb.New(t)}}
}

// Create is the write that makes a document which must not exist.
func Create(name string, fields map[string]*firestorepb.Value, transforms ...*firestorepb.DocumentTransform_FieldTransform) *firestorepb.Write {
	return &firestorepb.Write{
		Operation:        &firestorepb.Write_Update{Update: &firestorepb.Document{Name: name, Fields: fields}},
		UpdateTransforms: transforms,
		CurrentDocument:  Exists(false),
	}
}

// CreateOver is [Create] where the version is zero. Otherwise it makes the document in the place of the one that is
// there, on condition that it is still the version of that update time.
func CreateOver(name string, version time.Time, fields map[string]*firestorepb.Value, transforms ...*firestorepb.DocumentTransform_FieldTransform) *firestorepb.Write {
	w := Create(name, fields, transforms...)
	if !version.IsZero() {
		w.CurrentDocument = IfVersion(version)
	}
	return w
}

// Update is the write that sets fields, deletes the fields at the paths in removed (see [FieldPath]),
// and applies transforms. It sets each entry of a map by itself, and leaves everything else in the
// document as it is.
func Update(name string, condition *firestorepb.Precondition, fields map[string]*firestorepb.Value, removed []string, transforms ...*firestorepb.DocumentTransform_FieldTransform) *firestorepb.Write {
	mask := slices.Clone(removed)
	for field, value := range fields {
		entries := value.GetMapValue()
		if entries == nil {
			mask = append(mask, layout.FieldPath(field))
		}
		for entry := range entries.GetFields() {
			mask = append(mask, layout.FieldPath(field, entry))
		}
	}
	return &firestorepb.Write{
		Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{Name: name, Fields: fields}},
		// Present even if empty: without a mask, the write would replace the whole document.
		UpdateMask:       &firestorepb.DocumentMask{FieldPaths: mask},
		UpdateTransforms: transforms,
		CurrentDocument:  condition,
	}
}

// Delete is the write that deletes a document.
func Delete(name string) *firestorepb.Write {
	return &firestorepb.Write{Operation: &firestorepb.Write_Delete{Delete: name}}
}

// DeleteIf is the write that deletes a document if it meets a condition, and fails otherwise. With the
// condition that the document doesn't exist, it changes nothing, and only checks that.
func DeleteIf(name string, condition *firestorepb.Precondition) *firestorepb.Write {
	w := Delete(name)
	w.CurrentDocument = condition
	return w
}

// Add is the sum of all terms. A sum beyond the int64s is the largest or smallest int64, as with
// Firestore's own increments. The order of the terms doesn't matter.
func Add(terms ...int64) int64 {
	var w wide
	for _, n := range terms {
		w.add(n)
	}
	return w.clamp()
}

// Sub is a minus b, with the limits of [Add].
func Sub(a, b int64) int64 {
	var w wide
	w.add(a)
	w.sub(b)
	return w.clamp()
}

// Parts are int64s that add up to the sum of all terms: one, or as few as a sum beyond the int64s
// takes. They are never more than the terms.
func Parts(terms ...int64) (parts []int64) {
	var w wide
	for _, n := range terms {
		w.add(n)
	}
	for more := true; more; more = w.hi != 0 || w.lo != 0 {
		n := w.clamp()
		w.sub(n)
		w.hi, w.lo = w.hi+w.lo>>32, w.lo&math.MaxUint32
		parts = append(parts, n)
	}
	return parts
}

// wide is hi<<32 + lo, a sum of int64s. It doesn't overflow with fewer than 2³¹ terms, so their
// order doesn't matter.
type wide struct{ hi, lo int64 }

func (w *wide) add(n int64) { w.hi += n >> 32; w.lo += n & math.MaxUint32 }
func (w *wide) sub(n int64) { w.hi -= n >> 32; w.lo -= n & math.MaxUint32 }

func (w wide) clamp() int64 {
	hi, lo := w.hi+w.lo>>32, w.lo&math.MaxUint32
	switch {
	case hi > math.MaxInt32:
		return math.MaxInt64
	case hi < math.MinInt32:
		return math.MinInt64
	}
	return hi<<32 | lo
}
