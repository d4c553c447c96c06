//go:build all

package scripts

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The real thing: `counters dev`, with its processes, its Firestore and its event delivery.
func TestSmokeAgainstDev(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "counters")
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/counters").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	dev := exec.Command(bin, "dev", "--port=0", "--firestore-port=0", "--functions-port=0")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "FIRESTORE_EMULATOR_HOST=") { // the embedded one, whatever runs beside
			dev.Env = append(dev.Env, v)
		}
	}
	var errs bytes.Buffer
	dev.Stderr = &errs
	stdout, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	ready := make(chan string, 1)
	go func() {
		defer close(drained)
		defer close(ready)
		gateway := ""
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if rest, ok := strings.CutPrefix(lines.Text(), "Gateway"); ok {
				gateway = strings.Fields(rest)[0]
			}
			if lines.Text() == "ready" {
				ready <- gateway
			}
		}
	}()
	t.Cleanup(func() {
		_ = dev.Process.Signal(os.Interrupt)
		<-drained
		if err := dev.Wait(); err != nil {
			t.Errorf("counters dev: %v\n%s", err, errs.String())
		}
	})
	select {
	case gateway := <-ready:
		out, err := exec.Command("bash", "smoke.sh", gateway+"/increment").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("all green")) {
			t.Errorf("%v\n%s", err, out)
		}
	case <-time.After(time.Minute):
		t.Fatal("counters dev was not ready within a minute")
	}
}
