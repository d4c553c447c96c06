package functions

import (
	"reflect"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
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

// A request outlasts the batch that it begins, or it would not hear what became of it: also one that
// has waited for company.
func TestARequestOutlastsItsBatch(t *testing.T) {
	t.Parallel()
	for _, s := range []settings.Settings{{RequestTimeout: time.Minute}, {RequestTimeout: 4 * time.Second, CommitInterval: time.Second}} {
		cfg := ShardsConfig(s, nil)
		if cfg.Wait != s.RequestTimeout || cfg.CommitInterval+cfg.Timeout >= cfg.Wait || cfg.Timeout < cfg.Wait/2 {
			t.Errorf("a request waits for %v, of it for company for %v, and its batch is tried for %v", cfg.Wait, cfg.CommitInterval, cfg.Timeout)
		}
	}
}
