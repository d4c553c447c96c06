package doctor

import (
	"cmp"
	"fmt"
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

func (f *findings) settings(d *Deployment) {
	there := d.Functions.all()
	var valid []*Function
	for _, function := range there {
		if _, err := parse(function.Env); err != nil {
			f.add("settings-invalid", function.Name, strings.ReplaceAll(err.Error(), "\n", "; "), d.mendSettings(function))
			continue
		}
		valid = append(valid, function)
	}
	if len(valid) == 0 {
		return
	}
	columns := make([][]setting, len(valid))
	for i, function := range valid {
		columns[i] = settingsOf(function.Env)
	}
	for row := range columns[0] {
		name := columns[0][row].name
		if of, ok := layoutSettings[name]; ok {
			want := of(d.Target)
			for i, function := range valid {
				got := columns[i][row].value
				if name == "GOOGLE_CLOUD_PROJECT" && got == "" {
					continue // the project that it runs in
				}
				if got != want {
					f.add("layout-differs", function.Name, fmt.Sprintf("%s is %s, where %s is expected", name, got, want), d.setLayout(function, name, want))
				}
			}
			continue
		}
		if name == "CEILING" {
			continue // each function has its own: see ceiling
		}
		f.compare(d, valid, columns, row)
	}
}

// setLayout sets one of the settings that say which documents a function looks at.
func (d *Deployment) setLayout(function *Function, name, value string) string {
	if name == "FIELDS" {
		return d.setFields([]*Function{function}, value)
	}
	return d.setEnv(function, name, value)
}

// compare looks at one setting of all functions. Where they differ, the value that most have is
// right, and of two the one of the function that works with the setting: of Increment, unless the
// setting is named after another.
func (f *findings) compare(d *Deployment, valid []*Function, columns [][]setting, row int) {
	name := columns[0][row].name
	right, most := 0, 0
	for i, function := range valid {
		votes := 0
		for _, column := range columns {
			if column[row].value == columns[i][row].value {
				votes += 2
			}
		}
		if strings.HasPrefix(name, strings.ToUpper(function.EntryPoint)+"_") {
			votes++
		}
		if votes > most {
			right, most = i, votes
		}
	}
	var seen, fixes []string
	for i, function := range valid {
		seen = append(seen, fmt.Sprintf("%q on %s", columns[i][row].raw, function.Name))
		if columns[i][row].value != columns[right][row].value {
			fixes = append(fixes, d.setEnv(function, name, columns[right][row].raw))
		}
	}
	if len(fixes) > 0 {
		f.add("settings-differ", name, strings.Join(seen, ", "), lines(fixes...))
	}
}

// mendSettings puts every setting that stops a function from starting back to its default; but AUTH to what lets in
// fewer callers than were meant, and not more.
func (d *Deployment) mendSettings(f *Function) string {
	var bad, flags []string
	for _, s := range settingsOf(f.Env) {
		alone := map[string]string{"PROJECT_NUMBER": "1", s.name: s.raw}
		if on, set := f.Env["AUTO_CREATE"]; set && s.name == "CLEANUP" { // which takes it
			alone["AUTO_CREATE"] = on
		}
		switch _, err := parse(alone); {
		case err == nil:
		case s.name == "AUTH":
			flags = append(flags, "--update-env-vars=AUTH=firebase")
		default:
			bad = append(bad, s.name)
		}
	}
	if len(bad) > 0 {
		flags = append(flags, "--remove-env-vars="+strings.Join(bad, ","))
	}
	if len(flags) == 0 { // each is right by itself: AUTH=appcheck needs the project's number
		return d.redeploy(f) + ` --update-env-vars="PROJECT_NUMBER=` + d.number() + `"`
	}
	return d.redeploy(f, flags...)
}
