package functions

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// Reconcile removes what CLEANUP says once nothing was written for CLEANUP_AFTER: no counter, those that are at 0, or
// all. What was counted since the last walk and isn't shown yet spares a counter.
func TestReconcileRemovesIdleCounters(t *testing.T) {
	t.Parallel()
	for cleanup, stay := range map[string][]string{
		"off":  {"counted", "late", "zero"},
		"zero": {"counted", "late"},
		"idle": {"late"},
	} {
		virtual.Run(t, cleanup, func(t *testing.T) {
			s, err := settings.Parse([]string{"GOOGLE_CLOUD_PROJECT=p", "AUTO_CREATE=true", "NUM_SHARDS=2", "CLEANUP_AFTER=48h", "CLEANUP=" + cleanup})
			if err != nil {
				t.Fatal(err)
			}
			server, log := virtual.Start(t), slog.New(slog.DiscardHandler)
			client, err := rollup.Open(t.Context(), rollupConfig(s, log), option.WithGRPCConn(server.Conn()))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			counters, err := shards.Open(t.Context(), ShardsConfig(s, log), option.WithGRPCConn(server.Conn()))
			if err != nil {
				t.Fatal(err)
			}
			defer counters.Close()
			reconcile := ReconcileHandler(client, counters, s, log)
			walk := func(idle int, want ...string) {
				t.Helper()
				w := httptest.NewRecorder()
				reconcile.ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
				var sum rollup.Summary
				if err := json.Unmarshal(w.Body.Bytes(), &sum); err != nil || w.Code != 200 || sum.Idle != idle || !sum.Done {
					t.Errorf("answered %d %s, %v; want that %d are removed", w.Code, w.Body, err, idle)
				}
				refs, err := server.Client().Collection("counters").DocumentRefs(t.Context()).GetAll()
				if err != nil {
					t.Fatal(err)
				}
				left := map[string]bool{}
				for _, ref := range refs {
					left[ref.ID] = true
				}
				if got := slices.Sorted(maps.Keys(left)); !slices.Equal(got, want) {
					t.Errorf("left: %v, want %v", got, want)
				}
			}
			add := func(id string, n int64) {
				t.Helper()
				c, err := counters.Counter(id)
				if err == nil {
					err = c.Add(t.Context(), n)
				}
				if err != nil {
					t.Fatal(fmt.Errorf("add to %s: %w", id, err))
				}
			}
			add("counted", 3)
			for _, n := range []int64{1, -1} {
				add("late", n)
				add("zero", n)
			}
			time.Sleep(time.Second)
			all := []string{"counted", "late", "zero"}
			walk(0, all...)
			time.Sleep(47 * time.Hour)
			walk(0, all...)
			time.Sleep(2 * time.Hour)
			add("late", 1) // its event is lost
			walk(len(all)-len(stay), stay...)
			add("zero", 1)
			add("counted", 1)
			for _, id := range []string{"zero", "counted"} {
				c, _ := counters.Counter(id)
				sum, err := c.Sum(t.Context())
				if want := map[bool]int64{true: 4, false: 1}[id == "counted" && cleanup != "idle"]; err != nil || sum.Total != want {
					t.Errorf("%s: %d, %v; want %d", id, sum.Total, err, want)
				}
			}
		})
	}
}
