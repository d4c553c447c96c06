//go:build all

package terraform

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/internal/settings"
)

// Each setting is a variable of its name and description, but for those that are the project's. What the functions are
// told, with no variable and with others, TestGcloudMakesWhatTerraformMakes compares.
func TestEverySettingIsAVariable(t *testing.T) {
	t.Parallel()
	m := parse(t, ".")
	for f := range reflect.TypeFor[settings.Settings]().Fields() {
		name := f.Tag.Get("env")
		if slices.Contains([]string{"", "GOOGLE_CLOUD_PROJECT", "PROJECT_NUMBER"}, name) {
			continue
		}
		b := m.variables[strings.ToLower(name)]
		if b == nil {
			t.Errorf("no variable %s", strings.ToLower(name))
			continue
		}
		if desc := m.value(b.Body.Attributes["description"]).AsString(); desc != f.Tag.Get("desc") {
			t.Errorf("variable %s is described as\n%s\nbut the setting as\n%s", strings.ToLower(name), desc, f.Tag.Get("desc"))
		}
	}
}

// The module's validations and the functions' own agree on what is allowed: an apply doesn't deploy
// what won't start. Terraform says what the condition of each comes to.
func TestValidationsAreTheFunctionsOwn(t *testing.T) {
	t.Parallel()
	m := parse(t, ".")
	type try struct {
		name  string
		value any
	}
	var tries []try
	conditions := map[string]string{}
	for name, values := range map[string][]any{
		"num_shards":         {0, 1, 1000, 1001},
		"max_shards":         {-1, 0, 1000, 1001},
		"cache_ttl":          {"999ms", "1s", "60m", "1h", "3601s", "soon", "10"},
		"max_increment":      {0, 1, 1 << 62, 1<<62 + 1},
		"request_ttl":        {"59s", "1m", "720h", "721h"},
		"request_timeout":    {"0s", "1s", "60s", "61s"},
		"max_batch":          {0, 1, 500, 501},
		"max_queue":          {0, 1, 1_000_000, 1_000_001},
		"auth":               {"none", "firebase", "appcheck", "iap", ""},
		"rate_limit":         {-1, 0, 1_000_000, 1_000_001},
		"ceiling":            {"writes=40,reads=60,creates=1,bytes=20000", "creates=0.01", "writes", "writes=-1", "5USD", "writes=1,", "writes=1;reads=1"},
		"rollup_interval":    {"9ms", "10ms", "5s", "5001ms"},
		"rollup_pending":     {0, 1, 100_000, 100_001},
		"rollup_flushes":     {0, 1, 1000, 1001},
		"reconcile_deadline": {"999ms", "1s", "1700s", "1701s"},
		"reconcile_parallel": {0, 1, 100, 101},
		"log_level":          {"DEBUG", "INFO", "WARN", "ERROR", "LOUD"},
		"database":           {"(default)", "my-db", "a/b", ""},
		"counters":           {"counters/{counter}", "teams/{team}/posts/{post}", "likes", "a/b", "a/{b}/c", "counter_x/{a}", "a/{shard}", ""},
		"shards":             {"shards", "distributedCounters", "a/b", "counter_rollup", "__x__", ""},
		"fields": {"total=count", "likes,views", "Cnt", "a.b", "likes,", "`", "",
			"a,r=avg(c.d),s=sum(/c.d where p=={counter}) as double", "a,n=count(**/c where p=={counter} and q in ['x', 1] and n>=3 and n <'y')",
			" a , n=count(c) , s=sum( c.d where x==1 ) as double ", "a b", "a,n=count(c) as double", "a,n=count(//c)", "a,n=count(c where x in [])", "a,n=count(c where x>true)", "a,n=count(**/counter_x)", "a,n=count( counter_x)",
			"a,seats=limit(500)", "credits=limit()", "a=limit(x)", "a=limit(-1)", "a=limit(5"},
	} {
		condition := source(t, m.variables[name].Body.Blocks[0].Body.Attributes["condition"].Expr)
		for _, v := range values {
			literal, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			conditions[fmt.Sprint("c", len(tries))] = "${" + strings.ReplaceAll(condition, "var."+name, string(literal)) + "}"
			tries = append(tries, try{name, v})
		}
	}
	allowed := configure(t, nil, conditions).planned(t).outputs
	for i, try := range tries {
		_, err := settings.Parse([]string{fmt.Sprint(strings.ToUpper(try.name), "=", try.value), "PROJECT_NUMBER=1"})
		if try.value == "" {
			err = os.ErrInvalid // the environment has no empty values: the functions would take their default
		}
		if got, is := allowed[fmt.Sprint("c", i)].(bool); !is || got != (err == nil) {
			t.Errorf("%s = %v: terraform allows it: %v; the functions: %v", try.name, try.value, allowed[fmt.Sprint("c", i)], err)
		}
	}
}

