//go:build all

package terraform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// vars are variables of the module.
type vars map[string]any

// A plan is a folder that terraform plans in.
type plan struct {
	dir string
}

// planned is what terraform plans for one deployment.
type planned struct {
	t         *testing.T
	resources []resource // those that it makes, and what it reads
	outputs   map[string]any
	failed    map[string][]string // checks and conditions that don't hold, by the address of what has them, and what they say
}

// A resource is one that is made, or read, with its arguments as terraform's JSON has them.
type resource struct {
	Address, Mode, Type, Name string
	Values                    map[string]any
}

// text is an argument as a text, found by a path such as "service_config.timeout_seconds"; "" where there is none.
func (r resource) text(path string) string { return text(r.Values, path) }

func text(values map[string]any, path string) string {
	var at any = values
	for name := range strings.SplitSeq(path, ".") {
		if blocks, is := at.([]any); is && len(blocks) > 0 {
			at = blocks[0]
		}
		of, _ := at.(map[string]any)
		at = of[name]
	}
	if at == nil {
		return ""
	}
	return fmt.Sprint(at)
}

// objects are those in a list, or the blocks of a name.
func objects(list any) (all []map[string]any) {
	items, _ := list.([]any)
	for _, item := range items {
		all = append(all, item.(map[string]any))
	}
	return all
}

// terraform runs one of terraform's commands in the folder of a plan.
func (p *plan) terraform(t *testing.T, environ []string, args ...string) (out string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "terraform", args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), append(environ, "TF_REATTACH_PROVIDERS="+providers(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1",
		"GOGC=off", "GOMEMLIMIT=1GiB")...) // a terraform lives for seconds, and would take half of them to collect garbage
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String() + stderr.String(), false
	}
	return stdout.String(), true
}

// configure writes a configuration of a deployment, or of outputs alone.
func configure(t *testing.T, deployment vars, outputs map[string]string) *plan {
	t.Helper()
	p := &plan{dir: t.TempDir()}
	release(t, filepath.Join(p.dir, "release"))
	p.write(t, deployment, outputs)
	if out, ok := p.terraform(t, nil, "get"); !ok {
		t.Fatal(out)
	}
	return p
}

// write writes it, in the place of what was written before.
func (p *plan) write(t *testing.T, deployment vars, outputs map[string]string) {
	t.Helper()
	root := map[string]map[string]any{"output": {}}
	if outputs == nil {
		module := vars{"source": "./release", "project_id": "a-project", "location": "us-central1"}
		maps.Copy(module, deployment)
		root["module"] = map[string]any{"counters": module}
		root["output"]["counters"] = map[string]any{"value": "${module.counters}"}
	}
	for name, value := range outputs {
		root["output"][name] = map[string]any{"value": value}
	}
	config, err := json.Marshal(root)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, "main.tf.json"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// release copies the module, as a release has it: to list the files of a checkout takes most of a plan's time. It skips
// the test where terraform isn't installed.
func release(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("terraform"); err != nil {
		t.Skip("terraform is not on the PATH: what the module plans is not looked at")
	}
	err := os.CopyFS(dir, os.DirFS("."))
	for from, to := range map[string]string{"release/archive.tf": "archive.tf", "../firestore/firestore.rules": "firestore/firestore.rules", "../.gcloudignore": "functions.zip"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, filepath.Dir(to)), 0o700), os.WriteFile(filepath.Join(dir, to), []byte(mustRead(t, from)), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// planOf has terraform plan these deployments, by their names, each by itself: what terraform takes grows faster than
// what it plans. What a condition refuses is in what failed, and is not planned.
func planOf(t *testing.T, deployments map[string]vars) map[string]*planned {
	t.Helper()
	all := map[string]*planned{}
	for name, v := range deployments {
		all[name] = planOne(t, v)
	}
	return all
}

// planOne has terraform plan one deployment.
func planOne(t *testing.T, v vars) *planned {
	t.Helper()
	return configure(t, v, nil).planned(t)
}

// planKnown is planOne where all is known: APIs are on, by which the project's number is read.
func planKnown(t *testing.T, v vars) *planned {
	t.Helper()
	p := configure(t, v, nil)
	if out, ok := p.terraform(t, nil, "apply", "-auto-approve", "-input=false", "-no-color", "-target=module.counters.time_sleep.until_apis_are_active"); !ok {
		t.Fatal(out)
	}
	return p.planned(t)
}

// planned has terraform plan, and reads what that says.
func (p *plan) planned(t *testing.T) *planned {
	t.Helper()
	said, _ := p.terraform(t, nil, "plan", "-input=false", "-no-color", "-out=plan")
	shown, ok := p.terraform(t, nil, "show", "-json", "plan")
	if !ok {
		t.Fatalf("%s\n%s", said, shown)
	}
	type state struct {
		RootModule struct {
			ChildModules []struct{ Resources []resource } `json:"child_modules"`
		} `json:"root_module"`
	}
	var of struct {
		Errored bool
		Planned struct {
			state
			Outputs map[string]struct{ Value any }
		} `json:"planned_values"`
		Prior  struct{ Values state } `json:"prior_state"` // with what is read
		Checks []struct {
			Address   struct{ Name, Type string }
			Instances []struct{ Problems []struct{ Message string } }
		}
	}
	decoder := json.NewDecoder(strings.NewReader(shown))
	decoder.UseNumber() // as they are written
	if err := decoder.Decode(&of); err != nil {
		t.Fatalf("%v in %s", err, shown)
	}
	d := &planned{t: t, outputs: map[string]any{}, failed: map[string][]string{}}
	for _, s := range []state{of.Planned.state, of.Prior.Values} {
		for _, m := range s.RootModule.ChildModules {
			d.resources = append(d.resources, m.Resources...)
		}
	}
	for _, c := range of.Checks {
		address := strings.TrimPrefix(c.Address.Type+"."+c.Address.Name, ".")
		for _, instance := range c.Instances {
			for _, problem := range instance.Problems {
				d.failed[address] = append(d.failed[address], problem.Message)
			}
		}
	}
	for name, output := range of.Planned.Outputs {
		d.outputs[name] = output.Value
	}
	if module, ok := d.outputs["counters"].(map[string]any); ok {
		d.outputs = module
	}
	if of.Errored && len(d.failed) == 0 {
		t.Fatal(said)
	}
	return d
}

// The module's own tests, which check.sh runs with the real providers.
func TestItsOwnTests(t *testing.T) {
	t.Parallel()
	p := &plan{dir: t.TempDir()}
	release(t, p.dir)
	if out, ok := p.terraform(t, nil, "test", "-no-color"); !ok {
		t.Error(out)
	}
}

// of are the resources of a type.
func (p *planned) of(kind string) (all []resource) {
	for _, r := range p.resources {
		if r.Type == kind {
			all = append(all, r)
		}
	}
	return all
}

// one is the resource of this type and name, which there must be one of.
func (p *planned) one(kind, name string) resource {
	p.t.Helper()
	all := slices.DeleteFunc(p.of(kind), func(r resource) bool { return r.Name != name })
	if len(all) != 1 {
		p.t.Fatalf("%d × %s.%s", len(all), kind, name)
	}
	return all[0]
}

// environment are the settings of a function.
func (r resource) environment() map[string]any {
	return objects(r.Values["service_config"])[0]["environment_variables"].(map[string]any)
}
