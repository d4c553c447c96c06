// Package counters is what the Go buildpack compiles: it reads the package beside go.mod, and takes the functions that
// are registered when that is imported.
package counters

import (
	// The buildpack looks for this import, and without it expects functions of an older form.
	_ "github.com/GoogleCloudPlatform/functions-framework-go/functions"

	"github.com/firestore-counters/counters/functions"
)

func init() { functions.Register() }
