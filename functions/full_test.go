package functions

import (
	"net/http"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
)

// The app has filled its document to a megabyte before anything was counted: an increment is
// refused with what to do, and nothing was counted. Once there is room it counts.
func TestIncrementOfAFullDocument(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "Increment", "COUNTERS=posts/{post}", "HOSTED=true", "FIELDS=likes")
	post := p.fs.Doc("posts/p")
	for size := 1 << 20; ; size -= 8 {
		if _, err := post.Set(t.Context(), map[string]any{"body": strings.Repeat("x", size)}); err == nil {
			break
		}
	}
	got := p.do(t, "POST", "/p", "")
	detail, _ := got.body["detail"].(string)
	if got.status != http.StatusConflict || !strings.Contains(detail, "make room in it") || !strings.Contains(detail, "nothing was counted") {
		t.Errorf("answered %d %v, want 409 with what to do", got.status, got.body)
	}
	if counts := p.counted(t, "posts/p"); len(counts) > 0 {
		t.Errorf("%v were counted", counts)
	}
	if _, err := post.Update(t.Context(), []firestore.Update{{Path: "body", Value: "short"}}); err != nil {
		t.Fatal(err)
	}
	if got := p.do(t, "POST", "/p", ""); got.status != http.StatusOK {
		t.Errorf("with room: %d %v", got.status, got.body)
	}
	if counts := p.counted(t, "posts/p"); counts["likes"] != 1 {
		t.Errorf("%v were counted, want 1", counts)
	}
}
