package deployment

import (
	"maps"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// functionsOf are the functions that a deployment makes, by name: its flags, and its environment.
func functionsOf(t *testing.T, edition string, args ...string) map[string]map[string]string {
	t.Helper()
	w := wanted(t, args...)
	w.Edition = edition
	b := &Builder{Wanted: &w, Look: func(string) Object { return nil }}
	of := map[string]map[string]string{}
	for _, r := range b.List() {
		name, is := strings.CutPrefix(r.Name, "function counters-")
		if !is {
			continue
		}
		flags := map[string]string{}
		for _, word := range r.Make[0].Words {
			if key, value, ok := strings.Cut(word, "="); ok {
				flags[key] = value
			}
		}
		for pair := range strings.SplitSeq(strings.TrimPrefix(flags["--set-env-vars"], "^|^"), "|") {
			key, value, _ := strings.Cut(pair, "=")
			flags[key] = value
		}
		of[name] = flags
	}
	return of
}

// A ceiling is what each function is told of it, as many instances as it keeps busy, and a label for doctor.
func TestCeilingsOfFunctions(t *testing.T) {
	t.Parallel()
	web := "--web-app=https://app.example"
	for _, c := range []struct {
		args                  []string
		label                 string
		instances, rollups    string
		increment, not        string // in CEILING of Increment
		rollup, rollUpsHasNot string
	}{
		{nil, "none", "10", "2", "", "=", "", "="},
		{[]string{"--most-per-day=none", web}, "none", "10", "2", "", "=", "", "="},
		{[]string{web}, "10usd", "1", "1", "requests=", "", "writes=", "requests"},
		{[]string{"--public"}, "10usd", "1", "1", "requests=", "", "writes=", "bytes"},
		{[]string{"--no-invoker-check"}, "10usd", "1", "1", "bytes=", "", "reads=", "creates"},
		{[]string{"--most-per-day=5"}, "5usd", "1", "1", "creates=", "requests", "logs=", "requests"}, // by the instance
		{[]string{"--most-per-day=12.50USD"}, "12_50usd", "1", "1", "requests=", "", "writes=", "requests"},
		{[]string{"--most-per-day=500", "--increment-billing=instance", "--rollup-max-instances=3"}, "500usd", "5", "3", "writes=", "requests", "writes=", "requests"},
	} {
		of := functionsOf(t, "standard", c.args...)
		for name, flags := range of {
			if !strings.Contains(flags["--update-labels"], ",counters-most-per-day="+c.label) && flags["--update-labels"] != "" {
				t.Errorf("%q: labels of %s: %s", c.args, name, flags["--update-labels"])
			}
		}
		if got := of["increment"]["--max-instances"]; got != c.instances {
			t.Errorf("%q: %s instances of Increment, want %s", c.args, got, c.instances)
		}
		if got := of["rollup"]["--max-instances"]; got != c.rollups {
			t.Errorf("%q: %s instances of Rollup, want %s", c.args, got, c.rollups)
		}
		for function, has := range map[string][2]string{"increment": {c.increment, c.not}, "rollup": {c.rollup, c.rollUpsHasNot}, "reconcile": {c.rollup, c.rollUpsHasNot}} {
			ceiling := of[function]["CEILING"]
			if !strings.Contains(ceiling, has[0]) || has[1] != "" && strings.Contains(ceiling, has[1]) {
				t.Errorf("%q: CEILING of %s is %q", c.args, function, ceiling)
			}
		}
	}
	standard, enterprise := functionsOf(t, "standard", web), functionsOf(t, "enterprise", web)
	if standard["increment"]["CEILING"] == enterprise["increment"]["CEILING"] {
		t.Error("a ceiling lets as much be written in both editions")
	}
}

// What can't be kept is refused before anything is made, with the least that can, whatever the database's edition turns
// out to be.
func TestCeilingsThatCantBeKept(t *testing.T) {
	for _, args := range [][]string{{"--most-per-day=3USD"}, {"--most-per-day=4.50USD", "--increment-billing=request"}, {"--web-app=https://app.example", "--increment-max-instances=10"}} {
		p := newPlatform()
		out, err := p.run(t, args...)
		if err == nil || !strings.Contains(err.Error(), "can't be kept: want ") || !strings.HasSuffix(err.Error(), "nothing was made") || len(p.ran) > 0 {
			t.Errorf("%q: %v, ran %q\n%s", args, err, p.ran, out)
		}
	}
	for args, want := range map[string]string{
		"--most-per-day=5EUR": "want US dollars a day, such as 5USD, or none", "--most-per-day=lots": "want US dollars a day", "--most-per-day=-5": "want US dollars",
		"--most-per-day=5 --set=CEILING=writes=5": "want --most-per-day instead", "--public --set=CEILING=writes=5": "want --most-per-day instead",
	} {
		var w Wanted
		flags := pflag.NewFlagSet("deploy", pflag.ContinueOnError)
		w.Flags(flags)
		if err := flags.Parse(append([]string{"--project=a-project", "--location=us-central1"}, strings.Fields(args)...)); err != nil {
			t.Fatal(err)
		}
		if err := w.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	// What somebody works out by hand stays as it is.
	of := functionsOf(t, "standard", "--most-per-day=none", "--public", "--set=CEILING=writes=5,bytes=100")
	for name, flags := range of {
		if flags["CEILING"] != "writes=5,bytes=100" {
			t.Errorf("CEILING of %s is %q", name, flags["CEILING"])
		}
	}
}

// A ceiling that is taken back takes everything back that it had set; and one that is changed changes the functions
// alone.
func TestCeilingsThatChange(t *testing.T) {
	before := []string{"--web-app=https://app.example"}
	for _, c := range []struct {
		args []string
		want []string
		runs []string
	}{
		{[]string{"--most-per-day=none"}, []string{"counters-most-per-day 10usd → none", "maxInstanceCount 1 → 10", "CEILING writes="}, []string{"functions deploy counters-increment", "functions deploy counters-rollup", "functions deploy counters-reconcile"}},
		{[]string{"--most-per-day=20USD"}, []string{"10usd → 20usd"}, []string{"functions deploy counters-increment", "functions deploy counters-rollup", "functions deploy counters-reconcile"}},
		{[]string{"--most-per-day=10"}, []string{"no command runs"}, nil},
	} {
		p := newPlatform()
		p.deployed(t, wanted(t, before...))
		out, err := p.run(t, append(before, c.args...)...)
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%q: no %q in\n%s", c.args, want, out)
			}
		}
		ran := map[string]bool{}
		for _, command := range p.ran {
			ran[strings.Join(strings.Fields(strings.TrimPrefix(command, "gcloud "))[:3], " ")] = true
		}
		want := map[string]bool{}
		for _, command := range c.runs {
			want[command] = true
		}
		if !maps.Equal(ran, want) {
			t.Errorf("%q: ran %q, want %q", c.args, p.ran, c.runs)
		}
	}
}

// A deployment that the internet is let into keeps its ceiling when nobody is named who may call it: they stay.
func TestCeilingsOfWhoIsLeftOver(t *testing.T) {
	p := newPlatform()
	p.deployed(t, wanted(t, "--public", "--set=AUTH=firebase"))
	if out, err := p.run(t, "--set=AUTH=firebase"); err != nil || len(p.ran) > 0 {
		t.Errorf("%v, ran %q\n%s", err, p.ran, out)
	}
	if _, err := p.run(t, "--set=AUTH=firebase", "--most-per-day=none"); err != nil || len(p.ranOf("functions deploy")) != 3 {
		t.Errorf("%v, ran %q", err, p.ran)
	}
}

// What a label says of a ceiling comes back.
func TestCeilingLabels(t *testing.T) {
	t.Parallel()
	for ceiling, want := range map[string]float64{"5USD": 5, "12.50USD": 12.5, "none": 0, "": 0} {
		if got, ok := CeilingOfLabel(CeilingLabel(ceiling)); got != want || ok != (want > 0) {
			t.Errorf("%s comes back as %v, %v", ceiling, got, ok)
		}
	}
}
