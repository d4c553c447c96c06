package deployment

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Object is something as an API answers it.
type Object map[string]any

// At is a value in it by its path, such as "serviceConfig.uri"; nil where there is none.
func (o Object) At(path string) any {
	var at any = map[string]any(o)
	for step := range strings.SplitSeq(path, ".") {
		if list, ok := at.([]any); ok && step == "0" && len(list) > 0 {
			at = list[0]
			continue
		}
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[step]
	}
	return at
}

// Text is a value in it as a text; empty where there is none.
func (o Object) Text(path string) string {
	if value := o.At(path); value != nil {
		return fmt.Sprint(value)
	}
	return ""
}

// Objects are those in a list.
func Objects(list any) (all []Object) {
	items, _ := list.([]any)
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			all = append(all, object)
		}
	}
	return all
}

// Place is where something is read: at an address, or in a list that is there. With Next, what is there names the place
// to read, in the path From.
type Place struct {
	Address string // such as "iam/v1/projects/p/serviceAccounts/a"; %s is what the place before names
	Grant   *Grant // that is there, where it is in a policy; else nil
	List    string // key of the items
	Is      func(Object) bool
	From    string
	Next    *Place
}

// read reads it; nil is that nothing is there.
func (p *Place) read(ctx context.Context, c *Cloud) (Object, error) {
	address := p.Address
	for {
		object, err := c.Get(ctx, address)
		if err != nil || object == nil {
			return nil, err
		}
		if p.List != "" {
			items := Objects(object[p.List])
			i := slices.IndexFunc(items, p.Is)
			if i < 0 {
				return nil, nil
			}
			object = items[i]
		}
		if p.Next == nil {
			return object, nil
		}
		named := object.Text(p.From)
		if named == "" {
			return nil, nil
		}
		p = p.Next
		address = strings.Replace(p.Address, "%s", named, 1)
	}
}

// Resource is a part of a deployment.
type Resource struct {
	Name  string   // as others need it, and as it is called in what is said
	Needs []string // what is made before
	Place Place    // where it is read

	Want    Object                      // what of it is to be so; the rest is not ours
	Differs func(there Object) []string // instead: how it differs, in words; "there" is not nil
	Absent  bool                        // it is not to be there

	Make   []Command // where it isn't there; none: it is made with something else, or not by us
	Change []Command // where it differs; none: it stays as it is
	Remove []Command // by which it goes

	// Ours is whether what is there is ours to remove; nil: it is.
	Ours func(there Object) bool
	// Shared is what it is to others: it is not called after the deployment. The plan says that it is changed, and a
	// removal leaves it there.
	Shared string
	// Alone is what only one command at a time may change, such as a policy.
	Alone string
	// Soft is what is said where it is refused, and all else is there.
	Soft string
	// Else is done where it is refused.
	Else []Command
	// Slow is for how long it takes, where somebody may wonder.
	Slow string
}

// Differences are how something differs from what is wanted, a line each; none where it is as it should be. Where it
// isn't there it is called missing.
func (r *Resource) Differences(there Object) (missing bool, lines []string) {
	switch {
	case there == nil:
		return !r.Absent && len(r.Make) > 0, nil
	case r.Absent:
		return false, []string{"is taken away"}
	case r.Differs != nil:
		return false, r.Differs(there)
	case r.Want == nil: // only that it is there
		return false, nil
	}
	return false, differences(r.Want, there)
}

// Commands are those that bring it to what is wanted.
func (r *Resource) Commands(there Object) []Command {
	missing, lines := r.Differences(there)
	switch {
	case missing:
		return r.Make
	case len(lines) == 0:
		return nil
	case r.Absent:
		return r.Remove
	}
	return r.Change
}

// differences compares what is wanted of an object with what there is, as "serviceConfig.maxInstanceCount 50 → 10".
// What is not wanted is not compared; an API leaves out what is zero.
func differences(want, got Object) (lines []string) {
	type pair struct {
		path      string
		want, got any
	}
	pairs := []pair{{"", normal(want), normal(got)}}
	for len(pairs) > 0 {
		p := pairs[0]
		pairs = pairs[1:]
		switch want := p.want.(type) {
		case map[string]any:
			got, _ := p.got.(map[string]any)
			for _, key := range slices.Sorted(maps.Keys(want)) {
				pairs = append(pairs, pair{strings.TrimPrefix(p.path+"."+key, "."), want[key], got[key]})
			}
		case []any:
			got, _ := p.got.([]any)
			same := len(want) == len(got) && !slices.ContainsFunc(want, func(w any) bool {
				return !slices.ContainsFunc(got, func(g any) bool { return len(differences(Object{"": w}, Object{"": g})) == 0 })
			})
			if !same {
				lines = append(lines, fmt.Sprintf("%s %s → %s", p.path, short(p.got), short(p.want)))
			}
		default:
			if zero(p.want) && zero(p.got) || fmt.Sprint(p.want) == fmt.Sprint(p.got) {
				continue
			}
			lines = append(lines, fmt.Sprintf("%s %s → %s", p.path, short(p.got), short(p.want)))
		}
	}
	return lines
}

// normal is a value as JSON has it.
func normal(value any) (out any) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("no JSON: %v", err)) // Not possible: it is ours, or was JSON.
	}
	return out
}

func zero(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return value == "" || value == false || value == 0.0
}

// short is a value in a line.
func short(value any) string {
	if zero(value) {
		return "none"
	}
	text := fmt.Sprint(value)
	if _, ok := value.(string); !ok {
		if out, err := json.Marshal(value); err == nil {
			text = string(out)
		}
	}
	if len(text) > 80 {
		text = text[:77] + "…"
	}
	return cmp.Or(text, "none")
}
