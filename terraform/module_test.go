// Package terraform holds nothing but tests: of the module's syntax, names and agreement with what
// it deploys.
package terraform

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/firestore-counters/counters/internal/settings"
)

func vars(pairs ...any) map[string]cty.Value {
	return object(append([]any{"project_id", cty.StringVal("a-project"), "location", cty.StringVal("us-central1")}, pairs...)...).AsValueMap()
}

func TestFormatting(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"*.tf", "examples/*/*.tf", "tests/*.tftest.hcl"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	if len(files) < 10 {
		t.Fatalf("found only %d files", len(files))
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, diags := hclsyntax.ParseConfig(src, path, hclPos()); diags.HasErrors() {
			t.Error(diags)
		}
		if !bytes.Equal(hclwrite.Format(src), src) {
			t.Errorf("%s is not as `terraform fmt` leaves it", path)
		}
	}
}

func TestVariablesAndOutputsAreDocumentedAndChecked(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "examples/basic"} {
		m := load(t, dir, vars("invokers", cty.SetValEmpty(cty.String)))
		for name, b := range m.variables {
			for _, attr := range []string{"type", "description", "nullable"} {
				if b.Body.Attributes[attr] == nil {
					t.Errorf("%s: variable %s has no %s", dir, name, attr)
				}
			}
			checked := m.ctx.Variables["var"].GetAttr(name).Type() == cty.Bool // its type says it all
			for _, inner := range b.Body.Blocks {
				if inner.Type == "validation" {
					checked = true
					if m.value(inner.Body.Attributes["condition"].Expr).False() {
						t.Errorf("%s: variable %s: its validation refuses %#v", dir, name, m.ctx.Variables["var"].GetAttr(name))
					}
					if msg := text(m.args(inner.Body, nil), "error_message"); !strings.HasPrefix(msg, name+" must ") {
						t.Errorf("%s: variable %s: its error message should begin with its name and what it must be: %q", dir, name, msg)
					}
				}
			}
			if !checked {
				t.Errorf("%s: variable %s has no validation", dir, name)
			}
		}
		for name, b := range m.outputs {
			if b.Body.Attributes["description"] == nil {
				t.Errorf("%s: output %s has no description", dir, name)
			}
		}
	}
}

// terraform's own tests, which check.sh runs, have a value for each variable that it refuses.
func TestEveryValidationIsTried(t *testing.T) {
	t.Parallel()
	tests, err := os.ReadFile("tests/plan.tftest.hcl")
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	for _, list := range regexp.MustCompile(`expect_failures = \[([^]]*)\]`).FindAllStringSubmatch(string(tests), -1) {
		refused = append(refused, strings.FieldsFunc(list[1], func(r rune) bool { return r == ',' || unicode.IsSpace(r) })...)
	}
	m := load(t, ".", vars())
	for name, b := range m.variables {
		validated := slices.ContainsFunc(b.Body.Blocks, func(inner *hclsyntax.Block) bool { return inner.Type == "validation" })
		if validated && !slices.Contains(refused, "var."+name) {
			t.Errorf("no run of tests/plan.tftest.hcl has a value of %s that is refused", name)
		}
	}
}

// setting is one field of settings.Settings.
type setting struct{ env, def, desc string }

func allSettings() []setting {
	var list []setting
	for f := range reflect.TypeFor[settings.Settings]().Fields() {
		if f.Tag.Get("env") != "" { // no deployment has the others
			list = append(list, setting{f.Tag.Get("env"), f.Tag.Get("envDefault"), f.Tag.Get("desc")})
		}
	}
	return list
}

// Two settings are not the user's to choose: they are the project's.
var given = map[string]string{"GOOGLE_CLOUD_PROJECT": "a-project", "PROJECT_NUMBER": "123456789"}

