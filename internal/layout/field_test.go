package layout

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseFields(t *testing.T) {
	t.Parallel()
	same := func(name string) Field { return Field{Name: name, Shard: name} }
	for list, want := range map[string]Fields{
		DefaultFields:         {{Name: "total", Shard: "count"}},
		"likes":               {same("likes")},
		"likes,views":         {same("likes"), same("views")},
		" likes , v=visits\t": {same("likes"), {Name: "v", Shard: "visits"}},
		"total=Count":         {{Name: "total", Shard: "Count"}},
		"größe":               {same("größe")},
		"__a":                 {same("__a")},
		"a,comments=count(comments)": {same("a"),
			{Name: "comments", Counted: &Aggregation{Collection: "comments"}}},
		"stars = sum( ratings.stars ), a": {
			{Name: "stars", Counted: &Aggregation{Collection: "ratings", Sum: "stars"}}, same("a")},
		"a,s=sum(ratings.by.stars)": {same("a"),
			{Name: "s", Counted: &Aggregation{Collection: "ratings", Sum: "by.stars"}}},
		"a,p=count(comments where public==true)": {same("a"),
			{Name: "p", Counted: &Aggregation{Collection: "comments", Where: []Filter{{"public", Equal, true}}}}},
		"a,p=count(comments  where  meta.level == -12 )": {same("a"),
			{Name: "p", Counted: &Aggregation{Collection: "comments", Where: []Filter{{"meta.level", Equal, int64(-12)}}}}},
		`a,p=sum(c.n where lang=="d,)e'"),b`: {same("a"),
			{Name: "p", Counted: &Aggregation{Collection: "c", Sum: "n", Where: []Filter{{"lang", Equal, "d,)e'"}}}}, same("b")},
		`a,p=count(c where lang=='"')`: {same("a"),
			{Name: "p", Counted: &Aggregation{Collection: "c", Where: []Filter{{"lang", Equal, `"`}}}}},
		`a,p=count(c where lang=="")`: {same("a"),
			{Name: "p", Counted: &Aggregation{Collection: "c", Where: []Filter{{"lang", Equal, ""}}}}},
		"a,r=avg(ratings.by.stars where public==true)": {same("a"),
			{Name: "r", Counted: &Aggregation{Collection: "ratings", Sum: "by.stars", Average: true, Where: []Filter{{"public", Equal, true}}}}},
		"a,s=sum( ratings.score )  as  double ,b": {same("a"),
			{Name: "s", Counted: &Aggregation{Collection: "ratings", Sum: "score", Double: true}}, same("b")},
		"a,c=count(/comments where post=={post})": {same("a"),
			{Name: "c", Counted: &Aggregation{Collection: "comments", From: Root, Where: []Filter{{"post", Equal, Wildcard("post")}}}}},
		"a,c=avg( **/comments.stars where  to.post == {post} and team=={team} )": {same("a"),
			{Name: "c", Counted: &Aggregation{Collection: "comments", From: Group, Sum: "stars", Average: true,
				Where: []Filter{{"to.post", Equal, Wildcard("post")}, {"team", Equal, Wildcard("team")}}}}},
		`a,c=count(c where x in ['a,b',"c",1] and n>=1 and n < 'y' and n<=2 and n>-3)`: {same("a"),
			{Name: "c", Counted: &Aggregation{Collection: "c", Where: []Filter{{"x", In, []any{"a,b", "c", int64(1)}}, {"n", AtLeast, int64(1)},
				{"n", Less, "y"}, {"n", AtMost, int64(2)}, {"n", Above, int64(-3)}}}}},
		"users=count(/users)":     {{Name: "users", Counted: &Aggregation{Collection: "users", From: Root}}},
		"a,b=count(c),d=count(c)": {same("a"), {Name: "b", Counted: &Aggregation{Collection: "c"}}, {Name: "d", Counted: &Aggregation{Collection: "c"}}},
	} {
		got, err := ParseFields(list)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("ParseFields(%q): %v (-want +got)\n%s", list, err, diff)
		}
	}
	for list, want := range map[string]string{
		"":                                "at 1: a name is missing",
		"likes,":                          "at 7: a name is missing",
		"likes,, views":                   "at 7: a name is missing",
		"=count":                          "at 1: a name is missing",
		"total=":                          "at 1: a name is missing",
		"likes, a.b":                      "at 8: \"a.b\" holds one of",
		"a=b=c":                           "holds one of",
		"two words":                       "holds one of",
		"likes,__x__":                     "at 7: \"__x__\" is reserved",
		"likes,likes":                     "has one of its names already",
		"a=x,b=x":                         "has one of its names already",
		"likes,n=request":                 "at 7: a shard's field request names",
		"num_shards":                      "of its own",
		"counter_rollup":                  "of its own",
		strings.Repeat("x", 65):           "65 bytes",
		"a\xff":                           "UTF-8",
		"a,b=max(c.d)":                    `"b=max(c.d)" at 5: want count(collection), sum(collection.field) or avg(collection.field), found "max"`,
		"a,b=avg(c)":                      "at 9: want a collection and a field of its documents, such as avg(ratings.stars)",
		"a,b=sum(c.d) as":                 "at 16: want double: a sum is an integer, or as double, found the end",
		"a,b=sum(c.d) as int":             "at 17: want double",
		"a,b=sum(c.d) as double x":        "at 24: want as double, a comma, or the end",
		"a,b=sum(c.d) asdouble":           `at 14: want as double, a comma, or the end, found "asdouble"`,
		"a,b=count(c wherex==1)":          `at 13: want ) or where, found "wherex"`,
		"a,b=count(c where x==1 andy==2)": `at 24: want ) or and, found "andy"`,
		"a,b=sum(c.d)x":                   "at 13: want as double, a comma, or the end",
		"a,b=count(c) as double":          "at 14: want a comma, or the end",
		"li\x00kes":                       "or a zero byte",
		"a,b=count(":                      "at 11: cannot be a collection: it is empty",
		"a,b=count()":                     "at 11: cannot be a collection: it is empty",
		"a,b=count(c":                     "at 12: want ) or where, found the end",
		"a,b=count(c)d":                   "at 13: want a comma, or the end, found \"d\"",
		"a,b=count(c d)":                  "at 13: want ) or where, found \"d\"",
		"a,b=count(c/d)":                  "at 11: cannot be a collection",
		"a,b=count(c.d)":                  "at 11: a collection's name holds one of",
		"a,b=count(__c__)":                "at 11: cannot be a collection",
		"a,b=count(counter_x)":            "at 11: collections that begin with counter_",
		"a,b=sum(c)":                      "at 9: want a collection and a field",
		"a,b=sum(c.)":                     "at 11: a name is missing",
		"a,b=sum(.d)":                     "at 9: cannot be a collection: it is empty",
		"a,b=sum(c.d..e)":                 "at 11: a name is missing",
		"a,b=count(c where )":             "at 19: a name is missing",
		"a,b=count(c where x)":            "at 20: want ==, in, >=, >, <= or <, found \")\"",
		"a,b=count(c where x=1)":          "at 20: want ==, in, >=, >, <= or <, found \"=\"",
		"a,b=count(c where x==)":          "at 22: want true, false, an integer or a quoted string, found \"\"",
		"a,b=count(c where x==y)":         "at 22: want true, false, an integer or a quoted string, found \"y\"",
		"a,b=count(c where x==1.5)":       "found \"1.5\"",
		`a,b=count(c where x=="y)`:        "at 22: the quoted string has no end",
		`a,b=count(c where x=="\")`:       "at 22: the string holds a backslash",
		"a,b=count(c where x==1,d":        "at 23: want ) or and, found \",\"",
		"a,b=count(c where x in 1)":       "at 24: want [ and values, as in ['a','b'], found \"1\"",
		"a,b=count(c where x in [])":      "at 25: want true, false, an integer or a quoted string, found \"\"",
		"a,b=count(c where x in [1)":      "at 26: want ] or a comma, found \")\"",
		"a,b=count(c where x>true)":       "at 21: want an integer or a quoted string behind >",
		"a,b=count(c where x!=1)":         "at 21: want ==, in, >=, >, <= or <, found \"=\"",
		"a,b=count(c where x=={y)":        "at 22: want a wildcard of COUNTERS, such as {post}",
		"a,b=count(c where x>={y})":       "at 22: want true, false",
		"a,b=count(c where x>1 and y>2)":  "at 19: ranges of x and of y; want ranges of one field, and == or in for others",
		"a,b=count(c where a==1 and b==1 and c==1 and d==1 and e==1 and f==1)": "at 19: 6 conditions, and at most 5",
		"a,b=count(/c where p=={p} and x in [1,2,3,4,5,6,7,8,9,10,11])":        "at 20: 33 alternatives",
		"a,b=count(//c)":        "at 12: cannot be a collection",
		"a,b=count(**c)":        "at 11: a collection's name holds one of",
		"a,b=count(/c/d)":       "at 12: cannot be a collection",
		"a,num_shards=count(c)": "at 3: a counter's document has a field num_shards of its own",
		"a,a=count(c)":          "at 3: a has one of its names already",
		"a,=count(c)":           "at 3: a name is missing",
		many(maxFields + 1):     "21 fields",
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

// What is read is what was written, and no name in it breaks a path.
func FuzzParseFields(f *testing.F) {
	for _, list := range []string{DefaultFields, "likes, views=v", "a,b=count(c)", `a,b=sum(c.d.e where f=="g,\'h"),i`, "a,b=count(c where d==-1)", "a,b=count(c where d==true", "a,b=count(**/c where p=={p} and q in ['a',2])", "a,b=sum(/c.d where e>=1 and e<5)", "a,b=avg(c.d where e==1),f=sum(c.d) as double"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		fields, err := ParseFields(list)
		if err != nil {
			return
		}
		for _, field := range fields {
			if FieldPath(field.Name) == "``" || strings.ContainsAny(field.Name+field.Shard, ".`/") || (field.Shard == "") != (field.Counted != nil) {
				t.Errorf("%q gives %+v", list, field)
			}
		}
		again, err := ParseFields(fields.String())
		if diff := cmp.Diff(fields, again); err != nil || diff != "" {
			t.Errorf("%q is written as %q: %v (-was +is)\n%s", list, fields, err, diff)
		}
	})
}
