package conformance

import (
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

var limitScenarios = []scenario{
	{"ids", func(s *session) {
		long := strings.Repeat("x", 1500)
		for _, c := range []struct{ label, path string }{
			{"dot", "c/."}, {"two dots", "c/.."}, {"three dots", "c/..."}, {"empty", "c/"}, {"reserved", "c/__a__"},
			{"four underscores", "c/____"}, {"three underscores", "c/___"}, {"underscores in front", "c/__a"},
			{"a numeric id", "c/__id7__"}, {"a negative numeric id", "c/__id-7__"}, {"no numeric id", "c/__idx__"},
			{"a numeric id with a zero", "c/__id07__"},
			{"a reserved collection", "__c__/d"}, {"a numeric collection", "__id7__/d"}, {"a collection of dots", "../d"},
			{"1500 bytes", "c/" + long}, {"1501 bytes", "c/" + long + "x"}, {"1500 bytes of two each", "c/" + strings.Repeat("é", 750)},
			{"1502 bytes of two each", "c/" + strings.Repeat("é", 751)}, {"a long collection", long + "x/d"},
			{"a tab", "c/\ta"}, {"a space", "c/ "}, {"a percent sign", "c/%2F"}, {"a newline", "c/a\nb"}, {"zero", "c/\x00"},
			{"emoji", "c/😀"}, {"a star", "c/*"}, {"braces", "c/{d}"}, {"two slashes", "c//d"}, {"three ids", "c/d/e"},
			{"a long name", strings.Join([]string{"c", long, "c", long, "c", long, "c", long}, "/")},
			{"a longer name", strings.Join([]string{"c", long, "c", long, "c", long, "c", long, "c", long}, "/")},
			{"100 collections", strings.Repeat("c/d/", 99) + "c/d"},
			{"101 collections", strings.Repeat("c/d/", 100) + "c/d"},
		} {
			_, err := s.send(s.set(c.path, fields{"a": 1}))
			s.note(c.label, "ok", err)
		}
	}},
	{"field-names", func(s *session) {
		long := strings.Repeat("x", 1500)
		for _, c := range []struct {
			label string
			f     fields
		}{
			{"reserved", fields{"__a__": 1}}, {"four underscores", fields{"____": 1}}, {"three underscores", fields{"___": 1}},
			{"underscores in front", fields{"__a": 1}}, {"reserved below", fields{"a": fields{"__a__": 1}}},
			{"reserved in an array", fields{"a": []any{fields{"__a__": 1}}}},
			{"1500 bytes", fields{long: 1}}, {"1501 bytes", fields{long + "x": 1}}, {"1501 bytes below", fields{"a": fields{long + "x": 1}}},
			{"a path of 1500 bytes", fields{"a": fields{long[2:]: 1}}}, {"a path of 1501 bytes", fields{"a": fields{long[1:]: 1}}},
			{"a dot", fields{"a.b": 1}}, {"a backtick", fields{"`": 1}}, {"a space", fields{" ": 1}}, {"a slash", fields{"/": 1}},
			{"emoji", fields{"😀": 1}}, {"empty", fields{"": 1}}, {"empty below", fields{"a": fields{"": 1}}}, {"name", fields{"__name__": 1}},
		} {
			_, err := s.send(s.set("c/d", c.f))
			s.note(c.label, "ok", err)
		}
	}},
	{"depth", func(s *session) {
		nest := func(n int, wrap func(any) any) any {
			v := any(1)
			for range n {
				v = wrap(v)
			}
			return v
		}
		inMap := func(v any) any { return fields{"a": v} }
		inBoth := func(v any) any { return fields{"a": []any{v}} }
		for _, c := range []struct {
			label string
			v     any
		}{
			{"18 maps", nest(18, inMap)}, {"19 maps", nest(19, inMap)}, {"20 maps", nest(20, inMap)}, {"21 maps", nest(21, inMap)},
			{"9 maps and arrays", nest(9, inBoth)}, {"10 maps and arrays", nest(10, inBoth)}, {"11 maps and arrays", nest(11, inBoth)},
			{"19 maps and an array", nest(19, inMap).(fields)}, {"an array in 19 maps", func() any {
				v := any([]any{1})
				for range 19 {
					v = inMap(v)
				}
				return v
			}()}, {"an array in 20 maps", func() any {
				v := any([]any{1})
				for range 20 {
					v = inMap(v)
				}
				return v
			}()},
		} {
			_, err := s.send(s.set("c/d", fields{"v": c.v}))
			s.note(c.label, "ok", err)
		}
		path := func(n int) string { return strings.TrimSuffix(strings.Repeat("a.", n), ".") }
		for _, n := range []int{20, 21, 22} {
			_, err := s.send(transformed(s.patch("c/p", nil), increment(path(n), 1)))
			s.note("a path of "+strings.Repeat("|", n), "ok", err)
		}
	}},
	{"sizes", func(s *session) {
		text := func(n int) string { return strings.Repeat("x", n) }
		// Name: c/d is 16 + 2 + 2, the document 32, the field v 2, the string's end 1: 55 in all.
		const most = 1<<20 - 55
		for _, c := range []struct {
			label string
			f     fields
		}{
			{"the longest string", fields{"v": text(1048487)}},
			{"a longer string", fields{"v": text(1048488)}},
			{"the longest bytes", fields{"v": []byte(text(1048487))}},
			{"longer bytes", fields{"v": []byte(text(1048488))}},
			{"a full document", fields{"v": text(most / 2), "w": text(most - most/2 - 3)}},
			{"one byte more", fields{"v": text(most / 2), "w": text(most - most/2 - 2)}},
			{"a full document of two-byte letters", fields{"v": strings.Repeat("é", most/4), "w": strings.Repeat("é", most/4-2)}},
		} {
			_, err := s.send(s.set("c/d", c.f))
			s.note(c.label, "ok", err)
		}
		var writes []*pb.Write
		for range 11 {
			writes = append(writes, s.set("c/d", fields{"v": text(1 << 20 / 11 * 10)}))
		}
		_, err := s.send(writes...)
		s.note("a commit of about 10 MiB", "ok", err)
	}},
	{"counts", func(s *session) {
		var writes []*pb.Write
		for _, id := range numbered("%d", 501) {
			writes = append(writes, s.set("c/"+id, fields{"a": 1}))
		}
		_, err := s.send(writes...)
		s.note("501 writes", "ok", err)
		var transforms []*fieldTransform
		for range 500 {
			transforms = append(transforms, increment("n", 1))
		}
		_, err = s.send(transformed(s.patch("c/d", nil), transforms...))
		s.note("500 transforms", "ok", err)
		_, err = s.send(transformed(s.patch("c/d", nil), append(transforms, increment("n", 1))...))
		s.note("501 transforms", "ok", err)
		_, err = s.send(transformed(s.patch("c/d", nil), transforms...), transformed(s.patch("c/d", nil), increment("n", 1)))
		s.note("501 transforms in two writes", "ok", err)
		_, err = s.send(transformed(s.patch("c/d", nil), transforms...), transformed(s.patch("c/e", nil), transforms...))
		s.note("500 transforms of each of two documents", "ok", err)
	}},
}
