package terraform

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// A module is terraform's configuration in a folder, evaluated as far as it can be without
// providers: variables at their defaults or as given, locals, and the arguments of every resource.
type module struct {
	t         *testing.T
	dir       string
	variables map[string]*hclsyntax.Block
	outputs   map[string]*hclsyntax.Block
	resources []*hclsyntax.Block // resource and data
	terraform *hclsyntax.Block   // the version and the providers it takes
	locals    map[string]hclsyntax.Expression
	ctx       *hcl.EvalContext
}

// An instance is one resource that the module makes.
type instance struct {
	kind, name, key string
	args            map[string]cty.Value // blocks are lists of objects
}

// load parses a folder's .tf files and evaluates its locals with these variables.
func load(t *testing.T, dir string, vars map[string]cty.Value) *module {
	t.Helper()
	m := parse(t, dir)
	m.set(vars)
	m.evaluate()
	return m
}

func parse(t *testing.T, dir string) *module {
	t.Helper()
	m := &module{
		t: t, dir: dir,
		variables: map[string]*hclsyntax.Block{}, outputs: map[string]*hclsyntax.Block{},
		locals: map[string]hclsyntax.Expression{},
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no .tf files in %s: %v", dir, err)
	}
	parser := hclparse.NewParser()
	for _, path := range files {
		f, diags := parser.ParseHCLFile(path)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		for _, b := range f.Body.(*hclsyntax.Body).Blocks {
			switch b.Type {
			case "variable":
				m.variables[b.Labels[0]] = b
			case "output":
				m.outputs[b.Labels[0]] = b
			case "resource", "data":
				m.resources = append(m.resources, b)
			case "terraform":
				m.terraform = b
			case "locals":
				for name, attr := range b.Body.Attributes {
					m.locals[name] = attr.Expr
				}
			}
		}
	}
	return m
}

// set gives the variables their values: these, or their defaults.
func (m *module) set(vars map[string]cty.Value) {
	m.t.Helper()
	m.ctx = &hcl.EvalContext{Functions: hclFunctions(m.dir), Variables: map[string]cty.Value{
		"path": cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal("."), "root": cty.StringVal(".")}),
	}}
	values := map[string]cty.Value{}
	for name, b := range m.variables {
		if def, ok := b.Body.Attributes["default"]; ok {
			values[name] = m.value(def.Expr)
		}
	}
	maps.Copy(values, vars)
	m.ctx.Variables["var"] = cty.ObjectVal(values)
}

// evaluate sets the rest of the context up: what terraform knows before it makes anything, and
// made-up values for what it doesn't.
func (m *module) evaluate() {
	m.t.Helper()
	m.ctx.Variables["data"] = object("google_project", object("project", object("number", cty.StringVal("123456789"))),
		"archive_file", object("source", object("output_sha256", cty.StringVal("5ba256"), "output_path", cty.StringVal("source.zip"))))
	identity := cty.StringVal("service-123456789@gcp-sa-eventarc.iam.gserviceaccount.com")
	m.ctx.Variables["google_project_service_identity"] = object("eventarc", object("email", identity))
	m.ctx.Variables["google_storage_bucket_object"] = object("source", object("bucket", cty.StringVal("b"), "name", cty.StringVal("o")))
	m.ctx.Variables["google_storage_bucket"] = object("source", object("name", cty.StringVal("b")))
	m.ctx.Variables["google_firebaserules_ruleset"] = object("rules", cty.TupleVal([]cty.Value{object("name", cty.StringVal("r"))}))

	m.resolveLocals()
	if m.locals["accounts"] == nil {
		return
	}
	values := m.ctx.Variables["var"].AsValueMap()
	project, prefix := values["project_id"].AsString(), values["prefix"].AsString()
	accounts := map[string]cty.Value{}
	for name := range m.local("accounts").AsValueMap() {
		email := fmt.Sprintf("%s-%s@%s.iam.gserviceaccount.com", prefix, name, project)
		accounts[name] = object("email", cty.StringVal(email), "unique_id", cty.StringVal("1"), "id", cty.StringVal("projects/"+project+"/serviceAccounts/"+email))
	}
	m.ctx.Variables["google_service_account"] = object("account", cty.ObjectVal(accounts))
	fn := func(local string) cty.Value {
		name := m.local(local)
		uri := cty.StringVal("https://" + name.AsString() + ".a.run.app")
		trigger := cty.StringVal("projects/" + project + "/locations/nam5/triggers/" + name.AsString() + "-123456")
		return object("name", name, "id", name, "service_config", cty.TupleVal([]cty.Value{object("uri", uri)}),
			"event_trigger", cty.TupleVal([]cty.Value{object("trigger", trigger)}))
	}
	watches := map[string]cty.Value{}
	for collection := range m.local("watched").AsValueMap() {
		subscription := object("subscription", cty.StringVal("projects/"+project+"/subscriptions/of-"+collection))
		watches[collection] = object("uid", cty.StringVal(collection), "transport", cty.TupleVal([]cty.Value{object("pubsub", cty.TupleVal([]cty.Value{subscription}))}))
	}
	m.ctx.Variables["google_eventarc_trigger"] = object("watch", cty.ObjectVal(watches))
	m.ctx.Variables["google_cloudfunctions2_function"] = object("rollup", fn("rollup"),
		"http", object("increment", fn("increment"), "reconcile", fn("reconcile")))
}

