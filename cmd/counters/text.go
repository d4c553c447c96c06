package main

import (
	"encoding/json"
	"io"
)

// writeSheet writes a value as JSON in many lines, which people read as well.
func writeSheet(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