func TestEverySettingIsAVariable(t *testing.T) {
	t.Parallel()
	m := load(t, ".", vars())
	environment := m.local("environment").AsValueMap()
	if len(environment) != len(allSettings()) {
		t.Errorf("%d environment variables for %d settings", len(environment), len(allSettings()))
	}
	var environ []string
	for _, s := range allSettings() {
		got, ok := environment[s.env]
		if !ok {
			t.Errorf("%s is not in local.environment", s.env)
			continue
		}
		environ = append(environ, s.env+"="+got.AsString())
		if want, ok := given[s.env]; ok {
			if got.AsString() != want {
				t.Errorf("%s is %s, want %s", s.env, got.AsString(), want)
			}
			continue
		}
		if got.AsString() != s.def {
			t.Errorf("%s defaults to %q, but the functions' own default is %q", s.env, got.AsString(), s.def)
		}
		b := m.variables[strings.ToLower(s.env)]
		if b == nil {
			t.Errorf("no variable %s", strings.ToLower(s.env))
			continue
		}
		if desc := m.value(b.Body.Attributes["description"].Expr).AsString(); desc != s.desc {
			t.Errorf("variable %s is described as\n%s\nbut the setting as\n%s", strings.ToLower(s.env), desc, s.desc)
		}
	}

	// What the module sets is what the functions read, and at the defaults it changes nothing.
	parsed, err := settings.Parse(environ)
	if err != nil {
		t.Fatal(err)
	}
	want, err := settings.Parse([]string{"GOOGLE_CLOUD_PROJECT=a-project", "PROJECT_NUMBER=123456789"})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(parsed, want) {
		t.Errorf("the functions read %+v\nwant %+v", parsed, want)
	}
}

func TestSettingsReachTheFunctions(t *testing.T) {
	t.Parallel()
	m := load(t, ".", vars("auto_create", cty.True, "rate_limit", cty.NumberFloatVal(2.5), "request_ttl", cty.StringVal("90m"),
		"max_increment", cty.NumberIntVal(1<<62), "allowed_origins", cty.ListVal([]cty.Value{cty.StringVal("https://a.example"), cty.StringVal("*")})))
	for _, fn := range m.instances("google_cloudfunctions2_function") {
		var environ []string
		for name, v := range fn.args["service_config"].Index(cty.NumberIntVal(0)).GetAttr("environment_variables").AsValueMap() {
			environ = append(environ, name+"="+v.AsString())
		}
		s, err := settings.Parse(environ)
		if err != nil {
			t.Fatal(err)
		}
		if !s.AutoCreate.On || s.RateLimit != 2.5 || s.RequestTTL.Minutes() != 90 || s.MaxIncrement != 1<<62 || len(s.AllowedOrigins) != 2 {
			t.Errorf("%s%s reads %+v", fn.name, fn.key, s)
		}
	}
}

// checked is the condition of a check block.
func checked(t *testing.T, file, name string) hcl.Expression {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, diags := hclsyntax.ParseConfig(src, file, hclPos())
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	for _, block := range parsed.Body.(*hclsyntax.Body).Blocks {
		if block.Type == "check" && block.Labels[0] == name {
			return block.Body.Blocks[0].Body.Attributes["condition"].Expr
		}
	}
	t.Fatalf("%s has no check %s", file, name)
	return nil
}

