// Command sbom prints what a Go program is made of, as SPDX 2.3 in JSON (https://spdx.github.io/spdx-spec/v2.3/): the
// module that it is of, and each that it depends on, with the checksums that Go's checksum database has of them. It
// reads what the toolchain noted in the program, so a list can't differ from what was built; the same program gives the
// same bytes.
//
//	go run ./scripts/sbom --created 2026-11-22T10:00:00Z --file counters_0.1.0_linux_amd64.tar.gz counters
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

type document struct {
	Version           string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	ID                string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"` // no other document's
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []part         `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type part struct {
	ID               string     `json:"SPDXID"`
	Name             string     `json:"name"`
	VersionInfo      string     `json:"versionInfo"`
	DownloadLocation string     `json:"downloadLocation"`
	FilesAnalyzed    bool       `json:"filesAnalyzed"`
	LicenseConcluded string     `json:"licenseConcluded"`
	LicenseDeclared  string     `json:"licenseDeclared"`
	CopyrightText    string     `json:"copyrightText"`
	Comment          string     `json:"comment,omitempty"`
	ExternalRefs     []external `json:"externalRefs"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

func main() {
	created := flag.String("created", "", "when the commit was made that was built, as in RFC 3339")
	file := flag.String("file", "", "what the program is published as")
	flag.Parse()
	text, err := sbom(flag.Arg(0), *file, *created)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
	fmt.Println(string(text))
}

func sbom(program, file, created string) ([]byte, error) {
	at, err := time.Parse(time.RFC3339, created)
	if err != nil {
		return nil, fmt.Errorf("--created: %w", err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read what a program is made of: %w", err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	d := document{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: file,
		DocumentNamespace: fmt.Sprintf("https://%s/sbom/%s-%x", info.Main.Path, file, sha256.Sum256(content)),
		CreationInfo:      creation{Created: at.UTC().Format(time.RFC3339), Creators: []string{"Organization: firestore-counters", "Tool: scripts/sbom"}},
	}
	root := d.add(info.Main)
	d.Packages[0].LicenseDeclared = "Apache-2.0"
	d.relate(d.ID, "DESCRIBES", root)
	d.relate(root, "DEPENDS_ON", d.add(debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.relate(root, "DEPENDS_ON", d.add(*m))
	}
	return json.MarshalIndent(d, "", "  ")
}

func (d *document) relate(from, how, to string) {
	d.Relationships = append(d.Relationships, relationship{from, how, to})
}

var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// add adds a module, and returns its id.
func (d *document) add(m debug.Module) string {
	const none = "NOASSERTION" // Nobody has looked.
	p := part{
		ID: "SPDXRef-" + notInIDs.ReplaceAllString(m.Path+"-"+m.Version, "-"), Name: m.Path, VersionInfo: m.Version,
		DownloadLocation: none, LicenseConcluded: none, LicenseDeclared: none, CopyrightText: none,
		ExternalRefs: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")}},
	}
	if hash, ok := strings.CutPrefix(m.Sum, "h1:"); ok { // of a list of files, and so not a checksum of a package
		if raw, err := base64.StdEncoding.DecodeString(hash); err == nil {
			p.Comment = "go.sum: h1:" + hash + " (SHA-256 " + hex.EncodeToString(raw) + " of the module's list of files)"
		}
	}
	d.Packages = append(d.Packages, p)
	return p.ID
}
