package repotest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// pages are the texts that people read, by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case filepath.Ext(name) == ".md":
			text, err := os.ReadFile(name)
			texts[filepath.ToSlash(name)] = string(text)
			return err
		}
		return nil
	})
	if err != nil || len(texts) < 10 {
		t.Fatalf("%d pages, %v", len(texts), err)
	}
	return texts
}

func exists(name string) bool {
	_, err := os.Stat(filepath.FromSlash(name))
	return err == nil
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	marked  = regexp.MustCompile("`([^`\n]+)`")
	file    = regexp.MustCompile(`^[\w./-]+\.(go|js|mjs|py|sh|svg|png|yml|yaml|json|rules|tf|md)$`)
	named   = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
)

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// Every link of a page leads somewhere, and every file and test that a page names is there; so is every test that CI
// names.
func TestPages(t *testing.T) {
	atRoot(t)
	texts := pages(t)
	anchors := map[string]bool{}
	for page, text := range texts {
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			anchors[page+"#"+anchor(m[1])] = true
		}
	}
	tests := declared(t, "_test.go")
	ci, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range named.FindAllString(string(ci), -1) {
		if !tests[name] {
			t.Errorf(".ci/run names %s, which is nowhere", name)
		}
	}
	for page, text := range texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			to, part, within := strings.Cut(m[1], "#")
			target := page
			if to != "" {
				target = path.Join(path.Dir(page), to)
			}
			if !exists(target) || within && !anchors[target+"#"+part] {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
		for _, m := range marked.FindAllStringSubmatch(text, -1) {
			name := m[1]
			if strings.Contains(name, "/") && file.MatchString(name) && !exists(name) && !exists(path.Join(path.Dir(page), name)) {
				t.Errorf("%s names the file %s, which is not there", page, name)
			}
			for _, name := range named.FindAllString(name, -1) {
				if !tests[name] {
					t.Errorf("%s names %s, which is nowhere", page, name)
				}
			}
		}
	}
}

// Who looks for a page finds it in the index, and reads it in one sitting: 120 lines, tables and
// blank lines aside.
func TestIndex(t *testing.T) {
	atRoot(t)
	texts := pages(t)
	index := texts["docs/README.md"]
	for page, text := range texts {
		lines := 0
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "<!--") && line != "\n" {
				lines++
			}
		}
		name, isDoc := strings.CutPrefix(page, "docs/")
		if (isDoc || page == "README.md") && lines > 120 {
			t.Errorf("%s has %d lines besides tables, want 120 at most", page, lines)
		}
		if isDoc && name != "README.md" && !strings.Contains(index, "("+name) {
			t.Errorf("docs/README.md doesn't lead to %s", page)
		}
	}
}

