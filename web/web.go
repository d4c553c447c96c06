// Package web holds the modules for web pages, as they are published to npm, for the demo page, which uses them.
package web

import (
	"embed"
	"encoding/json"
	"io/fs"
)

//go:embed auth.js counter.js entry.js holds.js http.js pauses.js queue.js record.js sdk.js shown.js sources.js turn.js
var modules embed.FS

//go:embed package.json
var packageJSON []byte

// Modules are the modules' files: counter.js, and what it imports.
func Modules() fs.FS { return modules }

// FirebaseVersion is the version of the Firebase SDK that the modules are tested with.
func FirebaseVersion() string {
	var p struct{ DevDependencies map[string]string }
	if err := json.Unmarshal(packageJSON, &p); err != nil {
		panic(err) // Not possible: it is ours.
	}
	return p.DevDependencies["firebase"]
}
