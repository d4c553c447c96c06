package deployment

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/firestore-counters/counters/firestore"
)

// rulesOf are the security rules for a deployment's path, and what their file is called. The file is written for the
// default path and shards, as terraform's rules.tf has it.
func rulesOf(w *Wanted) (text, name string) {
	s := w.Settings
	path := strings.ReplaceAll(strings.ReplaceAll(s.Counters, "{", "$("), "}", ")")
	text = strings.NewReplacer("match /counters/{counter}", "match /"+s.Counters, "documents/counters/$(counter)", "documents/"+path,
		"match /shards/{", "match /"+s.Shards+"/{", "/shards/$(", "/"+s.Shards+"/$(").Replace(firestore.Rules)
	return text, fmt.Sprintf("counters-%.16x.rules", sha256.Sum256([]byte(text)))[:len("counters-")+16] + ".rules"
}

// rulesResource are rules for web pages, where the database has none. Those of an app are never replaced.
func rulesResource(w *Wanted, look func(string) Object) Resource {
	text, name := rulesOf(w)
	release := "cloud.firestore"
	if w.Settings.Database != "(default)" {
		release += "/" + w.Settings.Database
	}
	in := "projects/" + w.Project
	ruleset := Object{"source": Object{"files": []Object{{"name": name, "content": text}}}}
	of := func(set string) Object { return Object{"name": in + "/releases/" + release, "rulesetName": set} }
	replace := func(change bool) Command {
		return Command{Shell: releaseByShell(w.Project, ruleset, in+"/releases/"+release, change), Call: func(ctx context.Context, c *Cloud) error {
			made, err := c.Call(ctx, "POST", "firebaserules/v1/"+in+"/rulesets", ruleset)
			if err != nil {
				return err
			}
			if change {
				_, err = c.Call(ctx, "PATCH", "firebaserules/v1/"+in+"/releases/"+release, Object{"release": of(made.Text("name"))})
			} else {
				_, err = c.Call(ctx, "POST", "firebaserules/v1/"+in+"/releases", of(made.Text("name")))
			}
			return err
		}}
	}
	return Resource{
		Name: "security rules", Needs: []string{"APIs", "database"},
		Place: Place{Address: "firebaserules/v1/" + in + "/releases/" + release, From: "rulesetName", Next: &Place{Address: "firebaserules/v1/%s"}},
		Differs: func(there Object) []string {
			if file := there.Text("source.files.0.name"); !OursByName(file) || file == name {
				return nil
			}
			return []string{"the rules that an earlier deployment released become " + name}
		},
		Make: []Command{replace(false)}, Change: []Command{replace(true)},
		Remove: []Command{{
			Shell: curl(w.Project, "DELETE", "firebaserules/v1/"+in+"/releases/"+release, nil) + " && " + curl(w.Project, "DELETE", "firebaserules/v1/"+look("security rules").Text("name"), nil),
			Call: func(ctx context.Context, c *Cloud) error {
				if _, err := c.Call(ctx, "DELETE", "firebaserules/v1/"+in+"/releases/"+release, nil); err != nil {
					return err
				}
				_, err := c.Call(ctx, "DELETE", "firebaserules/v1/"+look("security rules").Text("name"), nil)
				return err
			},
		}},
		Ours:   func(there Object) bool { return OursByName(there.Text("source.files.0.name")) },
		Shared: "the security rules that deploy released; without them clients read nothing",
	}
}

// OursByName reports whether rules are those that a deployment released, which are known by the name of their file.
func OursByName(file string) bool {
	return strings.HasPrefix(file, "counters-") && strings.HasSuffix(file, ".rules")
}

// curl is a line of a shell that calls an API.
func curl(project, method, address string, body any) string {
	api, path, _ := strings.Cut(address, "/")
	line := "curl -sSf -X " + method + ` -H "Authorization: Bearer $(gcloud auth print-access-token)" ` + Line("-H", "X-Goog-User-Project: "+project, "-H", "Content-Type: application/json")
	switch body := body.(type) {
	case nil:
	case string: // a word of a shell
		line += " -d " + body
	default:
		text, err := json.Marshal(body)
		if err != nil {
			panic(err) // Not possible: it is made of texts.
		}
		line += " -d " + Line(string(text))
	}
	return line + " " + Line(addressOf(api)+path)
}

// releaseByShell makes a ruleset and releases it.
func releaseByShell(project string, ruleset Object, release string, change bool) string {
	named := `{\"name\": \"` + release + `\", \"rulesetName\": \"$ruleset\"}`
	method, address := "POST", "firebaserules/v1/projects/"+project+"/releases"
	if change {
		method, address, named = "PATCH", "firebaserules/v1/"+release, `{\"release\": `+named+`}`
	}
	return "ruleset=$(" + curl(project, "POST", "firebaserules/v1/projects/"+project+"/rulesets", ruleset) + ` | tr ',{}' '\n' | sed -n 's|.*"name": *"\(projects/[^"]*\)".*|\1|p') && ` +
		curl(project, method, address, `"`+named+`"`)
}
