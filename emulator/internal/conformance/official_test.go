//go:build all

package conformance

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/internal/testbed/official"
)

var record = flag.Bool("record", false, "keep in testdata what the official emulator answers")

// google is the official emulator of this test binary; nil where there is none, and then why says
// why.
var google, why = official.Start(context.Background())

func init() {
	if google == nil {
		fmt.Println("without the official emulator:", why)
		return
	}
	ended = google.Stop
}

func TestOfficial(t *testing.T) {
	if google == nil {
		t.Skip(why)
	}
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			got := play(t, sc, google.Addr, nil)
			if *record {
				if err := os.WriteFile(fileOf(sc.name), []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			compare(t, got, kept(t, sc.name))
		})
	}
}
