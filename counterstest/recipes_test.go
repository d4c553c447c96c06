package counterstest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/counterstest"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// What docs/recipes.md and docs/credits.md show: their code is this file's, line by line.

// topTen are the ten counters with the largest totals.
func topTen(ctx context.Context, db *firestore.Client) ([]*firestore.DocumentSnapshot, error) {
	return db.Collection("counters").OrderBy("total", firestore.Desc).Limit(10).Documents(ctx).GetAll()
}

// placeOf is the place of a counter in that order, from 1: equal totals share one.
func placeOf(ctx context.Context, db *firestore.Client, id string) (int64, error) {
	mine, err := db.Doc("counters/" + id).Get(ctx)
	if err != nil {
		return 0, err
	}
	ahead := db.Collection("counters").Where("total", ">", mine.Data()["total"])
	result, err := ahead.NewAggregationQuery().WithCount("n").Get(ctx)
	if err != nil {
		return 0, err
	}
	return result["n"].(*firestorepb.Value).GetIntegerValue() + 1, nil
}

// view counts a view of a page in the bucket of its day, and the visitor once a day.
func view(ctx context.Context, db *firestore.Client, days *shards.Client, page, visitor string, now time.Time) error {
	day := now.UTC().Format(time.DateOnly)
	bucket, err := days.Counter(page + "_" + day)
	if err != nil {
		return err
	}
	_, err = bucket.Join(ctx, "visitors", visitor)
	// the first view of the day: the bucket's document is the app's to make
	if errors.Is(err, shards.ErrNotFound) {
		_, err = db.Doc("days/"+bucket.ID()).Create(ctx, map[string]any{
			"page": page, "day": day, "expire_at": now.Add(31 * 24 * time.Hour),
		})
		if err == nil || status.Code(err) == codes.AlreadyExists {
			_, err = bucket.Join(ctx, "visitors", visitor)
		}
	}
	if err != nil {
		return err
	}
	_, err = bucket.AddFields(ctx, map[string]int64{"views": 1}, shards.Key{})
	return err
}

// lastWeek is how often a page was viewed in the last seven days, this one included.
func lastWeek(ctx context.Context, db *firestore.Client, page string, now time.Time) (int64, error) {
	since := now.UTC().AddDate(0, 0, -6).Format(time.DateOnly)
	days := db.Collection("days").Where("page", "==", page).Where("day", ">=", since)
	result, err := days.NewAggregationQuery().WithSum("views", "views").Get(ctx)
	if err != nil {
		return 0, err
	}
	return result["views"].(*firestorepb.Value).GetIntegerValue(), nil
}

// bestRated are posts by the average of their ratings, without those that nobody has rated.
func bestRated(ctx context.Context, db *firestore.Client) ([]*firestore.DocumentSnapshot, error) {
	return db.Collection("posts").Where("rating", ">", 0).OrderBy("rating", firestore.Desc).Limit(10).Documents(ctx).GetAll()
}

// answer streams the answer of a job, and takes what it used from a user's credits. Call it again for a job that
// failed, or whose process died: it is charged once.
func answer(ctx context.Context, accounts *shards.Client, user, job string, stream func() (used int64, err error)) error {
	account, err := accounts.Counter(user)
	if err != nil {
		return err
	}
	key := shards.Key{Value: job}
	hold, _, err := account.Reserve(ctx, "credits", 4000, 2*time.Minute, key)
	switch {
	case err != nil:
		return err // shards.ErrLimit: too few credits are left
	case hold.State == "settled":
		return nil // it was answered before
	case hold.State == "ended":
		return shards.ErrHoldEnded // its time is over: ask again as another job
	}
	used, failed := stream()
	_, err = account.Settle(context.WithoutCancel(ctx), "credits", used, key) // also if the stream broke off, or the user went away
	return errors.Join(failed, err)
}

// allow takes one of a user's calls, for a minute. Without one it reports false.
func allow(ctx context.Context, rates *shards.Client, user string) (bool, error) {
	rate, err := rates.Counter(user)
	if err != nil {
		return false, err
	}
	_, _, err = rate.Reserve(ctx, "calls", 1, time.Minute, shards.Key{})
	if errors.Is(err, shards.ErrLimit) {
		return false, nil
	}
	return err == nil, err
}

