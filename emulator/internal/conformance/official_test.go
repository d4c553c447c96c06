package conformance

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// wellKnownJar is where Google's packages put the emulator.
const wellKnownJar = "/usr/lib/google-cloud-sdk/platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"

// officialEmulator is a running official emulator.
type officialEmulator struct {
	addr  string
	dir   string
	pid   int
	stdin io.Closer
	ended chan struct{} // closed when the process is gone
}

// untilEOF becomes the command that follows it, and has it killed when the standard input ends: also when the test
// binary is killed itself, nothing is left behind.
const untilEOF = `exec 3<&0; (cat <&3 >/dev/null; kill -9 $$) & exec "$@" </dev/null 3<&-`

// startOfficial starts the official emulator on a free port, or says why it can't.
func startOfficial() (*officialEmulator, string) {
	jar := os.Getenv("FIRESTORE_EMULATOR_JAR")
	if jar == "" {
		jar = wellKnownJar
	}
	if _, err := os.Stat(jar); err != nil {
		return nil, fmt.Sprintf("%v; name the jar in FIRESTORE_EMULATOR_JAR", err)
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, err.Error()
	}
	port, err := freePort()
	if err != nil {
		return nil, err.Error()
	}
	dir, err := os.MkdirTemp("", "firestore-emulator-")
	if err != nil {
		return nil, err.Error()
	}
	e := &officialEmulator{addr: net.JoinHostPort("127.0.0.1", port), dir: dir, ended: make(chan struct{})}
	// Without these two settings, starting takes twice the processor time, and the tests last a few seconds.
	cmd := exec.Command("sh", "-c", untilEOF, "sh", java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.language=en", "-cp", jar,
		"com.google.cloud.datastore.emulator.firestore.CloudFirestore", "--host", "127.0.0.1", "--port", port)
	cmd.Dir = dir // it leaves a log file where it is started
	log, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		os.RemoveAll(dir)
		return nil, err.Error()
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if e.stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err.Error()
	}
	e.pid = cmd.Process.Pid
	go func() {
		defer close(e.ended)
		_ = cmd.Wait() // it is killed
	}()
	if !e.await(30 * time.Second) {
		output, _ := os.ReadFile(log.Name())
		e.stop()
		return nil, fmt.Sprintf("%s does not listen: %s", jar, output)
	}
	return e, ""
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// await tells whether the emulator listens before the limit is over.
func (e *officialEmulator) await(limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if conn, err := net.Dial("tcp", e.addr); err == nil {
			conn.Close()
			return true
		}
		select {
		case <-e.ended:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}

// stop kills the emulator.
func (e *officialEmulator) stop() {
	e.stdin.Close()
	<-e.ended
	os.RemoveAll(e.dir)
}