// fields are those that are configured, as collection and field.
func (p *planned) fields() (all []string) {
	for _, r := range p.of("google_firestore_field") {
		all = append(all, r.text("collection")+"."+r.text("field"))
	}
	return slices.Sorted(slices.Values(all))
}

// What several deployments of a project share belongs to one of them: destroying another takes
// nothing from it.
func TestOnlyTheOwnerHasWhatIsShared(t *testing.T) {
	t.Parallel()
	shared := []string{"counter_requests.expire_at", "counter_rollup.base", "counter_rollup.imported", "counter_rollup.replaced"}
	own := []string{"counters.counter_rollup", "counters.created_at", "counters.updated_at"}
	for owns, p := range planOf(t, map[string]vars{"all": {"owns": []string{"project", "database"}}, "the database": {"owns": []string{"database"}}, "nothing": {"owns": []string{}}}) {
		want, agents := own, 0
		if owns != "nothing" {
			want = append(slices.Clone(shared), own...)
		}
		if owns == "all" {
			agents = 1
		}
		got := slices.DeleteFunc(p.of("google_project_iam_member"), func(r resource) bool { return r.Name != "eventarc_agent" })
		if len(got) != agents || !slices.Equal(p.fields(), want) {
			t.Errorf("owns %s: the agent's role %d times, fields %v; want %d and %v", owns, len(got), p.fields(), agents, want)
		}
	}
}

// A ceiling that can't be kept is refused before anything is made, with the least that can be kept.
func TestACeilingThatCantBeKept(t *testing.T) {
	t.Parallel()
	with := func(way, dollars string) vars {
		return vars{"run_gcloud": true, "increment_billing": way, "rollup_billing": way, "most_per_day": dollars}
	}
	least := map[string]float64{}
	for way, p := range planOf(t, map[string]vars{"request": with("request", "1"), "instance": with("instance", "1")}) {
		says := strings.Join(p.failed["google_cloudfunctions2_function.http"], "\n")
		_, after, _ := strings.Cut(says, "want ")
		dollars := 0.0
		if _, err := fmt.Sscanf(after, "%f at least", &dollars); err != nil || dollars < 4 || dollars > 6 {
			t.Fatalf("by the %s 1 is refused with %q, want one that says the least", way, says)
		}
		least[way] = dollars
	}
	kept, deployments := map[string]bool{}, map[string]vars{}
	for way, dollars := range least {
		for given, is := range map[string]bool{fmt.Sprintf("%.2f", dollars-0.02): false, fmt.Sprintf("%.2f", dollars): true, "none": true} {
			kept[given+" by the "+way], deployments[given+" by the "+way] = is, with(way, given)
		}
	}
	for what, p := range planOf(t, deployments) {
		if refused := len(p.failed["google_cloudfunctions2_function.http"]) > 0; refused == kept[what] {
			t.Errorf("most_per_day %s: it is refused: %v", what, refused)
		}
	}
}