func TestRecipeRanks(t *testing.T) {
	t.Parallel()
	i := counterstest.Start(t)
	db := i.Client(t, i.Project)
	for n := range 12 {
		// in pairs
		if err := counter(t, i, fmt.Sprint("player-", n)).Add(t.Context(), int64(100+n/2)); err != nil {
			t.Fatal(err)
		}
	}
	i.RolledUp(t)
	top, err := topTen(t.Context(), db)
	if err != nil || len(top) != 10 || top[0].Data()["total"] != int64(105) || top[9].Data()["total"] != int64(101) {
		t.Errorf("the top ten are %d, %v", len(top), err)
	}
	for id, want := range map[string]int64{"player-11": 1, "player-10": 1, "player-9": 3, "player-0": 11} {
		if place, err := placeOf(t.Context(), db, id); err != nil || place != want {
			t.Errorf("%s is at %d, %v, want %d", id, place, err, want)
		}
	}
}

func TestRecipeDays(t *testing.T) {
	t.Parallel()
	cfg := shards.Config{Place: shards.Place{Counters: "days/{day}", Fields: "views,visitors", Hosted: true}}
	i := counterstest.StartWith(t, cfg)
	db := i.Client(t, i.Project)
	today := time.Now()
	for ago := range 10 { // more views each day back, by two visitors
		for n := range ago + 2 {
			if err := view(t.Context(), db, i.Counters, "home", fmt.Sprint("visitor-", n%2), today.AddDate(0, 0, -ago)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := view(t.Context(), db, i.Counters, "about", "visitor-0", today); err != nil {
		t.Fatal(err)
	}
	i.RolledUp(t)
	if views, err := lastWeek(t.Context(), db, "home", today); err != nil || views != 2+3+4+5+6+7+8 {
		t.Errorf("%d views in a week, %v", views, err)
	}
	bucket := db.Doc("days/home_" + today.UTC().Format(time.DateOnly))
	doc, err := bucket.Get(t.Context())
	if err != nil || doc.Data()["views"] != int64(2) || doc.Data()["visitors"] != int64(2) {
		t.Errorf("today holds %v, %v", doc.Data(), err)
	}
	// TTL deletes the document, and the cleanup what is below it.
	if _, err := bucket.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	client, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: i.Project, Counters: cfg.Counters, Fields: cfg.Fields, Hosted: true}}, option.WithGRPCConn(i.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 { // it is found missing, and removed
		if _, err := client.ReconcileAll(t.Context(), rollup.ReconcileOptions{Remove: i.Counters.Remove, CleanupAfter: time.Nanosecond}); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := bucket.Collections(t.Context()).GetAll(); err != nil || len(left) > 0 {
		t.Errorf("below the bucket are %v, %v", left, err)
	}
}

func TestRecipeRatings(t *testing.T) {
	t.Parallel()
	i := counterstest.StartWith(t, shards.Config{Place: shards.Place{Counters: "posts/{post}", Fields: "likes,rating=avg(ratings.stars),ratings=count(ratings)", Hosted: true}})
	db := i.Client(t, i.Project)
	for post, stars := range map[string][]int{"a": {5, 4}, "b": {5, 5, 4}, "c": {1}, "d": nil} {
		if _, err := db.Doc("posts/"+post).Set(t.Context(), map[string]any{"title": post}); err != nil {
			t.Fatal(err)
		}
		for n, stars := range stars {
			if _, err := db.Doc(fmt.Sprintf("posts/%s/ratings/%d", post, n)).Set(t.Context(), map[string]any{"stars": stars}); err != nil {
				t.Fatal(err)
			}
		}
	}
	i.RolledUp(t)
	best, err := bestRated(t.Context(), db)
	var order []string
	for _, doc := range best {
		order = append(order, fmt.Sprintf("%s %.2f", doc.Ref.ID, doc.Data()["rating"]))
	}
	if got := strings.Join(order, ", "); err != nil || got != "b 4.67, a 4.50, c 1.00" {
		t.Errorf("best are %s, %v", got, err)
	}
}

func TestRecipeWholes(t *testing.T) {
	t.Parallel()
	i := counterstest.StartWith(t, shards.Config{Place: shards.Place{Counters: "stats/site", Fields: "users=count(/users)"}})
	db := i.Client(t, i.Project)
	site, err := i.Counters.Counter("site")
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Create(t.Context(), shards.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := range 12 {
		if _, err := db.Doc(fmt.Sprint("users/", n)).Set(t.Context(), map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Doc("users/3").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.RolledUp(t)
	doc, err := db.Doc("stats/site").Get(t.Context())
	if err != nil || doc.Data()["users"] != int64(11) {
		t.Errorf("%v, %v, want 11 users", doc.Data(), err)
	}
}

// A job is charged once, for what it used: also when it is asked for again, its process has died, or its stream broke
// off.
func TestRecipeCredits(t *testing.T) {
	t.Parallel()
	i := counterstest.StartWith(t, shards.Config{Place: shards.Place{Fields: "credits=limit(9000)"}, AutoCreate: true})
	account := counter(t, i, "alice")
	broken, streams := errors.New("the stream broke off"), 0
	uses := func(used int64, err error) func() (int64, error) {
		return func() (int64, error) { streams++; return used, err }
	}
	for _, key := range []string{"job-2", "job-9"} { // whose processes die
		if _, _, err := account.Reserve(t.Context(), "credits", 4000, 2*time.Minute, shards.Key{Value: key}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := account.GiveBack(t.Context(), "credits", shards.Key{Value: "job-9"}); err != nil { // its time is over
		t.Fatal(err)
	}
	for n, c := range []struct {
		job     string
		stream  func() (int64, error)
		err     error
		total   int64
		streams int
	}{
		{"job-1", uses(3000, nil), nil, 4000 + 3000, 1},
		{"job-1", uses(3000, nil), nil, 4000 + 3000, 1}, // it was answered
		{"job-3", uses(10, nil), shards.ErrLimit, 4000 + 3000, 1},
		{"job-2", uses(1000, nil), nil, 1000 + 3000, 2}, // it goes on
		{"job-3", uses(500, broken), broken, 4500, 3},
		{"job-3", uses(500, nil), nil, 4500, 3},
		{"job-9", uses(1, nil), shards.ErrHoldEnded, 4500, 3},
		{"job-4", uses(4100, nil), nil, 8600, 4}, // more than was held, and there is room
	} {
		if err := answer(t.Context(), i.Counters, "alice", c.job, c.stream); !errors.Is(err, c.err) {
			t.Errorf("%d, %s: %v, want %v", n, c.job, err, c.err)
		}
		if s, err := account.Sum(t.Context()); err != nil || s.Total != c.total || streams != c.streams {
			t.Errorf("%d, %s: %d are taken after %d streams, %v; want %d and %d", n, c.job, s.Total, streams, err, c.total, c.streams)
		}
	}
}

func TestRecipeRate(t *testing.T) {
	t.Parallel()
	i := counterstest.StartWith(t, shards.Config{Place: shards.Place{Fields: "calls=limit(3)"}, AutoCreate: true})
	for n := range 5 {
		if ok, err := allow(t.Context(), i.Counters, "alice"); err != nil || ok != (n < 3) {
			t.Errorf("call %d: %v, %v", n, ok, err)
		}
	}
	if ok, err := allow(t.Context(), i.Counters, "bob"); err != nil || !ok {
		t.Errorf("another user: %v, %v", ok, err)
	}
}

// Whoever copies code from the page copies what these tests run.
func TestRecipesAreThisFiles(t *testing.T) {
	t.Parallel()
	var pages []byte
	for _, name := range []string{"recipes", "credits"} {
		page, err := os.ReadFile("../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page...)
	}
	code, err := os.ReadFile("recipes_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(pages, -1)
	for _, block := range blocks {
		if !strings.Contains(string(code), string(block[1])) {
			t.Errorf("no test runs\n%s", block[1])
		}
	}
	if len(blocks) != 7 {
		t.Errorf("%d pieces of code", len(blocks))
	}
}
