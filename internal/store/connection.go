package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	apiv1 "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
)

// DB is the database that holds a deployment's counters. It is safe for concurrent use.
type DB struct {
	Layout layout.Layout   // names its documents
	Budget *ceiling.Budget // of which writes and reads are spent; nil bounds nothing
	reader

	api   *connection
	clock clock

	newWatcher func() (*firestore.Client, error)
	mu         sync.Mutex
	// only for [DB.Watch], because its listeners reconnect by themselves; nil until it is needed
	watcher *firestore.Client
	closed  bool
}

// reader reads, within a transaction if it has one.
type reader struct {
	db          *DB
	transaction []byte
	slim        func(*firestorepb.Document) // takes away what nobody needs of a document, as it comes; may be nil
	promised    float64                     // reads of named documents that the budget keeps for the caller: they aren't spent again
}

// Slim is a reader of documents of which many may be large: slim takes away of each, as it comes, what nobody needs.
func (db *DB) Slim(slim func(*firestorepb.Document)) reader { return reader{db: db, slim: slim} }

// Promised is a reader of named documents for which the caller was promised so many reads, and gives up that promise.
func (db *DB) Promised(reads float64) reader { return reader{db: db, promised: reads} }

// came has a document have only what is needed of it.
func (r reader) came(doc *firestorepb.Document) *firestorepb.Document {
	if r.slim != nil {
		r.slim(doc)
	}
	return doc
}

// Open connects to a database, with the official client's options. If FIRESTORE_EMULATOR_HOST is set,
// everything goes there, unless opts have a connection of their own. Open sends nothing yet.
func Open(ctx context.Context, place layout.Place, opts ...option.ClientOption) (*DB, error) {
	names, err := place.Layout()
	if err != nil {
		return nil, err
	}
	emulator := os.Getenv("FIRESTORE_EMULATOR_HOST")
	db := &DB{Layout: names}
	db.reader.db = db
	project, database := cmp.Or(place.Project, os.Getenv("GOOGLE_CLOUD_PROJECT")), cmp.Or(place.Database, firestore.DefaultDatabaseID)
	if project == "" && emulator != "" {
		project = layout.DefaultProject // otherwise the library takes one of its own
	}
	db.newWatcher = func() (*firestore.Client, error) {
		options, err := clientOptions(emulator, opts)
		if err != nil {
			return nil, err
		}
		return firestore.NewClientWithDatabase(context.WithoutCancel(ctx), cmp.Or(project, firestore.DetectProjectID), database, options...)
	}
	if project == "" {
		watcher, err := db.watching()
		if err != nil {
			return nil, fmt.Errorf("open Firestore: %w", err)
		}
		// The only public way to the project that was found.
		project = strings.Split(watcher.Doc("a/b").Path, "/")[1]
	}
	db.Layout.Database = "projects/" + project + "/databases/" + database
	db.api, err = newConnection(emulator != "", func() (*apiv1.Client, error) {
		options, err := clientOptions(emulator, opts)
		if err != nil {
			return nil, err
		}
		api, err := apiv1.NewClient(context.WithoutCancel(ctx), options...)
		if err == nil {
			*api.CallOptions = apiv1.CallOptions{} // otherwise it sends again what fails
		}
		return api, err
	})
	if err != nil {
		return nil, fmt.Errorf("open Firestore: %w", err)
	}
	return db, nil
}

// watching is the high-level client. It has its own connections, so it is made only when it is
// needed.
func (db *DB) watching() (*firestore.Client, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, ErrClosed
	}
	if db.watcher != nil {
		return db.watcher, nil
	}
	var err error
	db.watcher, err = db.newWatcher()
	return db.watcher, err
}

// Close closes the connections. Later calls return [ErrClosed].
func (db *DB) Close() error {
	err := db.api.close()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.closed = true
	if db.watcher != nil {
		// If both clients share a given connection, the second close finds it closed already.
		_ = db.watcher.Close()
	}
	return err
}

// Project is the id of the database's project.
func (db *DB) Project() string { return strings.Split(db.Layout.Database, "/")[1] }

func (db *DB) outgoing(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "google-cloud-resource-prefix", db.Layout.Database)
}

// Now is a lower bound of Firestore's clock, by its answers to reads and commits. Before the first
// answer, it is this machine's time.
func (db *DB) Now() time.Time { return cmp.Or(db.clock.now(), time.Now()) }

// Later is the later of two clocks. This machine's may be slow. What is known of Firestore's is as old as its last
// answer, if this machine was suspended since.
func (db *DB) Later() time.Time {
	return slices.MaxFunc([]time.Time{db.Now(), time.Now()}, time.Time.Compare)
}

// Unreachable is why the last call found no connection; nil where it found one.
func (db *DB) Unreachable() *Unreachable {
	db.api.mu.Lock()
	defer db.api.mu.Unlock()
	return db.api.unreachable
}

// clock is a lower bound of Firestore's clock: the newest time in an answer of Firestore, plus the time
// that has passed here since that answer.
type clock struct {
	mu     sync.Mutex
	newest time.Time
	at     time.Time // when that answer came, by the clock of this process
}

