package deployment

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Command is one that makes, changes or removes something: gcloud with these words, or where gcloud has no command a
// call of an API, which is printed as a line of a shell.
type Command struct {
	Words []string
	Shell string
	Call  func(context.Context, *Cloud) error
}

// String is the command as a line to be pasted into a shell.
func (c Command) String() string {
	if c.Shell != "" {
		return c.Shell
	}
	return Line(append([]string{"gcloud"}, c.Words...)...)
}

func gcloud(words ...string) Command { return Command{Words: words} }

// What a word may have in it: another command of gcloud's, word by word, whose answer stands in its place.
const opens, between, closes = "\x02", "\x03", "\x04"

// Asked is a word that is known when the command before has run: it is asked of gcloud then.
func Asked(words ...string) string { return opens + strings.Join(words, between) + closes }

// isAsked matches such a part of a word.
var isAsked = regexp.MustCompile(opens + "([^" + closes + "]*)" + closes)

func unknown(word string) bool { return strings.Contains(word, opens) }

// plain are the arguments that a shell leaves as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Line is a command line that may be pasted into a shell.
func Line(args ...string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		switch {
		case unknown(arg):
			arg = asking(arg)
		case strings.ContainsFunc(arg, func(r rune) bool { return !strconv.IsPrint(r) }):
			arg = escaped(arg)
		case !plain.MatchString(arg):
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		quoted[i] = arg
	}
	return strings.Join(quoted, " ")
}

// asking quotes an argument in which something is asked for.
func asking(arg string) string {
	within := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")
	var b strings.Builder
	for {
		at := isAsked.FindStringSubmatchIndex(arg)
		if at == nil {
			return `"` + b.String() + within.Replace(arg) + `"`
		}
		b.WriteString(within.Replace(arg[:at[0]]) + "$(" + Line(append([]string{"gcloud"}, strings.Split(arg[at[2]:at[3]], between)...)...) + ")")
		arg = arg[at[1]:]
	}
}

// escaped quotes an argument that a terminal might obey, as bash and its like take it.
func escaped(arg string) string {
	var b strings.Builder
	b.WriteString("$'")
	for _, r := range arg {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		}
	}
	return b.String() + "'"
}
