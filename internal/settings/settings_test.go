package settings_test

import (
	"strings"
	"testing"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// What Firestore or the issuer of tokens would refuse with every request is refused at the start.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"COUNTERS=a/../b/c", "COUNTERS=../{x}", "COUNTERS=__likes__/{x}", "COUNTERS=counters", "COUNTERS=counter_requests/{x}", "SHARDS=a/b", "SHARDS=counter_rollup", "SHARDS=__x__", "SHARDS=total_members", "FIELDS=a.b", "FIELDS=__count__", "FIELDS=likes,likes", "FIELDS=num_shards", "DATABASE=a/b",
		"PROJECT_NUMBER=my-project", "PROJECT_NUMBER=0", "PROJECT_NUMBER=", "AUTH=google", "RATE_LIMIT=NaN", "ALLOWED_ORIGINS=example.com",
		"MAX_SHARDS=1001", "CACHE_TTL=0s", "CACHE_TTL=5", "NUM_SHARDS=many", "AUTO_CREATE=maybe", "AUTO_CREATE=-1", "AUTO_CREATE=1.5", "AUTO_CREATE=100001", "AUTO_CREATE=060", "AUTO_CREATE=1e2", "RATE_LIMIT=fast", "LOG_LEVEL=loud", "GOGC=0", "GOGC=-1", "GOGC=much", "GOMEMLIMIT=200MB", "GOMEMLIMIT=0.5GiB", "GOMEMLIMIT=half",
	} {
		_, err := settings.Parse([]string{"AUTH=appcheck", "PROJECT_NUMBER=1", bad})
		name, value, _ := strings.Cut(bad, "=")
		if err == nil || !strings.Contains(err.Error(), name+"=") || !strings.Contains(err.Error(), value) || !strings.Contains(err.Error(), ": want ") {
			t.Errorf("%s: %v; want an error that names the variable, its value and what is allowed", bad, err)
		}
	}
	for _, good := range []string{"GOGC=100", "GOGC=off", "GOGC=", "GOMEMLIMIT=200MiB", "GOMEMLIMIT=off", "GOMEMLIMIT=", "GOMEMLIMIT=1000000000"} {
		if _, err := settings.Parse([]string{good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	if s, err := settings.Parse([]string{"COUNTERS=_likes/{like}", "FIELDS=größe", "AUTH=appcheck", "PROJECT_NUMBER=123"}); err != nil {
		t.Errorf("%+v: %v", s, err)
	}
}

// A counter that an increment makes has as many shards as one that is made by hand.
func TestDefaultNumShards(t *testing.T) {
	t.Parallel()
	s, err := settings.Parse(nil)
	if err != nil || s.NumShards != layout.DefaultNumShards {
		t.Errorf("NUM_SHARDS is %d unless set, %v; want %d", s.NumShards, err, layout.DefaultNumShards)
	}
}

// Settings that every part of the deployment would take, and then do harm.
func TestHarmfulSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		environ []string
		want    string // in the error
	}{
		{[]string{"COUNTERS=counter_requests/{counter}"}, "COUNTERS=counter_requests/{counter}: want "}, // TTL would delete the counters
		{[]string{"COUNTERS=counter_rollup/{counter}"}, "COUNTERS=counter_rollup/{counter}: want "},
		{[]string{"COLLECTION=likes"}, "COLLECTION=likes: want COUNTERS=likes/{counter} instead"}, // of an earlier version
		{[]string{"COUNT_FIELD=Count"}, "COUNT_FIELD=Count: want FIELDS=total=Count instead"},
		{[]string{"FIELDS=likes," + strings.Repeat("x", 65)}, "at 7: a name has 65 bytes, and at most 64 are allowed"},
		{[]string{"FIELDS=\xff"}, "is not UTF-8"},
		{[]string{"FIREBASE_AUTH_EMULATOR_HOST=127.0.0.1:9099", "K_SERVICE=counters-increment"}, "FIREBASE_AUTH_EMULATOR_HOST=127.0.0.1:9099: want it left out on Cloud Run"},
		{[]string{"HOSTED=true", "AUTO_CREATE=true"}, "AUTO_CREATE=true: want false with HOSTED=true"},
		{[]string{"HOSTED=true", "AUTO_CREATE=60"}, "AUTO_CREATE=60: want false with HOSTED=true"},
		{[]string{"CLEANUP=all"}, "CLEANUP=all: want off, zero or idle"},
		{[]string{"CLEANUP=idle", "HOSTED=true"}, "CLEANUP=idle: want off with HOSTED=true"},
		{[]string{"CLEANUP=idle", "FIELDS=likes,comments=count(comments)"}, "CLEANUP=idle: want off where documents are counted (comments=count(comments))"},
		{[]string{"CLEANUP=zero"}, "CLEANUP=zero: want AUTO_CREATE=true with it"}, // or the next increment is answered 404
		{[]string{"NUM_SHARDS=20", "MAX_SHARDS=19"}, "NUM_SHARDS=20: want at most MAX_SHARDS=19"},
		{[]string{"REQUEST_TIMEOUT=1s", "ROLLUP_INTERVAL=2s"}, "REQUEST_TIMEOUT=1s: want at least ROLLUP_INTERVAL=2s"}, // no event would ever be acknowledged
		{[]string{"REQUEST_TIMEOUT=60s", "REQUEST_TTL=1m"}, "REQUEST_TTL=1m0s: want more than REQUEST_TIMEOUT=1m0s"},
		{[]string{"COMMIT_INTERVAL=1001ms"}, "COMMIT_INTERVAL=1.001s: want 0s to 1s"},
		{[]string{"COMMIT_INTERVAL=-1ms"}, "COMMIT_INTERVAL=-1ms: want 0s to 1s"},
		{[]string{"REQUEST_TIMEOUT=2s", "COMMIT_INTERVAL=501ms"}, "COMMIT_INTERVAL=501ms: want at most a quarter of REQUEST_TIMEOUT=2s"}, // little would be left for the commit
		{[]string{"MEMBERS=own"}, "MEMBERS=own: want AUTH=firebase"},                                                                     // nobody could join
		{[]string{"MEMBERS=own", "AUTH=appcheck", "PROJECT_NUMBER=1"}, "MEMBERS=own: want AUTH=firebase"},
		{[]string{"MEMBERS=any", "AUTH=firebase"}, "MEMBERS=any: want AUTH=none"}, // one user would take off another's like
		{[]string{"MEMBERS=any", "AUTH=appcheck", "PROJECT_NUMBER=1"}, "MEMBERS=any: want AUTH=none"},
		{[]string{"RESET=own", "COUNTERS=users/{uid}"}, "RESET=own: want AUTH=firebase"},
		{[]string{"RESET=own", "AUTH=firebase"}, "RESET=own: want a path that names the user with it, such as COUNTERS=users/{uid}, and not counters/{counter}"},
		{[]string{"RESET=any", "AUTH=firebase"}, "RESET=any: want AUTH=none"},
		{[]string{"RESET=me"}, "RESET=me: want off, own or any"},
		{[]string{"LIMIT=own"}, "LIMIT=own: want AUTH=firebase"},
		{[]string{"LIMIT=any", "AUTH=appcheck", "PROJECT_NUMBER=1"}, "LIMIT=any: want AUTH=none with it, and Cloud Run's IAM: users of an app would limit each other's"},
		{[]string{"FIELDS=a,n=count(/c)"}, "FIELDS=a,n=count(/c): want a condition by which a document names its counter, such as where counter=={counter},"},
		{[]string{"MEMBERS=everyone"}, "MEMBERS=everyone: want own, any or off"},
		{[]string{"AUTH="}, "AUTH=: want none, firebase or appcheck"}, // a variable that turned out to be empty would open it to all
	} {
		if _, err := settings.Parse(tt.environ); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60q: %v; want %q", tt.environ, err, tt.want)
		}
	}
	for _, environ := range [][]string{
		nil,
		{"FIELDS=" + strings.Repeat("x", 64)},
		{"NUM_SHARDS=20", "MAX_SHARDS=20"},
		{"FIELDS=a,b,c,d,e,f,g=count(g)", "NUM_SHARDS=1000", "MAX_SHARDS=1000"},
		{"NUM_SHARDS=20", "MAX_SHARDS=0"},
		{"REQUEST_TIMEOUT=2s", "ROLLUP_INTERVAL=2s"},
		{"REQUEST_TIMEOUT=59s", "REQUEST_TTL=1m"},
		{"REQUEST_TIMEOUT=4s", "COMMIT_INTERVAL=1s"},
		{"COMMIT_INTERVAL=0"},
		{"CLEANUP=idle"},
		{"CLEANUP=zero", "AUTO_CREATE=60"},
		{"AUTH=none"},
		{"AUTH=none", "RESET=any"},
		{"AUTH=firebase", "RESET=own", "COUNTERS=teams/{team}/users/{uid}"},
		{"COUNTERS=stats/site", "FIELDS=total=count,users=count(/users)"},
		{"AUTH=none", "MEMBERS=any"},
		{"AUTH=firebase", "MEMBERS=own"},
		{"AUTH=firebase", "MEMBERS=off"},
	} {
		if _, err := settings.Parse(environ); err != nil {
			t.Errorf("%.60q: %v", environ, err)
		}
	}
}