// saw takes the time in an answer that has just come.
func (c *clock) saw(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.newest.IsZero() || t.After(c.newest.Add(now.Sub(c.at))) {
		c.newest, c.at = t, now
	}
}

// now is the lower bound; zero before the first answer.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest.IsZero() {
		return time.Time{}
	}
	return c.newest.Add(time.Since(c.at))
}

const (
	// callTimeout bounds a call whose context has no deadline. So a caller gets an answer whatever is
	// at the other end, even if that isn't Firestore.
	callTimeout = 30 * time.Second
	// readTimeout is how long the first attempt of a read may take, and at most half of the time left.
	// The second goes over a new connection.
	readTimeout = 10 * time.Second
	// silence is how long a call must wait in vain before its connection is taken for silent.
	silence = 500 * time.Millisecond
)

// connection leads to Firestore. When a call over it gets no answer, a new one replaces it. gRPC itself
// notices a silent connection only after 35 s, and if something in between acknowledges packets, only
// by its pings.
type connection struct {
	dial func() (*apiv1.Client, error)

	mu      sync.Mutex
	now     *conn
	open    map[*conn]bool // now, and older ones with calls under way
	dialing bool
	given   bool // whoever opened the database gave the connection, so it is never replaced
	closed  bool

	unreachable *Unreachable // of the last call; nil if that found a connection
	emulator    bool
	refused     time.Time // when the emulator first refused a connection; zero while it accepts them
}

// conn is one connection.
type conn struct {
	api   *apiv1.Client
	calls int // under way
}

func newConnection(emulator bool, dial func() (*apiv1.Client, error)) (*connection, error) {
	api, err := dial()
	if err != nil {
		return nil, err
	}
	first := &conn{api: api}
	return &connection{dial: dial, emulator: emulator, now: first, open: map[*conn]bool{first: true}}, nil
}

// withDeadline gives a context without a deadline that of [callTimeout].
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callTimeout)
}

// call does something over the connection, once. It ends with ctx, or after [callTimeout].
func (c *connection) call(ctx context.Context, do func(context.Context, *apiv1.Client) error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	used := c.now
	used.calls++
	c.mu.Unlock()
	began := time.Now()
	err := c.explained(ctx, do(ctx, used.api))
	if IsDeadline(err) && time.Since(began) >= silence {
		c.redial(used)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	used.calls--
	if c.unreachable, _ = errors.AsType[*Unreachable](err); c.unreachable == nil && ctx.Err() == nil {
		c.refused = time.Time{}
	}
	if used != c.now && used.calls == 0 && c.open[used] {
		delete(c.open, used)
		_ = used.api.Close()
	}
	return err
}

// noteRefused remembers that a connection was refused, and reports whether an emulator has refused all for
// [starting].
func (c *connection) noteRefused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused.IsZero() {
		c.refused = time.Now()
	}
	return c.emulator && time.Since(c.refused) >= starting
}

// twice makes a call that may be made twice. If the first attempt gets no answer in time, it makes a second one over
// another connection.
func (c *connection) twice(ctx context.Context, do func(context.Context, *apiv1.Client) error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	end, _ := ctx.Deadline()
	first, cancel := context.WithTimeout(ctx, min(readTimeout, time.Until(end)/2))
	defer cancel()
	err := c.call(first, do)
	if IsDeadline(err) && ctx.Err() == nil {
		err = c.call(ctx, do)
	}
	return err
}

// read repeats twice until there is an answer, or an error that a repetition can't change.
func (c *connection) read(ctx context.Context, do func(context.Context, *apiv1.Client) error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var last error // of the last attempt that got an answer
	for pause := Pauses(); ; {
		err := c.twice(ctx, do)
		if code := status.Code(err); err == nil || NothingListens(err) || !IsDeadline(err) && code != codes.Unavailable && code != codes.Internal {
			return err
		}
		if !IsDeadline(err) {
			last = err
		}
		if gax.Sleep(ctx, pause.Pause()) == nil {
			continue
		}
		ended := ctx.Err()
		if last == nil || !errors.Is(ended, context.DeadlineExceeded) {
			return ended
		}
		if u, ok := errors.AsType[*Unreachable](last); ok {
			return &Unreachable{u.cause, ended, false}
		}
		return fmt.Errorf("%w: %v", ended, last) // not an error of Firestore's: the time is over
	}
}

// billed counts those attempts of a read that may be billed: the first, and each after one that had no answer in time.
func billed(times *float64, do func(context.Context, *apiv1.Client) error) func(context.Context, *apiv1.Client) error {
	unanswered := true
	return func(ctx context.Context, api *apiv1.Client) error {
		if unanswered {
			*times++
		}
		err := do(ctx, api)
		unanswered = IsDeadline(err)
		return err
	}
}