// resolveLocals evaluates locals in whatever order their references allow.
func (m *module) resolveLocals() {
	done := map[string]cty.Value{}
	for len(done) < len(m.locals) {
		before := len(done)
		for name, expr := range m.locals {
			ready := !slices.ContainsFunc(expr.Variables(), func(ref hcl.Traversal) bool {
				if ref.RootName() != "local" {
					return false
				}
				_, ok := done[ref[1].(hcl.TraverseAttr).Name]
				return !ok
			})
			if _, ok := done[name]; !ok && ready {
				done[name] = m.value(expr)
				m.ctx.Variables["local"] = cty.ObjectVal(done)
			}
		}
		if len(done) == before {
			m.t.Fatal("locals refer to each other in a cycle, or to one that isn't there")
		}
	}
}

func (m *module) local(name string) cty.Value { return m.ctx.Variables["local"].GetAttr(name) }

func (m *module) value(expr hcl.Expression) cty.Value {
	m.t.Helper()
	v, diags := expr.Value(m.ctx)
	if diags.HasErrors() {
		m.t.Fatal(diags)
	}
	return v
}

// instances are the resources of a type, by count and for_each.
func (m *module) instances(kind string) []instance {
	m.t.Helper()
	var all []instance
	for _, b := range m.resources {
		if b.Type != "resource" || b.Labels[0] != kind {
			continue
		}
		if attr, ok := b.Body.Attributes["for_each"]; ok {
			for it := m.value(attr.Expr).ElementIterator(); it.Next(); {
				k, v := it.Element()
				each := object("key", k, "value", v)
				all = append(all, instance{kind, b.Labels[1], k.AsString(), m.args(b.Body, map[string]cty.Value{"each": each})})
			}
			continue
		}
		if attr, ok := b.Body.Attributes["count"]; ok && m.value(attr.Expr).Equals(cty.NumberIntVal(0)).True() {
			continue
		}
		all = append(all, instance{kind, b.Labels[1], "", m.args(b.Body, nil)})
	}
	return all
}

// one is the resource of this type and name, which there must be one of.
func (m *module) one(kind, name string) map[string]cty.Value {
	m.t.Helper()
	for _, i := range m.instances(kind) {
		if i.name == name {
			return i.args
		}
	}
	m.t.Fatalf("no %s.%s", kind, name)
	return nil
}

