package settings

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
)

var update = flag.Bool("update", false, "write the files that are made from Settings, as `go generate ./internal/settings` does")

// What is made from Settings: terraform's variables, and the table in docs.
func TestGeneratedFiles(t *testing.T) {
	for _, f := range []struct {
		path       string
		begin, end string // what is made is between these lines; the whole file where there are none
		text       string
	}{
		{"terraform/settings.tf", "", "", terraform(t)},
		{"docs/settings.md", "<!-- settings: made by go generate ./internal/settings -->\n", "<!-- end of settings -->\n", docsTable()},
	} {
		path := "../../" + f.path
		content, err := os.ReadFile(path)
		if err != nil && f.begin != "" {
			t.Errorf("%v", err)
			continue
		}
		want := f.text
		if f.begin != "" {
			before, rest, ok := strings.Cut(string(content), f.begin)
			_, after, there := strings.Cut(rest, f.end)
			if !ok || !there {
				t.Errorf("%s has no lines %q and %q", f.path, f.begin, f.end)
				continue
			}
			want = before + f.begin + f.text + f.end + after
		}
		if string(content) == want {
			continue
		}
		if !*update {
			t.Errorf("%s is not what internal/settings says: run go generate ./internal/settings", f.path)
			continue
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// given are not the user's to choose: they are the project's.
var given = map[string]string{"GOOGLE_CLOUD_PROJECT": "var.project_id", "PROJECT_NUMBER": "tostring(data.google_project.project.number)"}

// A setting is one field of Settings.
type setting struct {
	env, def, desc, least, most string
	kind                        reflect.Type
}

func all() (list []setting) {
	for field := range reflect.TypeFor[Settings]().Fields() {
		if field.Tag.Get("env") == "" {
			continue // no deployment has it
		}
		s := setting{env: field.Tag.Get("env"), def: field.Tag.Get("envDefault"), desc: field.Tag.Get("desc"), kind: field.Type}
		s.least, s.most, _ = strings.Cut(field.Tag.Get("range"), " to ")
		list = append(list, s)
	}
	return list
}

func (s setting) variable() string { return strings.ToLower(s.env) }

// words are what the types are called: in the documentation, and in terraform.
func (s setting) words() (doc, tf string) {
	switch s.kind {
	case reflect.TypeFor[bool]():
		return "boolean", "bool"
	case reflect.TypeFor[int](), reflect.TypeFor[int64]():
		return "integer", "number"
	case reflect.TypeFor[float64]():
		return "number", "number"
	case reflect.TypeFor[time.Duration]():
		return "duration", "string"
	case reflect.TypeFor[[]string]():
		return "list", "list(string)"
	case reflect.TypeFor[slog.Level]():
		return "level", "string"
	case reflect.TypeFor[layout.Path]():
		return "path", "string"
	case reflect.TypeFor[layout.Fields]():
		return "fields", "string"
	case reflect.TypeFor[AutoCreate]():
		return "boolean or integer", "string"
	case reflect.TypeFor[Ceiling]():
		return "ceiling", "string"
	}
	return "string", "string"
}

// literal is the default as terraform writes it.
func (s setting) literal() string {
	switch _, kind := s.words(); kind {
	case "string":
		return fmt.Sprintf("%q", s.def)
	case "list(string)":
		var list []string
		for value := range strings.FieldsFuncSeq(s.def, func(r rune) bool { return r == ',' }) {
			list = append(list, strconv.Quote(value))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	return s.def
}

// fields is what terraform allows of FIELDS: a regular expression in which each word stands for what follows it here.
// Terraform itself puts one into the other. Written out it has 7,000 characters, and nobody could read it.
var fields = func() string {
	expression := `"^ *ITEM *(, *ITEM *)*$"`
	for _, part := range [][2]string{
		{"ITEM", `NAME(=(NAME|limit[(][0-9]{0,18}[)]|count[(] *FROM WHERE *[)]|avg[(] *FROM[.]PATH WHERE *[)]|sum[(] *FROM[.]PATH WHERE *[)]( +as +double)?))?`},
		{"FROM", `([*][*]/|/)?[A-Za-z0-9_-]+`},
		{" WHERE", `( +where +CONDITION( +and +CONDITION)*)?`},
		{"CONDITION", `PATH *(== *(true|false|[{]NAME[}]|VALUE)|(<|>)=? *VALUE| in *[[]VALUE(, *VALUE)*[]])`},
		{"VALUE", `(-?[0-9]+|'[^'|\\\"\\\\]*')`},
		{"PATH", `NAME([.]NAME)*`},
		{"NAME", `[A-Za-z_][A-Za-z0-9_]*`},
	} {
		expression = fmt.Sprintf("replace(%s, %q, \"%s\")", expression, part[0], part[1])
	}
	return expression
}()

// patterns are what terraform allows of the settings that are words: part of what the functions
// allow, as some of it ends up in path patterns and command lines. V stands for the variable.
var patterns = map[string][2]string{
	"DATABASE": {`can(regex("^(\\(default\\)|[a-z][a-z0-9-]{2,61}[a-z0-9])$", V))`,
		"(default), or 4 to 63 lower-case letters, digits and hyphens, beginning with a letter"},
	"COUNTERS": {`can(regex("^([A-Za-z0-9_-]+/[{][A-Za-z_][A-Za-z0-9_]*[}])(/[A-Za-z0-9_-]+/[{][A-Za-z_][A-Za-z0-9_]*[}])*$|^[A-Za-z0-9_-]+/[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+/[A-Za-z0-9_-]+)*$", V)) && length(regexall("__|counter_|[{]shard[}]", V)) == 0`,
		"collections and wildcards in turn, such as teams/{team}/posts/{post}, or one document such as stats/site, of letters, digits, _ and -: it is part of the trigger's path pattern"},
	"SHARDS": {`can(regex("^[A-Za-z0-9_-]+$", V)) && length(regexall("^__|^counter_", V)) == 0`,
		"the name of a collection, of letters, digits, _ and -: it is part of the trigger's path pattern"},
	"FIELDS": {`can(regex(` + fields + `, V)) && length(regexall("[(/] *counter_", V)) == 0`,
		"names of letters, digits and _, with commas between them, such as likes,views, total=count or seats=limit(500), and counts such as comments=count(comments), rating=avg(ratings.stars), n=count(/comments where post=={post}) or p=count(comments where lang=='de')"},
	"AUTO_CREATE": {`can(regex("^(true|false|[1-9][0-9]{0,4}|100000)$", V))`, "true, false, or a whole number of new counters a minute and caller, 1 to 100000"},
	"CEILING": {`can(regex("^(|(writes|reads|creates|bytes|logs|requests)=[0-9]+([.][0-9]+)?(,(writes|reads|creates|bytes|logs|requests)=[0-9]+([.][0-9]+)?)*)$", V))`,
		"units a second with commas between them, such as writes=40,reads=60,creates=1,bytes=20000, or empty"},
	"AUTH":            {`contains(["none", "firebase", "appcheck"], V)`, "none, firebase or appcheck"},
	"CLEANUP":         {`contains(["off", "zero", "idle"], V)`, "off, zero or idle"},
	"RESET":           {`contains(["off", "own", "any"], V)`, "off, own or any"},
	"LIMIT":           {`contains(["off", "own", "any"], V)`, "off, own or any"},
	"MEMBERS":         {`contains(["", "own", "any", "off"], V)`, "own, any or off, or empty"},
	"ALLOWED_ORIGINS": {`alltrue([for o in V : o == "*" || can(regex("^[A-Za-z][A-Za-z0-9+.-]*://[^/?#@*,| ]+$", o))])`, "origins such as https://example.com, without a path, or *"},
	"GOGC":            {`can(regex("^(|off|[1-9][0-9]{0,5})$", V))`, "a whole number of percent, such as 400, off or empty"},
	"GOMEMLIMIT":      {`can(regex("^(|off|[1-9][0-9]{0,14}(B|KiB|MiB|GiB|TiB)?)$", V))`, "a whole number with B, KiB, MiB, GiB or TiB, such as 200MiB, off or empty"},
	"LOG_LEVEL":       {`contains(["DEBUG", "INFO", "WARN", "ERROR"], V)`, "DEBUG, INFO, WARN or ERROR"},
}

// validation is what terraform allows beyond a variable's type, and its words.
func (s setting) validation(t *testing.T) (condition, words string) {
	t.Helper()
	if p, ok := patterns[s.env]; ok {
		return p[0], p[1]
	}
	switch doc, _ := s.words(); doc {
	case "boolean":
		return "", "" // its type says it all
	case "integer":
		return "V >= " + s.least + " && V <= " + s.most + " && floor(V) == V", "a whole number from " + s.least + " to " + s.most
	case "number":
		return "V >= " + s.least + " && V <= " + s.most, s.least + " to " + s.most
	case "duration":
		seconds := `tonumber(regex("^[0-9]+", V)) * { ms = 0.001, s = 1, m = 60, h = 3600 }[regex("[a-z]+$", V)]`
		least, _ := time.ParseDuration(s.least)
		most, _ := time.ParseDuration(s.most)
		return fmt.Sprintf(`try(can(regex("^[0-9]+(ms|s|m|h)$", V)) && %s >= %s && %s <= %s, false)`,
				seconds, strconv.FormatFloat(least.Seconds(), 'f', -1, 64), seconds, strconv.FormatFloat(most.Seconds(), 'f', -1, 64)),
			"a whole number of ms, s, m or h, from " + s.least + " to " + s.most
	}
	t.Fatalf("no validation for terraform's variable %s", s.variable())
	return "", ""
}

func terraform(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Code generated by go generate ./internal/settings. DO NOT EDIT.
#
# The functions' settings: one variable for each, with the name, default and description of the
# environment variable.

locals {
  # What all three functions get. Every setting is written out, so that a deployment doesn't change
  # with a default.
  environment = {
`)
	width := 0
	for _, s := range all() {
		width = max(width, len(s.env))
	}
	for _, s := range all() {
		value := "var." + s.variable()
		switch _, kind := s.words(); {
		case given[s.env] != "":
			value = given[s.env]
		case kind == "list(string)":
			value = `join(",", ` + value + ")"
		case kind != "string", s.kind == reflect.TypeFor[AutoCreate](): // which is given as a boolean or a number, too
			value = "tostring(" + value + ")"
		}
		fmt.Fprintf(&b, "    %-*s = %s\n", width, s.env, value)
	}
	b.WriteString("  }\n}\n")
	word := regexp.MustCompile(`\bV\b`)
	for _, s := range all() {
		if given[s.env] != "" {
			continue
		}
		_, kind := s.words()
		fmt.Fprintf(&b, `
variable %q {
  description = %q
  type        = %s
  nullable    = false
  default     = %s
`, s.variable(), s.desc, kind, s.literal())
		if condition, words := s.validation(t); condition != "" {
			fmt.Fprintf(&b, `
  validation {
    condition     = %s
    error_message = %q
  }
`, word.ReplaceAllLiteralString(condition, "var."+s.variable()), s.variable()+" must be "+words+".")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func docsTable() string {
	var b strings.Builder
	b.WriteString("| variable | default | meaning |\n| --- | --- | --- |\n")
	for _, s := range all() {
		def := ""
		if s.def != "" {
			def = "`" + s.def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.env, def, s.desc)
	}
	return b.String()
}
