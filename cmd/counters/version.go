package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// build is what the Go toolchain notes in a program.
type build struct {
	Version  string `json:"version"` // of the module, or (devel)
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Newest   string `json:"newest,omitempty"` // version that there is, where that was asked
}

func readBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the line that people read.
func (b build) String() string {
	line := "counters " + b.Version
	if b.Revision != "" {
		line += " (" + b.Revision
		if b.Modified {
			line += ", modified"
		}
		line += ")"
	}
	return fmt.Sprintf("%s, %s, %s", line, b.Go, b.Platform)
}

// latestVersion is where Go's module proxy says what is newest. Nothing is sent but the request.
const latestVersion = "https://proxy.golang.org/github.com/firestore-counters/counters/@latest"

// newestVersion asks which version is the newest.
func newestVersion(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask what is newest: %w", err)
	}
	defer resp.Body.Close()
	var latest struct{ Version string }
	switch body := io.LimitReader(resp.Body, 64<<10); {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return "", fmt.Errorf("ask what is newest: %s knows of no version", req.URL.Host)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("ask what is newest: %s answers %s", req.URL.Host, resp.Status)
	default:
		if err := json.NewDecoder(body).Decode(&latest); err != nil || latest.Version == "" {
			return "", fmt.Errorf("ask what is newest: the answer of %s is no version", req.URL.Host)
		}
	}
	return latest.Version, nil
}

func newVersionCommand() *cobra.Command {
	var asJSON, check bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the program's version",
		Long: `Print the program's version. With --check, ask Go's module proxy for the newest. The program never asks by itself, and
sends nothing about how you use it.`,
		Example: `  counters version --json
  counters version --check`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printVersion(cmd, check, asJSON, latestVersion)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&check, "check", false, "say what is newest too; asks proxy.golang.org")
	return cmd
}

func printVersion(cmd *cobra.Command, check, asJSON bool, latest string) error {
	b := readBuild()
	if check {
		var err error
		if b.Newest, err = newestVersion(cmd.Context(), latest); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	if asJSON {
		return json.NewEncoder(out).Encode(b)
	}
	text := b.String()
	switch b.Newest {
	case "":
	case b.Version:
		text += "\nThat is the newest."
	default:
		text += fmt.Sprintf("\nThe newest is %s: npm install -g @firestore-counters/cli@%s, or go install github.com/firestore-counters/counters/cmd/counters@%[1]s", b.Newest, strings.TrimPrefix(b.Newest, "v"))
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