// redial replaces a silent connection. The last call over the old one closes it.
func (c *connection) redial(silent *conn) {
	c.mu.Lock()
	if silent != c.now || c.given || c.dialing || !c.open[silent] {
		c.mu.Unlock()
		return
	}
	c.dialing = true
	c.mu.Unlock()
	api, err := c.dial() // without the lock: it may look for credentials
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialing = false
	switch {
	case err != nil: // keep the old one
	//lint:ignore SA1019 there is no other way to see that the connection was given, and that a new client has the same
	case api.Connection() == silent.api.Connection():
		c.given = true
	case !c.open[silent]: // closed meanwhile
		_ = api.Close()
	default:
		c.now = &conn{api: api}
		c.open[c.now] = true
	}
}

// close closes the connection. Calls under way fail, and later ones with [ErrClosed].
func (c *connection) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for line := range c.open {
		errs = append(errs, line.api.Close())
	}
	clear(c.open)
	return errors.Join(errs...)
}

// IsDeadline reports whether there was no answer in time.
func IsDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// explained replaces an error by the reason why there was no connection, or by that of the context if it has ended:
// callers look for these.
func (c *connection) explained(ctx context.Context, err error) error {
	if cause := dialing(err); cause != "" {
		return &Unreachable{cause, err, strings.HasPrefix(cause, refusal) && c.noteRefused()}
	}
	if ended := ctx.Err(); ended != nil && (IsDeadline(err) || status.Code(err) == codes.Canceled || errors.Is(err, context.Canceled)) {
		return ended
	}
	return err
}

var (
	// ErrClosed says that the database was closed before the call, and nothing was sent.
	ErrClosed = errors.New("client is closed")
	// ErrUnreachable says that there was no connection to Firestore.
	ErrUnreachable = errors.New("no connection to Firestore")
)

// Unreachable is an [ErrUnreachable] that says why there was no connection.
type Unreachable struct {
	cause   string
	err     error // of Firestore's client, or of the context if there was no time for another attempt
	refused bool  // see [NothingListens]
}

func (e *Unreachable) Error() string        { return e.cause }
func (e *Unreachable) Unwrap() error        { return e.err }
func (e *Unreachable) Is(target error) bool { return target == ErrUnreachable }

// NothingListens reports whether err says that nothing listens at an emulator's port, and that this has been
// so for [starting]. Nothing was sent, and no attempt succeeds until somebody starts the emulator.
// Production never refuses a connection. If something in between does, that may pass at once.
func NothingListens(err error) bool {
	u, ok := errors.AsType[*Unreachable](err)
	return ok && u.refused
}

// starting is how long an emulator may take from its first refusal until it listens.
const starting = 2 * time.Second

const refusal = "connection refused by "

// dialed finds in gRPC's message which address it dialed, and what went wrong.
var dialed = regexp.MustCompile(`dial \w+:? (?:lookup )?(\S+?)(?: on \S+)?: (?:connect: )?([^"]+)`)

// dialing says what kept gRPC from connecting, such as "connection refused by 127.0.0.1:8080".
func dialing(err error) string {
	if status.Code(err) != codes.Unavailable {
		return ""
	}
	found := dialed.FindStringSubmatch(status.Convert(err).Message())
	switch {
	case found == nil:
		return ""
	case found[2] == "connection refused":
		return refusal + found[1]
	}
	return fmt.Sprintf("no connection to Firestore at %s: %s", found[1], found[2])
}

// Pauses are how long to wait between attempts: at random, up to 10 ms at first, and up to twice as
// long each time, to a second at most.
func Pauses() *gax.Backoff {
	return &gax.Backoff{Initial: 10 * time.Millisecond, Multiplier: 2, Max: time.Second}
}

// clientOptions are the given options of a client, and defaults for what they leave open.
func clientOptions(emulator string, given []option.ClientOption) ([]option.ClientOption, error) {
	dial := dialOptions()
	if emulator == "" {
		var own []option.ClientOption
		for _, o := range dial {
			own = append(own, option.WithGRPCDialOption(o))
		}
		return slices.Concat(own, given), nil
	}
	conn, err := dialEmulator(emulator, dial)
	if err != nil {
		return nil, fmt.Errorf("connect to FIRESTORE_EMULATOR_HOST=%s: %w", emulator, err)
	}
	// Ours comes first, so that a given connection wins for both clients. By itself, the high-level
	// client would go to the emulator, and the generated one to production.
	return slices.Concat([]option.ClientOption{option.WithGRPCConn(conn)}, given), nil
}

// dialOptions let every connection notice soon that it went silent, and reconnect soon after Firestore
// is back.
func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		// Without keepalive, every call over a silent connection waits until its deadline, until TCP
		// gives up after about 15 minutes. Google's front ends allow a ping each 30 s. gRPC also gives
		// the timeout to the kernel (TCP_USER_TIMEOUT): if sent data isn't acknowledged within 5 s, the
		// connection ends.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 5 * time.Second}),
		// By default the pauses between attempts to connect grow to 120 s.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
	}
}

func dialEmulator(addr string, opts []grpc.DialOption) (*grpc.ClientConn, error) {
	addr = strings.TrimPrefix(strings.TrimPrefix(addr, "http://"), "https://")
	return grpc.NewClient("passthrough:///"+addr, append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(owner{}))...)
}

// owner is the token by which an emulator knows an administrator.
type owner struct{}

func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (owner) RequireTransportSecurity() bool { return false }