func (m *module) args(body *hclsyntax.Body, with map[string]cty.Value) map[string]cty.Value {
	m.t.Helper()
	outer := m.ctx
	defer func() { m.ctx = outer }()
	m.ctx = outer.NewChild()
	m.ctx.Variables = with

	args := map[string]cty.Value{}
	for name, attr := range body.Attributes {
		if slices.Contains([]string{"for_each", "count", "depends_on", "provider"}, name) {
			continue
		}
		args[name] = m.value(attr.Expr)
	}
	blocks := map[string][]cty.Value{}
	for _, b := range body.Blocks {
		switch b.Type {
		case "lifecycle":
		case "provisioner":
			if b.Body.Attributes["when"] == nil { // or it runs at the end, and refers to what was there
				blocks[b.Type] = append(blocks[b.Type], cty.ObjectVal(m.args(b.Body, nil)))
			}
		case "dynamic":
			for it := m.value(b.Body.Attributes["for_each"].Expr).ElementIterator(); it.Next(); {
				k, v := it.Element()
				content := m.args(b.Body.Blocks[0].Body, map[string]cty.Value{b.Labels[0]: object("key", k, "value", v)})
				blocks[b.Labels[0]] = append(blocks[b.Labels[0]], cty.ObjectVal(content))
			}
		default:
			blocks[b.Type] = append(blocks[b.Type], cty.ObjectVal(m.args(b.Body, nil)))
		}
	}
	for name, list := range blocks {
		args[name] = cty.TupleVal(list)
	}
	return args
}

// text is an argument as a string, found by a path such as "service_config.timeout_seconds"; ""
// where there is none.
func text(args map[string]cty.Value, path string) string {
	name, rest, nested := strings.Cut(path, ".")
	v, ok := args[name]
	if !ok || v.IsNull() {
		return ""
	}
	if nested {
		return text(v.Index(cty.NumberIntVal(0)).AsValueMap(), rest)
	}
	switch v.Type() {
	case cty.Number:
		return v.AsBigFloat().Text('f', -1)
	case cty.Bool:
		return fmt.Sprint(v.True())
	}
	return v.AsString()
}

func object(pairs ...any) cty.Value {
	m := map[string]cty.Value{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1].(cty.Value)
	}
	return cty.ObjectVal(m)
}