// How many counters increments may make: people have a bound unless a number says which, and those
// that IAM lets in have none.
func TestAutoCreate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		auth, value string
		makes       bool
		perMinute   int
		anybody     bool
	}{
		{"none", "", false, 0, false},
		{"none", "false", false, 0, false},
		{"none", "0", false, 0, false},
		{"none", "true", true, 0, true},
		{"none", "True", true, 0, true},
		{"none", "1", true, 1, false},
		{"none", "25", true, 25, false},
		{"firebase", "true", true, 60, false},
		{"firebase", "500", true, 500, false},
		{"appcheck", "true", true, 60, false},
		{"appcheck", "100000", true, 100000, false},
	} {
		s, err := settings.Parse([]string{"AUTH=" + tt.auth, "PROJECT_NUMBER=1", "AUTO_CREATE=" + tt.value})
		if err != nil {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		if s.AutoCreate.On != tt.makes || tt.makes && s.NewCounters() != tt.perMinute || s.MakesForAnybody() != tt.anybody {
			t.Errorf("%+v: %+v, %d a minute, without bound for anybody: %v", tt, s.AutoCreate, s.NewCounters(), s.MakesForAnybody())
		}
		again, err := settings.Parse([]string{"AUTH=" + tt.auth, "PROJECT_NUMBER=1", "AUTO_CREATE=" + s.AutoCreate.String()})
		if err != nil || again.AutoCreate != s.AutoCreate {
			t.Errorf("%+v is written as %s: %+v, %v", tt, s.AutoCreate, again.AutoCreate, err)
		}
	}
}

// Whom a caller may name as a member: themselves, where tokens say who that is.
func TestMembersByDefault(t *testing.T) {
	t.Parallel()
	for auth, want := range map[string]string{"none": "off", "firebase": "own", "appcheck": "off"} {
		if s, err := settings.Parse([]string{"AUTH=" + auth, "PROJECT_NUMBER=1"}); err != nil || s.Members != want {
			t.Errorf("AUTH=%s: MEMBERS is %q, %v; want %q", auth, s.Members, err, want)
		}
	}
}
