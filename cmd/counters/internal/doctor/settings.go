package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"

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
	var env map[string]string
	if f != nil {
		for _, function := range []*Function{f.Reconcile, f.Increment, f.Rollup} {
			if function != nil {
				env = function.Env
			}
		}
	}
	t.Prefix = cmp.Or(t.Prefix, "counters")
	t.Database = cmp.Or(t.Database, env["DATABASE"], defaultDatabase)
	t.Counters = cmp.Or(t.Counters, env["COUNTERS"], layout.DefaultPath)
	t.Shards = cmp.Or(t.Shards, env["SHARDS"], layout.DefaultShards)
	t.Fields = cmp.Or(t.Fields, env["FIELDS"], layout.DefaultFields)
	hosted, _ := strconv.ParseBool(env["HOSTED"])
	extension, _ := strconv.ParseBool(env["EXTENSION"])
	t.Hosted, t.Extension = t.Hosted || hosted, t.Extension || extension
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

// environment is what the functions are meant to have: where the counters are, and each other setting as the function
// has it that works with it: Increment, or the one that the setting is named after.
func (d *Deployment) environment() map[string]string {
	env := map[string]string{}
	for _, function := range d.Functions.all() { // Increment comes first
		for _, s := range settingsOf(startable(function.Env)) {
			if _, known := env[s.name]; !known || strings.HasPrefix(s.name, strings.ToUpper(function.EntryPoint)+"_") {
				env[s.name] = s.raw
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
	usual, _ := parse(nil)
	if s, err := parse(d.environment()); err == nil && s.CleanupAfter != usual.CleanupAfter && !s.Hosted && s.Cleanup == usual.Cleanup {
		f.add("setting-unused", "CLEANUP_AFTER", fmt.Sprintf("it is %s, and CLEANUP is %s", s.CleanupAfter, s.Cleanup), d.with("CLEANUP_AFTER", "24h"))
	}
}

// upgrade looks for a deployment that ended before it came to all functions, and reports whether
// there is one. Rollup comes last in every deployment: what is newer than it, and has other
// settings or another source, is of one that it hasn't had yet. Which of two values is right is no
// question of how many functions have it then: the later one is what is wanted, and to go back is
// not for doctor to say.
func (f *findings) upgrade(d *Deployment) bool {
	if d.Functions == nil || d.Functions.Increment == nil || d.Functions.Rollup == nil || d.Functions.Reconcile == nil {
		return false
	}
	newest, rollup := d.Functions.Increment, d.Functions.Rollup
	if d.Functions.Reconcile.updated().After(newest.updated()) {
		newest = d.Functions.Reconcile
	}
	if _, err := parse(newest.Env); err != nil || !newest.updated().After(rollup.updated()) {
		return false
	}
	var differ []string
	settings, before := settingsOf(newest.Env), settingsOf(rollup.Env)
	for i, s := range settings {
		if s.value != before[i].value && s.name != "CEILING" { // of which each has its own
			differ = append(differ, fmt.Sprintf("%s=%s after %s", s.name, s.raw, before[i].raw))
		}
	}
	// An earlier version's deployment has no such label.
	if after, before := newest.label("counters-source"), rollup.label("counters-source"); after != "" && before != "" && after != before {
		differ = append(differ, fmt.Sprintf("source %s after %s", after, before))
	}
	if len(differ) == 0 {
		return false
	}
	f.add("upgrade-unfinished", rollup.Name, fmt.Sprintf("%s was deployed on %s with %s, and %s is of %s", newest.Name, newest.updated().Format(time.RFC3339),
		strings.Join(differ, ", "), rollup.Name, rollup.updated().Format(time.RFC3339)), asking(d.like(newest.Env, newest.Region)))
	return true
}

// updated is when it was deployed last.
func (f *Function) updated() time.Time { return moment(f.Object, "updateTime") }