// hclFunctions are those of terraform's that the module uses. Most are cty's own; the others are
// written here after terraform's documentation.
func hclFunctions(dir string) map[string]function.Function {
	str := func(f func(args ...string) (cty.Value, error), params ...string) function.Function {
		spec := &function.Spec{Type: func([]cty.Value) (cty.Type, error) { return cty.DynamicPseudoType, nil }}
		for _, p := range params {
			spec.Params = append(spec.Params, function.Parameter{Name: p, Type: cty.String})
		}
		spec.Impl = func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			list := make([]string, len(args))
			for i, a := range args {
				list[i] = a.AsString()
			}
			return f(list...)
		}
		return function.New(spec)
	}
	read := func(path string) (string, error) {
		content, err := os.ReadFile(filepath.Join(dir, path))
		return string(content), err
	}
	placeholder := regexp.MustCompile(`\$\{(\w+)\}`)
	return map[string]function.Function{
		"try": tryfunc.TryFunc, "can": tryfunc.CanFunc,
		"ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc, "lower": stdlib.LowerFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
		"format": stdlib.FormatFunc, "join": stdlib.JoinFunc, "jsondecode": stdlib.JSONDecodeFunc, "keys": stdlib.KeysFunc,
		"flatten": stdlib.FlattenFunc, "merge": stdlib.MergeFunc, "regex": stdlib.RegexFunc,
		"regexall": stdlib.RegexAllFunc, "reverse": stdlib.ReverseListFunc,
		"setunion": stdlib.SetUnionFunc, "sort": stdlib.SortFunc, "split": stdlib.SplitFunc, "substr": stdlib.SubstrFunc,
		"trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc, "trimsuffix": stdlib.TrimSuffixFunc,
		"trimspace": stdlib.TrimSpaceFunc, "values": stdlib.ValuesFunc,
		"tonumber": stdlib.MakeToFunc(cty.Number), "tostring": stdlib.MakeToFunc(cty.String),
		"toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), "distinct": stdlib.DistinctFunc, "compact": stdlib.CompactFunc,
		"length": function.New(&function.Spec{ // of strings too
			Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType}},
			Type:   function.StaticReturnType(cty.Number),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				if args[0].Type() == cty.String {
					return stdlib.Strlen(args[0])
				}
				return cty.NumberIntVal(int64(args[0].LengthInt())), nil
			},
		}),
		"one": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
			Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Index(cty.NumberIntVal(0)).Type(), nil },
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				if n := args[0].LengthInt(); n != 1 {
					return cty.NilVal, fmt.Errorf("one of %d", n)
				}
				return args[0].Index(cty.NumberIntVal(0)), nil
			},
		}),
		"alltrue": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
			Type:   function.StaticReturnType(cty.Bool),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				for it := args[0].ElementIterator(); it.Next(); {
					if _, v := it.Element(); v.False() {
						return cty.False, nil
					}
				}
				return cty.True, nil
			},
		}),
		"anytrue": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
			Type:   function.StaticReturnType(cty.Bool),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				for it := args[0].ElementIterator(); it.Next(); {
					if _, v := it.Element(); v.True() {
						return cty.True, nil
					}
				}
				return cty.False, nil
			},
		}),
		"startswith": str(func(a ...string) (cty.Value, error) { return cty.BoolVal(strings.HasPrefix(a[0], a[1])), nil }, "s", "prefix"),
		"replace": str(func(a ...string) (cty.Value, error) { // with slashes around it: a regular expression
			if pattern := strings.TrimPrefix(strings.TrimSuffix(a[1], "/"), "/"); len(pattern) == len(a[1])-2 {
				return stdlib.RegexReplace(cty.StringVal(a[0]), cty.StringVal(pattern), cty.StringVal(a[2]))
			}
			return cty.StringVal(strings.ReplaceAll(a[0], a[1], a[2])), nil
		}, "s", "of", "by"),
		"sha256": str(func(a ...string) (cty.Value, error) {
			return cty.StringVal(fmt.Sprintf("%x", sha256.Sum256([]byte(a[0])))), nil
		}, "s"),
		"basename": str(func(a ...string) (cty.Value, error) { return cty.StringVal(filepath.Base(a[0])), nil }, "path"),
		"file": str(func(a ...string) (cty.Value, error) {
			content, err := read(a[0])
			return cty.StringVal(content), err
		}, "path"),
		"fileset": str(func(a ...string) (cty.Value, error) {
			return fileset(filepath.Join(dir, a[0]), a[1])
		}, "path", "pattern"),
		"templatefile": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "vars", Type: cty.DynamicPseudoType}},
			Type:   function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				content, err := read(args[0].AsString())
				vars := args[1].AsValueMap()
				return cty.StringVal(placeholder.ReplaceAllStringFunc(content, func(p string) string {
					return text(vars, placeholder.FindStringSubmatch(p)[1])
				})), err
			},
		}),
	}
}

// fileset lists the files of one folder, or with ** those below it too.
func fileset(root, pattern string) (cty.Value, error) {
	files := cty.SetValEmpty(cty.String)
	var list []cty.Value
	top, deep := strings.CutSuffix(pattern, "**")
	if !deep {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		for _, path := range matches {
			if info, err := os.Stat(path); err != nil || info.IsDir() {
				continue
			}
			rel, _ := filepath.Rel(root, path)
			list = append(list, cty.StringVal(rel))
		}
		if len(list) > 0 {
			files = cty.SetVal(list)
		}
		return files, err
	}
	if info, err := os.Stat(filepath.Join(root, top)); err != nil || !info.IsDir() {
		return files, nil //nolint:nilerr // nothing there is an answer
	}
	err := filepath.WalkDir(filepath.Join(root, top), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(root, path)
			list = append(list, cty.StringVal(filepath.ToSlash(rel)))
		}
		return err
	})
	if len(list) > 0 {
		files = cty.SetVal(list)
	}
	return files, err
}

// same reports what only one of two lists holds.
func same(t *testing.T, what string, gcloud, terraform []string) {
	t.Helper()
	slices.Sort(gcloud)
	slices.Sort(terraform)
	if len(terraform) == 0 {
		t.Errorf("%s: terraform makes none", what)
	}
	for _, s := range gcloud {
		if !slices.Contains(terraform, s) {
			t.Errorf("%s: only gcloud has %s", what, s)
		}
	}
	for _, s := range terraform {
		if !slices.Contains(gcloud, s) {
			t.Errorf("%s: only terraform has %s", what, s)
		}
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	out, err := json.Marshal(decode(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}