// Whoever gets an alert finds by its name what to do.
func TestAlertsAreExplained(t *testing.T) {
	atRoot(t)
	operations := pages(t)["docs/operations.md"]
	files, err := filepath.Glob("terraform/monitoring/alerts/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d alerts, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := regexp.MustCompile(`"displayName": "\$\{prefix\}: ([^"]+)"`).FindStringSubmatch(string(text))
		if name == nil || !strings.Contains(operations, "*"+name[1]+"*") {
			t.Errorf("docs/operations.md doesn't say what to do at the alert of %s", file)
		}
	}
}

// What the README shows of the library compiles.
func TestReadmeInGo(t *testing.T) {
	atRoot(t)
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(pages(t)["README.md"])
	if shown == nil {
		t.Fatal("README.md shows no Go")
	}
	source := filepath.Join(t.TempDir(), "shown.go")
	save(t, source, []byte(`package shown

import (
	"context"
	"fmt"

	"github.com/firestore-counters/counters/shards"
)

func _() {
	ctx := context.Background()
`+shown[1]+`
	fmt.Println(snapshot, err)
}
`))
	if out, err := exec.CommandContext(t.Context(), "go", "build", source).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The test that testing.md shows passes.
func TestTestInGo(t *testing.T) {
	atRoot(t)
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(pages(t)["docs/testing.md"])
	if shown == nil {
		t.Fatal("docs/testing.md shows no Go")
	}
	program := filepath.Join(t.TempDir(), "likes_test.go")
	save(t, program, []byte(shown[1]))
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-v", program).CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLike") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The first run downloads as many modules as docs/installing.md says.
func TestModulesOfTheFirstRun(t *testing.T) {
	atRoot(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/counters").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]bool{}
	for path := range strings.FieldsSeq(string(out)) {
		modules[path] = true
	}
	if said := fmt.Sprintf("downloads %d modules", len(modules)); !strings.Contains(pages(t)["docs/installing.md"], said) {
		t.Errorf("docs/installing.md doesn't say that the first run %s", said)
	}
}

// Whoever follows an increment from file to file finds each, and in it the functions that are named with it.
func TestWayOfAnIncrement(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, way, _ := strings.Cut(string(text), "## The way of an increment")
	way, _, _ = strings.Cut(way, "\n## ")
	steps := 0
	for row := range strings.Lines(way) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 {
			continue
		}
		folder, functions := "", map[string]bool{} // of the last file that was named
		for _, m := range marked.FindAllStringSubmatch(cells[3], -1) {
			name := m[1]
			if !file.MatchString(name) {
				if !functions[name] {
					t.Errorf("step%s names %s, which is not a function of the file before it", cells[1], name)
				}
				continue
			}
			if !strings.Contains(name, "/") {
				name = path.Join(folder, name)
			}
			folder, functions = path.Dir(name), declared(t, name)
			steps++
		}
	}
	if steps < 20 {
		t.Errorf("%d files on the way of an increment", steps)
	}
}

var declaration = regexp.MustCompile(`(?m)^(?:func|(?:export )?(?:async )?function)(?: \([^)]*\))? (\w+)`)

// declared are the functions and methods of a file, or of all Go files whose names end so.
func declared(t *testing.T, name string) map[string]bool {
	t.Helper()
	functions := map[string]bool{}
	add := func(name string) error {
		text, err := os.ReadFile(filepath.FromSlash(name))
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			functions[m[1]] = true
		}
		return err
	}
	var err error
	if strings.HasPrefix(name, "_") {
		err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, name) {
				return err
			}
			return add(path)
		})
	} else {
		err = add(name)
	}
	if err != nil {
		t.Error(err)
	}
	return functions
}

// firstPages are those that a reader meets first.
var firstPages = []string{
	"README.md", "web/README.md", "docs/likes.md", "docs/installing.md", "docs/http.md", "docs/members.md", "docs/limits.md", "docs/hosted.md", "docs/sdk.md",
	"docs/deploying.md", "docs/cost.md", "docs/verify.md", "docs/counted.md", "docs/migrating.md", "docs/extension.md", "docs/clients.md", "docs/testing.md", "docs/local.md",
}

// Each page that a reader meets first ends with where to go next.
func TestFirstPagesSayWhatIsNext(t *testing.T) {
	atRoot(t)
	texts := pages(t)
	for _, page := range firstPages {
		at := strings.LastIndex(texts[page], "\n**Next**: ")
		if rest, _, _ := strings.Cut(texts[page][max(0, at):], "\n\n## Develop"); at < 0 || len(link.FindAllString(rest, -1)) < 2 || strings.Contains(strings.TrimSpace(rest), "\n\n") {
			t.Errorf("%s doesn't end with a line that begins with **Next**, and leads to two pages", page)
		}
	}
}

var badge = regexp.MustCompile(`/actions/workflows/([\w.-]+)/badge\.svg|img\.shields\.io/badge/license-([\w.-]+)-`)

// The first screen is for whoever has a minute: 900 words, and badges of what is there.
func TestFirstScreen(t *testing.T) {
	atRoot(t)
	readme := pages(t)["README.md"]
	if n := len(words(readme)); n > 900 {
		t.Errorf("README.md has %d words, want 900 at most", n)
	}
	license, err := os.ReadFile("LICENSE")
	badges := badge.FindAllStringSubmatch(readme, -1)
	if err != nil || len(badges) != 2 {
		t.Fatalf("%d badges, %v", len(badges), err)
	}
	for _, m := range badges {
		switch {
		case m[1] != "" && !exists(".github/workflows/"+m[1]):
			t.Errorf("README.md has a badge of the workflow %s, which is not there", m[1])
		case m[2] == "Apache--2.0" && !strings.Contains(string(license), "Apache License\n"):
			t.Errorf("README.md has a badge of the license %s, which is not ours", m[2])
		}
	}
}

// otherNames are what the program must not be called where it is used: it is counters, which
// docs/installing.md installs.
var otherNames = regexp.MustCompile(`go run \./cmd/counters|(?:scripts/)?(?:deploy|destroy|smoke)\.sh`)

// A reader meets one name of the program. What is for contributors says what is what in the tree, and
// where a page clones the repository, its program is there without an installation.
func TestOneNameOfTheProgram(t *testing.T) {
	atRoot(t)
	forContributors := map[string]bool{"CONTRIBUTING.md": true, "CHANGELOG.md": true, "docs/architecture.md": true, "docs/installing.md": true}
	for page, text := range pages(t) {
		if forContributors[page] {
			continue
		}
		clones := strings.Contains(text, "$ git clone https://github.com/firestore-counters/counters")
		for _, name := range otherNames.FindAllString(text, -1) {
			if !clones || !strings.HasPrefix(name, "go run") {
				t.Errorf("%s calls the program %s; say counters", page, name)
			}
		}
	}
}

// retired are phrases that must not come back, each with what is wrong with it.
var retired = []struct{ phrase, reason string }{
	{"meets walls", "an aphorism: say which problem somebody runs into"},
	{"may hit at once", "say: can increment at the same time"},
	{"was to spare", "inverted: say what sharding is for"},
	{"is none yet", "ends on its verb: there is no … yet"},
	{"of it is none", "no actor: say who has none"},
	{"is nobody's", "an aphorism: say that it counts for no counter"},
	{"to the one that", "inverted: begin with the actor"},
	{"another matter", "an aphorism: say what is different"},
	{"as ever", "say: as before"},
	{"unless set", "say: by default"},
	{"in whatever", "say: in any"},
	{"makes up for", "say what corrects it"},
	{"does better", "say what works again"},
	{"there is to", "no actor: say who does it"},
	{"hears of", "say: is told"},
	{"mended", "say: repaired, corrected or fixed"},
	{"all the same", "say: anyway, or leave it out"},
	{"besides", "say: apart from, or also"},
	{"for want of", "say: because there is no …"},
	{"has to be so", "say what has to be how"},
	{"an answer of before", "say: an earlier answer"},
	{"of ours", "say: our"},
	{"of theirs", "say: their"},
	{"to be had", "say: available"},
	{"what it is the sum of", "ends on a preposition: say: its parts"},
	{"with words on", "say: and it says"},
	{"everybody's", "say whom it is shared by: all … share one"},
	{"nobody foresaw", "an aphorism: say what comes unexpectedly"},
	{"be believed", "say: how sure this is"},
	{"is AUTH's business", "say: AUTH says what"},
	{"fight over", "say: compete for"},
	{"whose word", "say who says it"},
	{"in the same words", "say what the other says"},
	{"keys of one's own", "say: your own keys"},
	{"who would rather", "no actor: say what it is for"},
	{"does for all", "ends without its verb: say what it does"},
}

// The Firebase CLI releases rules into (default), over that one's, unless firebase.json names the database.
func TestPagesNameTheDatabaseOfRules(t *testing.T) {
	atRoot(t)
	for page, text := range pages(t) {
		if strings.HasPrefix(page, "docs/") && strings.Contains(text, "firebase deploy --only firestore:rules") && !strings.Contains(text, `"database": "`) {
			t.Errorf("%s releases rules, and doesn't say how firebase.json names the database", page)
		}
	}
}

