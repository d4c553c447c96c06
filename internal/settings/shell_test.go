//go:build all

package settings_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/settings"
)

// Whatever a value holds, a shell that evaluates the assignments has it, and runs nothing of it.
func TestDeploymentOfAShell(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not on the PATH")
	}
	rapid.Check(t, func(t *rapid.T) {
		origin := rapid.StringMatching(`[ a-z'"$\\;&<>()*{}!#~\x60-]{0,12}`).Draw(t, "text")
		d, err := settings.ForDeployment([]string{"FIELDS=likes,n=count(comments where a==\"" + strings.NewReplacer(`"`, "", `\`, "").Replace(origin) + "\")"})
		if err != nil {
			t.Skip("refused")
		}
		out, err := exec.Command(bash, "-c", d.Shell()+`printf '%s\0' "${environment[@]}" "$hosted" "${shard_fields[@]}" "$reconcile_timeout"`).Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, d.Shell())
		}
		if got, want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), append(slices.Clone(d.Environment), "no", "likes", "300"); !slices.Equal(got, want) {
			t.Fatalf("the shell has %q\nwant %q", got, want)
		}
	})
}