// A number reaches them as one, too, and whoever lets everybody in without a bound is warned.
func TestAutoCreateOfAPublicFunction(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		autoCreate cty.Value
		auth       string
		want       string
		warned     bool
	}{
		{cty.True, "none", "true", true},
		{cty.StringVal("true"), "none", "true", true},
		{cty.NumberIntVal(60), "none", "60", false},
		{cty.StringVal("60"), "none", "60", false},
		{cty.True, "firebase", "true", false},
		{cty.False, "none", "false", false},
	} {
		m := load(t, ".", vars("auto_create", tt.autoCreate, "public", cty.True, "auth", cty.StringVal(tt.auth)))
		for _, fn := range m.instances("google_cloudfunctions2_function") {
			if got := fn.args["service_config"].Index(cty.NumberIntVal(0)).GetAttr("environment_variables").AsValueMap()["AUTO_CREATE"].AsString(); got != tt.want {
				t.Errorf("%#v: AUTO_CREATE=%s, want %s", tt.autoCreate, got, tt.want)
			}
		}
		unchecked := load(t, ".", vars("auto_create", tt.autoCreate, "invoker_check", cty.False, "auth", cty.StringVal(tt.auth)))
		for _, m := range []*module{m, unchecked} {
			if holds := m.value(checked(t, "iam.tf", "public_makes_few_counters")).True(); holds == tt.warned {
				t.Errorf("%#v with auth %s: warned %v, want %v", tt.autoCreate, tt.auth, !holds, tt.warned)
			}
		}
	}
}

// The module's validations and the functions' own agree on what is allowed: an apply doesn't deploy
// what won't start.
func TestValidationsAreTheFunctionsOwn(t *testing.T) {
	t.Parallel()
	m := parse(t, ".")
	n, s := cty.NumberIntVal, cty.StringVal
	for name, values := range map[string][]cty.Value{
		"num_shards":         {n(0), n(1), n(1000), n(1001)},
		"max_shards":         {n(-1), n(0), n(1000), n(1001)},
		"cache_ttl":          {s("999ms"), s("1s"), s("60m"), s("1h"), s("3601s"), s("soon"), s("10")},
		"max_increment":      {n(0), n(1), n(1 << 62), n(1<<62 + 1)},
		"request_ttl":        {s("59s"), s("1m"), s("720h"), s("721h")},
		"request_timeout":    {s("0s"), s("1s"), s("60s"), s("61s")},
		"max_batch":          {n(0), n(1), n(500), n(501)},
		"max_queue":          {n(0), n(1), n(1_000_000), n(1_000_001)},
		"auth":               {s("none"), s("firebase"), s("appcheck"), s("iap"), s("")},
		"rate_limit":         {n(-1), n(0), n(1_000_000), n(1_000_001)},
		"ceiling":            {s("writes=40,reads=60,creates=1,bytes=20000"), s("creates=0.01"), s("writes"), s("writes=-1"), s("5USD"), s("writes=1,"), s("writes=1;reads=1")},
		"rollup_interval":    {s("9ms"), s("10ms"), s("5s"), s("5001ms")},
		"rollup_pending":     {n(0), n(1), n(100_000), n(100_001)},
		"rollup_flushes":     {n(0), n(1), n(1000), n(1001)},
		"reconcile_deadline": {s("999ms"), s("1s"), s("1700s"), s("1701s")},
		"reconcile_parallel": {n(0), n(1), n(100), n(101)},
		"log_level":          {s("DEBUG"), s("INFO"), s("WARN"), s("ERROR"), s("LOUD")},
		"database":           {s("(default)"), s("my-db"), s("a/b"), s("")},
		"counters":           {s("counters/{counter}"), s("teams/{team}/posts/{post}"), s("likes"), s("a/b"), s("a/{b}/c"), s("counter_x/{a}"), s("a/{shard}"), s("")},
		"shards":             {s("shards"), s("distributedCounters"), s("a/b"), s("counter_rollup"), s("__x__"), s("")},
		"fields": {s("total=count"), s("likes,views"), s("Cnt"), s("a.b"), s("likes,"), s("`"), s(""),
			s("a,r=avg(c.d),s=sum(/c.d where p=={counter}) as double"), s("a,n=count(**/c where p=={counter} and q in ['x', 1] and n>=3 and n <'y')"),
			s("a,n=count(c) as double"), s("a,n=count(//c)"), s("a,n=count(c where x in [])"), s("a,n=count(c where x>true)"), s("a,n=count(**/counter_x)"),
			s("a,seats=limit(500)"), s("credits=limit()"), s("a=limit(x)"), s("a=limit(-1)"), s("a=limit(5")},
	} {
		for _, v := range values {
			m.set(vars(name, v))
			allowed := m.value(m.variables[name].Body.Blocks[0].Body.Attributes["condition"].Expr).True()
			arg := map[string]cty.Value{"v": v}
			_, err := settings.Parse([]string{strings.ToUpper(name) + "=" + text(arg, "v"), "PROJECT_NUMBER=1"})
			if text(arg, "v") == "" {
				err = os.ErrInvalid // the environment has no empty values: the functions would take their default
			}
			if allowed != (err == nil) {
				t.Errorf("%s = %s: terraform allows it: %v; the functions: %v", name, text(arg, "v"), allowed, err)
			}
		}
	}
}

