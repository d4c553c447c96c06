package layout

import "strings"

// FieldPath joins field names to a path for masks and transforms. It quotes a name that isn't a plain
// identifier with backticks.
func FieldPath(names ...string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte('.')
		}
		if plain(name) {
			b.WriteString(name)
			continue
		}
		b.WriteByte('`')
		for j := range len(name) { // byte by byte, so that no rune is touched
			if name[j] == '`' || name[j] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(name[j])
		}
		b.WriteByte('`')
	}
	return b.String()
}

func plain(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
