package store

import (
	"slices"
	"strings"
	"testing"
)

func TestParseFields(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]Field{
		DefaultFields:         {{"total", "count"}},
		"likes":               {{"likes", "likes"}},
		"likes,views":         {{"likes", "likes"}, {"views", "views"}},
		" likes , v=visits\t": {{"likes", "likes"}, {"v", "visits"}},
		"total=Count":         {{"total", "Count"}},
		"größe":               {{"größe", "größe"}},
		"__a":                 {{"__a", "__a"}},
	} {
		if got, err := ParseFields(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseFields(%q) = %v, %v, want %v", list, got, err, want)
		}
	}
	for list, want := range map[string]string{
		"":                         "at 1: a name is missing",
		"likes,":                   "at 7: a name is missing",
		"likes,, views":            "at 7: a name is missing",
		"=count":                   "at 1: a name is missing",
		"total=":                   "at 1: a name is missing",
		"likes, a.b":               "at 8: \"a.b\" holds one of",
		"a=b=c":                    "holds one of",
		"two words":                "holds one of",
		"likes,__x__":              "at 7: \"__x__\" is reserved",
		"likes,likes":              "has one of its names already",
		"a=x,b=x":                  "has one of its names already",
		"num_shards":               "of its own",
		"counter_rollup":           "of its own",
		strings.Repeat("x", 65):    "65 bytes",
		"a\xff":                    "UTF-8",
		"comments=count(comments)": "holds one of",
		many(MaxFields + 1):        "21 fields",
	} {
		if got, err := ParseFields(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseFields(%q) = %v, %v, want %q", list, got, err, want)
		}
	}
}

func many(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = "f" + strings.Repeat("x", i+1)
	}
	return strings.Join(names, ",")
}

func FuzzParseFields(f *testing.F) {
	f.Add(DefaultFields)
	f.Add("likes, views=v")
	f.Fuzz(func(t *testing.T, list string) {
		fields, err := ParseFields(list)
		if err != nil {
			return
		}
		for _, field := range fields {
			if FieldPath(field.Name) == "``" || strings.ContainsAny(field.Name+field.Shard, ".`/") {
				t.Errorf("%q gives %+v", list, field)
			}
		}
	})
}