// A page is read once: paragraphs of six lines at most, cells of 40 words at most, and no phrase
// that has been retired.
func TestVoice(t *testing.T) {
	atRoot(t)
	for page, text := range pages(t) {
		for _, what := range unvoiced(text) {
			t.Errorf("%s has %s", page, what)
		}
	}
}

var (
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	comment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	target   = regexp.MustCompile(`\]\([^)\s]*\)`)
	newBlock = regexp.MustCompile(`^ *(?:[-*] |\d+\. |\||#|>|\[!\[|!\[|<|$)`)
	word     = regexp.MustCompile(`[\pL\d]`)
)

// words are those that a reader sees, in code, tables and prose.
func words(text string) (found []string) {
	for _, field := range strings.Fields(comment.ReplaceAllString(text, "")) {
		if word.MatchString(field) {
			found = append(found, field)
		}
	}
	return found
}

// unvoiced says where a page doesn't hold to what [TestVoice] asks for.
func unvoiced(text string) (found []string) {
	const column, most, cellWords = 120, 6, 40
	prose := target.ReplaceAllString(comment.ReplaceAllString(fenced.ReplaceAllString(text, ""), ""), "]")
	lower := strings.ToLower(strings.Join(strings.Fields(prose), " "))
	for _, r := range retired {
		if at := regexp.MustCompile(`\b` + r.phrase + `\b`).FindStringIndex(lower); at != nil {
			found = append(found, fmt.Sprintf("%q, which was retired (%s): … %s", r.phrase, r.reason, lower[max(0, at[0]-40):min(len(lower), at[1]+40)]))
		}
	}
	paragraph := ""
	for line := range strings.Lines(prose + "\n\n") {
		line = strings.TrimRight(line, "\n")
		if !newBlock.MatchString(line) {
			paragraph += " " + strings.TrimSpace(line)
			continue
		}
		if n := (len([]rune(paragraph)) + column - 1) / column; n > most {
			found = append(found, fmt.Sprintf("a paragraph of %d lines, want %d at most: %.80s", n, most, paragraph))
		}
		paragraph = strings.TrimSpace(line)
		if !strings.HasPrefix(paragraph, "|") {
			continue
		}
		for _, cell := range strings.Split(strings.ReplaceAll(paragraph, `\|`, ""), "|") {
			if n := len(words(cell)); n > cellWords {
				found = append(found, fmt.Sprintf("a cell of %d words, want %d at most: %.80s", n, cellWords, cell))
			}
		}
		paragraph = ""
	}
	return found
}
