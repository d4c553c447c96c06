package settings

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
)

// Deployment is what settings come to for those who deploy the functions: what these are told, and
// what has to be made beside them.
type Deployment struct {
	Environment      []string `json:"environment"`       // NAME=VALUE of every setting but those that are the project's
	Database         string   `json:"database"`          //
	Counters         string   `json:"counters"`          // path of the counters' documents
	Collection       string   `json:"collection"`        // collection group that these are in
	Shards           string   `json:"shards"`            // collection of the shards below each
	ShardFields      []string `json:"shard_fields"`      // fields of shards, which need their indexes for sum()
	Collections      []string `json:"collections"`       // whose documents are counted, as FIELDS has them: each takes a trigger
	Watched          []string `json:"watched"`           // the path patterns of these triggers, in the same order
	Indexes          []string `json:"indexes"`           // what queries need: collection group, scope and fields, with spaces between
	Scanned          []string `json:"scanned"`           // the same in a database of the Enterprise edition, where a query without its index scans
	Summed           []string `json:"summed"`            // fields that a sum() works on by their own indexes, each as collection group and field path
	Hosted           bool     `json:"hosted"`            // the counters' documents are the app's
	Auth             string   `json:"auth"`              // who may call Increment
	MakesForAnybody  bool     `json:"makes_for_anybody"` // increments make counters without bound, where IAM lets everybody in
	ReconcileTimeout int      `json:"reconcile_timeout"` // seconds that a call of Reconcile has
}

// reconcileGrace is what Reconcile's timeout is above its deadline: time to remember where it
// stopped, and to answer.
const reconcileGrace = time.Minute

// held is the index of seats that are held, behind its collection: who finds no room looks for those that are over.
const held = " COLLECTION " + layout.Until

// projects are the settings that are not to be chosen: what deploys the functions takes them from
// the project.
var projects = []string{"GOOGLE_CLOUD_PROJECT", "PROJECT_NUMBER"}

// ForDeployment reads settings that are given to a deployment, as NAME=VALUE. The others have their
// defaults, and the last of several values of one setting holds. Its error names all that is wrong:
// beside what [Parse] says, names that no setting has, which a function in an environment of others
// passes over.
func ForDeployment(given []string) (Deployment, error) {
	var names, defaults []string
	for field := range reflect.TypeFor[Settings]().Fields() {
		if name := field.Tag.Get("env"); name != "" && !slices.Contains(projects, name) {
			names, defaults = append(names, name), append(defaults, field.Tag.Get("envDefault"))
		}
	}
	values := slices.Clone(defaults)
	environ := []string{"PROJECT_NUMBER=1"} // which the deployment gives
	var errs []error
	for _, pair := range given {
		name, value, ok := strings.Cut(pair, "=")
		i := slices.Index(names, name)
		switch {
		case slices.Contains(projects, name):
			errs = append(errs, fmt.Errorf("%s: want it left out: it is that of the project", pair))
		case name == "COLLECTION", name == "COUNT_FIELD": // of which Parse says what they are called now
			environ = append(environ, pair)
		case i < 0:
			errs = append(errs, fmt.Errorf("%s: there is no such setting; docs/settings.md lists them", pair))
		case !ok:
			errs = append(errs, fmt.Errorf("%s: want a value after it, as in %s=%s", pair, name, defaults[i]))
		case strings.ContainsAny(value, "|\n\r\x00"):
			errs = append(errs, fmt.Errorf("%s: want a value without | and line breaks, between which gcloud takes it apart", pair))
		default:
			values[i] = value
			environ = append(environ, pair)
		}
	}
	s, err := Parse(environ)
	if err := errors.Join(errors.Join(errs...), err); err != nil {
		return Deployment{}, err
	}
	for i, name := range names {
		if yes, err := strconv.ParseBool(values[i]); err == nil && kindOf(name) == reflect.Bool {
			values[i] = strconv.FormatBool(yes) // which may have been written as 1, or True
		}
		if name == "ALLOWED_ORIGINS" {
			values[i] = strings.Join(s.AllowedOrigins, ",") // as browsers write them
		}
		values[i] = name + "=" + values[i]
	}
	there, err := s.Place().Layout()
	if err != nil {
		return Deployment{}, fmt.Errorf("settings: %w", err)
	}
	d := Deployment{
		Environment: values, Database: s.Database, Counters: s.Counters.String(), Collection: s.Counters.Collection(), Shards: s.Shards,
		Collections: there.Collections(), Watched: there.Patterns()[1:], Hosted: s.Hosted, Auth: s.Auth, MakesForAnybody: s.MakesForAnybody(),
		ReconcileTimeout: int(math.Ceil((s.ReconcileDeadline + reconcileGrace).Seconds())),
	}
	sums, counted := s.Fields.Split()
	for _, field := range sums {
		d.Summed = append(d.Summed, s.Shards+" "+layout.FieldPath(field.Shard))
	}
	for _, field := range counted {
		if sum := field.Counted.Collection + " " + layout.FieldPath(strings.Split(field.Counted.Sum, ".")...); field.Counted.Sum != "" && !slices.Contains(d.Summed, sum) {
			d.Summed = append(d.Summed, sum)
		}
		if index := IndexOf(field.Counted, false); index != "" && !slices.Contains(d.Indexes, index) {
			d.Indexes = append(d.Indexes, index)
		}
		if index := IndexOf(field.Counted, true); index != "" && !slices.Contains(d.Scanned, index) {
			d.Scanned = append(d.Scanned, index)
		}
	}
	for _, field := range sums {
		d.ShardFields = append(d.ShardFields, field.Shard)
		if s.Members != "off" && !field.ShowsLimit() { // counters forget asks for a member of any counter; and seats may be held
			member := layout.MembersID(field.Name) + " COLLECTION_GROUP member"
			d.Indexes, d.Scanned = append(d.Indexes, member), append(d.Scanned, member, layout.MembersID(field.Name)+held)
		}
	}
	if there.Extension { // whose shards that hold something are looked for, among those of all visitors of a page
		for _, field := range slices.Concat(there.Plain(), there.Limited()) {
			d.Scanned = append(d.Scanned, layout.ExtensionShards+" COLLECTION "+layout.FieldPath(field.Name))
		}
	}
	if len(sums) > 0 { // of which amounts may be held, too
		d.Scanned = append(d.Scanned, layout.Requests+held, layout.Requests+" COLLECTION "+layout.Due)
	}
	return d, nil
}

// IndexesIn are those that queries need in a database of the Enterprise edition, or of the Standard edition.
func (d Deployment) IndexesIn(enterprise bool) []string {
	if enterprise {
		return d.Scanned
	}
	return d.Indexes
}

// IndexOf is an index that a query needs and Firestore doesn't make by itself: the collection
// group, the scope and the fields, with spaces between, such as "ratings COLLECTION public stars".
// It is empty where it needs none.
func IndexOf(a *layout.Aggregation, enterprise bool) string {
	fields := a.Index()
	if enterprise {
		fields = a.IndexFields()
	}
	if len(fields) == 0 {
		return ""
	}
	scope := "COLLECTION"
	if a.From == layout.Group {
		scope = "COLLECTION_GROUP"
	}
	return strings.Join(append([]string{a.Collection, scope}, fields...), " ")
}

// kindOf is the kind of a setting's value.
func kindOf(name string) reflect.Kind {
	for field := range reflect.TypeFor[Settings]().Fields() {
		if field.Tag.Get("env") == name {
			return field.Type.Kind()
		}
	}
	return reflect.Invalid
}
