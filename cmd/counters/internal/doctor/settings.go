package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// What the settings that say where the counters are hold unless they are set.
const defaultDatabase = "(default)"

// setting is one setting of a function.
type setting struct {
	name           string
	raw, byDefault string // as written in the environment
	value          string // as the function understands it: 60s and 1m are the same
}

// settingsOf are all settings that a function takes from an environment.
func settingsOf(env map[string]string) []setting {
	parsed, err := parse(env)
	value := reflect.ValueOf(parsed)
	var all []setting
	for i := range value.NumField() {
		tag := value.Type().Field(i).Tag
		s := setting{name: tag.Get("env"), byDefault: tag.Get("envDefault")}
		s.raw = s.byDefault
		if raw, ok := env[s.name]; ok {
			s.raw = raw
		}
		s.value = s.raw
		if err == nil {
			s.value = fmt.Sprint(value.Field(i).Interface())
		}
		all = append(all, s)
	}
	return all
}

func parse(env map[string]string) (settings.Settings, error) {
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	return settings.Parse(environ)
}

// layoutSettings say which documents the functions look at.
var layoutSettings = map[string]func(Target) string{
	"GOOGLE_CLOUD_PROJECT": func(t Target) string { return t.Project },
	"DATABASE":             func(t Target) string { return t.Database },
	"COUNTERS":             func(t Target) string { return t.Counters },
	"SHARDS":               func(t Target) string { return t.Shards },
	"FIELDS":               func(t Target) string { return t.fields().String() },
	"HOSTED":               func(t Target) string { return strconv.FormatBool(t.Hosted) },
	"EXTENSION":            func(t Target) string { return strconv.FormatBool(t.Extension) },
}

// resolve fills in where the counters are: what the functions say, Rollup first, as it is the one
// that writes totals.
func (t Target) resolve(f *Functions) Target {
	for _, function := range f.all() { // where none was asked for, they were found by their entry points
		if prefix, ok := strings.CutSuffix(function.Name, "-"+strings.ToLower(function.EntryPoint)); ok {
			t.Prefix = cmp.Or(t.Prefix, prefix)
		}
	}
	t.Prefix = cmp.Or(t.Prefix, "counters")
	if f != nil {
		for _, function := range []*Function{f.Rollup, f.Increment, f.Reconcile} {
			if function == nil {
				continue
			}
			t.Database = cmp.Or(t.Database, function.Env["DATABASE"], defaultDatabase)
			t.Counters = cmp.Or(t.Counters, function.Env["COUNTERS"], layout.DefaultPath)
			t.Shards = cmp.Or(t.Shards, function.Env["SHARDS"], layout.DefaultShards)
			t.Fields = cmp.Or(t.Fields, function.Env["FIELDS"], layout.DefaultFields)
			hosted, _ := strconv.ParseBool(function.Env["HOSTED"])
			t.Hosted = t.Hosted || hosted
			extension, _ := strconv.ParseBool(function.Env["EXTENSION"])
			t.Extension = t.Extension || extension
		}
	}
	t.Database = cmp.Or(t.Database, defaultDatabase)
	t.Counters = cmp.Or(t.Counters, layout.DefaultPath)
	t.Shards = cmp.Or(t.Shards, layout.DefaultShards)
	t.Fields = cmp.Or(t.Fields, layout.DefaultFields)
	return t
}

// fields are what is counted.
func (t Target) fields() layout.Fields {
	fields, err := layout.ParseFields(t.Fields)
	if err != nil { // with which the functions don't start either
		fields, _ = layout.ParseFields(layout.DefaultFields)
	}
	return fields
}

// sums are the fields that are sums of the shards'; none where documents alone are counted.
func (t Target) sums() layout.Fields {
	sums, _ := t.fields().Split()
	return sums
}

// counted are the fields that count documents.
func (t Target) counted() layout.Fields {
	_, counted := t.fields().Split()
	return counted
}

// collection is the collection group that the counters' documents are in.
func (t Target) collection() string {
	path, err := layout.ParsePath(t.Counters)
	if err != nil {
		return t.Counters // which the functions don't start with either
	}
	return path.Collection()
}

// startable is an environment without what stops a function from starting; but with an AUTH that lets in fewer callers
// than were meant, and not more.
func startable(env map[string]string) map[string]string {
	if _, err := parse(env); err == nil {
		return env
	}
	good := maps.Clone(env)
	for _, s := range settingsOf(env) {
		alone := map[string]string{"PROJECT_NUMBER": "1", s.name: s.raw}
		if on, set := env["AUTO_CREATE"]; set && s.name == "CLEANUP" { // which takes it
			alone["AUTO_CREATE"] = on
		}
		switch _, err := parse(alone); {
		case err == nil:
		case s.name == "AUTH":
			good["AUTH"] = "firebase"
		default:
			delete(good, s.name)
		}
	}
	return good
}

// environment is what the functions are meant to have: where the counters are, and of each other setting what most have
// that they start with. Of two it is what the function has that works with the setting: Increment, unless the setting
// is named after another. Who may count is for Increment to say.
func (d *Deployment) environment() map[string]string {
	env := map[string]string{}
	votes := map[string]map[string]int{} // :: setting → value → how many have it, twice
	most := map[string]int{}             // :: setting
	for _, function := range d.Functions.all() {
		for _, s := range settingsOf(startable(function.Env)) {
			if votes[s.name] == nil {
				votes[s.name] = map[string]int{}
			}
			votes[s.name][s.value] += 2
		}
	}
	for _, function := range d.Functions.all() {
		for _, s := range settingsOf(startable(function.Env)) {
			n := votes[s.name][s.value]
			switch {
			case strings.HasPrefix(s.name, strings.ToUpper(function.EntryPoint)+"_"):
				n++
			case s.name == "AUTH" && function.EntryPoint == "Increment": // or the others let in whom it keeps out
				n = 2*len(entryPoints) + 1
			}
			if n > most[s.name] {
				env[s.name], most[s.name] = s.raw, n
			}
		}
	}
	for name, of := range layoutSettings {
		env[name] = of(d.Target)
	}
	return env
}

// settings looks at whether the functions start with their settings, and share them.
func (f *findings) settings(d *Deployment) {
	var valid []*Function
	var columns [][]setting
	for _, function := range d.Functions.all() {
		if _, err := parse(function.Env); err != nil {
			f.add("settings-invalid", function.Name, strings.ReplaceAll(err.Error(), "\n", "; "), d.deploy())
			continue
		}
		valid, columns = append(valid, function), append(columns, settingsOf(function.Env))
	}
	if len(valid) == 0 {
		return
	}
	for row, setting := range columns[0] {
		of, isLayout := layoutSettings[setting.name]
		var seen []string
		differ := false
		for i, function := range valid {
			got := columns[i][row]
			switch {
			case !isLayout:
				seen, differ = append(seen, fmt.Sprintf("%q on %s", got.raw, function.Name)), differ || got.value != setting.value
			case got.value == of(d.Target), setting.name == "GOOGLE_CLOUD_PROJECT" && got.value == "": // the project that it runs in
			default:
				fix := d.deploy()
				if setting.name == "FIELDS" {
					fix = d.recounted(fix)
				}
				f.add("layout-differs", function.Name, fmt.Sprintf("%s is %s, where %s is expected", setting.name, got.value, of(d.Target)), fix)
			}
		}
		if differ && setting.name != "CEILING" { // of which each has its own: see ceiling
			f.add("settings-differ", setting.name, strings.Join(seen, ", "), d.deploy())
		}
	}
}
