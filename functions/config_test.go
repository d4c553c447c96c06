package functions

import (
	"reflect"
	"testing"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// Whoever imports the libraries says where the counters are in the same words to both of them, and
// inside both say it to one Config.
func TestConfigsSayAlikeWhereTheCountersAre(t *testing.T) {
	t.Parallel()
	for _, of := range []reflect.Type{reflect.TypeFor[shards.Config](), reflect.TypeFor[rollup.Config]()} {
		for want := range reflect.TypeFor[layout.Place]().Fields() {
			if f, ok := of.FieldByName(want.Name); !ok || f.Type != want.Type {
				t.Errorf("%s has no %s of type %s", of, want.Name, want.Type)
			}
		}
	}
}