func hclPos() hcl.Pos { return hcl.Pos{Line: 1, Column: 1} }

// What several deployments of a project share belongs to one of them: destroying another takes
// nothing from it.
func TestOnlyTheOwnerHasWhatIsShared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		owns   []string
		agent  int
		fields []string
	}{
		{[]string{"project", "database"}, 1, []string{"counter_requests.expire_at", "counter_rollup.base", "counter_rollup.imported", "counter_rollup.replaced", "counters.counter_rollup", "counters.created_at", "counters.updated_at"}},
		{[]string{"database"}, 0, []string{"counter_requests.expire_at", "counter_rollup.base", "counter_rollup.imported", "counter_rollup.replaced", "counters.counter_rollup", "counters.created_at", "counters.updated_at"}},
		{nil, 0, []string{"counters.counter_rollup", "counters.created_at", "counters.updated_at"}},
	} {
		owns := cty.SetValEmpty(cty.String)
		if len(c.owns) > 0 {
			var words []cty.Value
			for _, word := range c.owns {
				words = append(words, cty.StringVal(word))
			}
			owns = cty.SetVal(words)
		}
		m := load(t, ".", vars("owns", owns))
		agent := 0
		for _, i := range m.instances("google_project_iam_member") {
			if i.name == "eventarc_agent" {
				agent++
			}
		}
		var fields []string
		for _, i := range m.instances("google_firestore_field") {
			fields = append(fields, text(i.args, "collection")+"."+text(i.args, "field"))
		}
		slices.Sort(fields)
		if agent != c.agent || !slices.Equal(fields, c.fields) {
			t.Errorf("owns %v: the agent's role %d times, fields %v; want %d and %v", c.owns, agent, fields, c.agent, c.fields)
		}
	}
}

// Exemptions follow the names: of the base's maps, of the counters' collection, and in a document of
// the app's own of the one map that is ours. What shards count is never exempt: sum() needs
// its index.
func TestExemptionsFollowTheNames(t *testing.T) {
	t.Parallel()
	ours := []string{"counter_requests.expire_at", "counter_rollup.base", "counter_rollup.imported", "counter_rollup.replaced"}
	fields, shards := cty.StringVal("likes,total=count"), cty.StringVal("parts")
	for name, c := range map[string]struct {
		vars map[string]cty.Value
		want []string
	}{
		"nested":          {vars("counters", cty.StringVal("teams/{team}/posts/{post}"), "fields", fields, "shards", shards), []string{"posts.counter_rollup", "posts.created_at", "posts.updated_at"}},
		"hosted":          {vars("counters", cty.StringVal("posts/{post}"), "hosted", cty.True, "fields", fields, "shards", shards), []string{"posts.counter_rollup"}},
		"hosted, indexed": {vars("counters", cty.StringVal("posts/{post}"), "hosted", cty.True, "exempt_updated_at", cty.False), nil},
	} {
		var got []string
		for _, i := range load(t, ".", c.vars).instances("google_firestore_field") {
			got = append(got, text(i.args, "collection")+"."+text(i.args, "field"))
		}
		slices.Sort(got)
		if want := append(slices.Clone(ours), c.want...); !slices.Equal(got, want) {
			t.Errorf("%s: fields %v, want %v", name, got, want)
		}
	}
}
