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

// object is one of JSON's.
type object map[string]any

// document is a list of packages, and of how they relate.
type document struct{ packages, relationships []object }

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
	var d document
	root := d.add(info.Main)
	d.packages[0]["licenseDeclared"] = "Apache-2.0"
	d.relate("SPDXRef-DOCUMENT", "DESCRIBES", root)
	d.relate(root, "DEPENDS_ON", d.add(debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.relate(root, "DEPENDS_ON", d.add(*m))
	}
	return json.MarshalIndent(object{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": file,
		"documentNamespace": fmt.Sprintf("https://%s/sbom/%s-%x", info.Main.Path, file, sha256.Sum256(content)), // no other document's
		"creationInfo":      object{"created": at.UTC().Format(time.RFC3339), "creators": []string{"Organization: firestore-counters", "Tool: scripts/sbom"}},
		"packages":          d.packages, "relationships": d.relationships,
	}, "", "  ")
}

func (d *document) relate(from, how, to string) {
	d.relationships = append(d.relationships, object{"spdxElementId": from, "relationshipType": how, "relatedSpdxElement": to})
}

var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// add adds a module, and returns its id.
func (d *document) add(m debug.Module) string {
	const none = "NOASSERTION" // Nobody has looked.
	id := "SPDXRef-" + notInIDs.ReplaceAllString(m.Path+"-"+m.Version, "-")
	p := object{
		"SPDXID": id, "name": m.Path, "versionInfo": m.Version, "filesAnalyzed": false,
		"downloadLocation": none, "licenseConcluded": none, "licenseDeclared": none, "copyrightText": none,
		"externalRefs": []object{{
			"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
			"referenceLocator": "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B"),
		}},
	}
	if hash, ok := strings.CutPrefix(m.Sum, "h1:"); ok { // of a list of files, and so not a checksum of a package
		if raw, err := base64.StdEncoding.DecodeString(hash); err == nil {
			p["comment"] = "go.sum: h1:" + hash + " (SHA-256 " + hex.EncodeToString(raw) + " of the module's list of files)"
		}
	}
	d.packages = append(d.packages, p)
	return id
}
