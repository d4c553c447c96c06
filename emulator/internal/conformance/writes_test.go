package conformance

import (
	"strings"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var writeScenarios = []scenario{
	{"masks", func(s *session) {
		start := func() { s.given(s.set("c/d", fields{"a": 1, "b": fields{"x": 1, "y": 2}})) }
		for _, c := range []struct {
			label string
			write *pb.Write
		}{
			{"no mask replaces", s.set("c/d", fields{"c": 3})},
			{"an empty mask touches nothing", s.patch("c/d", fields{"c": 3})},
			{"a masked field", s.patch("c/d", fields{"a": 2, "c": 3}, "a")},
			{"a masked field without value is deleted", s.patch("c/d", fields{"c": 3}, "a")},
			{"a nested field", s.patch("c/d", fields{"b": fields{"x": 9, "z": 9}}, "b.x")},
			{"a nested field is deleted", s.patch("c/d", fields{}, "b.x")},
			{"the last nested fields are deleted", s.patch("c/d", fields{}, "b.x", "b.y")},
			{"a field below a number", s.patch("c/d", fields{"a": fields{"x": 1}}, "a.x")},
			{"a deletion below a number", s.patch("c/d", fields{}, "a.x")},
			{"a deletion below nothing", s.patch("c/d", fields{}, "q.x")},
			{"a quoted path", s.patch("c/d", fields{"a.b": 1, "`": 2}, "`a.b`", "`\\``")},
			{"a path and one below it", s.patch("c/d", fields{"b": fields{"x": 7}}, "b", "b.x")},
			{"the same path twice", s.patch("c/d", fields{"a": 7}, "a", "a")},
			{"an empty path", s.patch("c/d", fields{"a": 7}, "")},
			{"a path with an empty part", s.patch("c/d", fields{"a": 7}, "b..x")},
			{"a path that needs quotes", s.patch("c/d", fields{"a-b": 7}, "a-b")},
			{"a path that begins with a digit", s.patch("c/d", fields{"1a": 7}, "1a")},
			{"the name", s.patch("c/d", fields{"a": 7}, "__name__")},
			{"an empty map", s.patch("c/d", fields{"b": fields{}}, "b")},
			{"a masked value below a deleted one", s.patch("c/d", fields{"b": fields{}}, "b.x")},
		} {
			start()
			_, err := s.send(c.write)
			s.note(c.label, "ok", err)
			doc, err := s.document(&pb.BatchGetDocumentsRequest{}, "c/d")
			s.note(c.label+", then", doc.GetFields(), err)
		}
		s.commit("an empty mask makes a document", s.patch("c/new", fields{"a": 1}))
		s.get("which is empty", "c/new")
		s.commit("a mask makes a document", s.patch("c/new2", fields{"a": 1, "b": 2}, "a", "c"))
		s.get("with one field", "c/new2")
	}},
	{"update-times", func(s *session) {
		s.commit("made", s.set("c/d", fields{"a": 1, "f": 1.0, "n": fields{"x": 1}}))
		s.commit("the same again", s.set("c/d", fields{"a": 1, "f": 1.0, "n": fields{"x": 1}}))
		s.commit("the same field again", s.patch("c/d", fields{"a": 1}, "a"))
		s.commit("an increment by nothing", transformed(s.patch("c/d", nil), increment("a", 0)))
		s.commit("an increment by 0.0", transformed(s.patch("c/d", nil), increment("f", 0.0)))
		s.commit("a deletion of what is not there", s.patch("c/d", nil, "q"))
		s.commit("an empty mask", s.patch("c/d", fields{"q": 1}))
		s.get("unchanged", "c/d")
		s.commit("an int where a double was", s.patch("c/d", fields{"f": 1}, "f"))
		s.get("changed", "c/d")
		s.commit("there and back", s.patch("c/d", fields{"a": 2}, "a"), s.patch("c/d", fields{"a": 1}, "a"))
		s.get("unchanged after there and back", "c/d")
		s.commit("deleted and made in one commit", s.remove("c/d"), s.set("c/d", fields{"a": 1}))
		s.get("made anew", "c/d")
		s.commit("deleted", s.remove("c/d"))
		s.commit("deleted again", s.remove("c/d"))
		s.get("gone", "c/d")
		s.commit("made and deleted in one commit", s.set("c/d", fields{"a": 1}), s.remove("c/d"))
		s.get("not there", "c/d")
		s.commit("made again", s.set("c/d", fields{"a": 1}))
		s.get("with a new time", "c/d")
		resp, err := s.send()
		s.note("nothing is committed at a time", resp.GetCommitTime() != nil, err)
	}},
	{"preconditions", func(s *session) {
		made := s.given(s.set("c/d", fields{"a": 1}), s.set("c/e", fields{"a": 1}))
		first := made.WriteResults[0].UpdateTime
		at := func(w *pb.Write, t *timestamppb.Timestamp) *pb.Write {
			w.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_UpdateTime{UpdateTime: t}}
			return w
		}
		s.commit("create what exists", exists(s.set("c/d", fields{"a": 2}), false))
		s.commit("create", exists(s.set("c/new", fields{"a": 2}), false))
		s.commit("update what exists", exists(s.set("c/d", fields{"a": 2}), true))
		s.commit("update what is missing", exists(s.set("c/none", fields{"a": 2}), true))
		s.commit("delete what is missing", exists(s.remove("c/none"), true))
		s.commit("delete if it does not exist", exists(s.remove("c/d"), false))
		s.commit("delete if it does not exist, and it doesn't", exists(s.remove("c/none"), false))
		s.commit("an old time", at(s.set("c/d", fields{"a": 3}), first))
		s.commit("the right time", at(s.set("c/e", fields{"a": 3}), first))
		s.commit("no more the right time", at(s.remove("c/e"), first))
		s.commit("the time of a missing document", at(s.set("c/none", fields{"a": 3}), first))
		s.commit("a time in nanoseconds", at(s.set("c/e", fields{"a": 3}), &timestamppb.Timestamp{Seconds: first.Seconds, Nanos: first.Nanos + 1}))
		s.commit("an empty precondition", func() *pb.Write {
			w := s.set("c/e", fields{"a": 4})
			w.CurrentDocument = &pb.Precondition{}
			return w
		}())
		s.commit("one of two fails", s.set("c/e", fields{"a": 5}), exists(s.set("c/d", fields{"a": 5}), false))
		s.get("neither is written", "c/e")
		s.commit("made and then updated", exists(s.set("c/two", fields{"a": 1}), false), exists(s.patch("c/two", fields{"b": 1}, "b"), true))
		s.get("both are written", "c/two")
		s.commit("made twice", exists(s.set("c/twice", fields{"a": 1}), false), exists(s.set("c/twice", fields{"a": 2}), false))
		s.get("not made at all", "c/twice")
		s.commit("deleted and then updated", s.remove("c/two"), exists(s.patch("c/two", fields{"b": 2}, "b"), true))
		s.get("still there", "c/two")
		s.commit("a no-op with the right time", at(s.set("c/d", fields{"a": 2}), s.get("before", "c/d").UpdateTime))
	}},
	{"contradictions", func(s *session) {
		// Each is told whether its document exists before the commit; the first write of the commit
		// changes that.
		now := func(w *pb.Write, path string) *pb.Write {
			doc, err := s.document(&pb.BatchGetDocumentsRequest{}, path)
			s.must(err)
			w.CurrentDocument = &pb.Precondition{ConditionType: &pb.Precondition_UpdateTime{UpdateTime: doc.UpdateTime}}
			return w
		}
		s.given(s.set("c/1", fields{"a": 1}), s.set("c/2", fields{"a": 1}), s.set("c/3", fields{"a": 1}), s.set("c/4", fields{"a": 1}), s.set("c/5", fields{"a": 1}), s.set("c/6", fields{"a": 1}), s.set("c/7", fields{"a": 1}))
		s.commit("set, then created", s.set("c/new1", fields{"a": 1}), exists(s.set("c/new1", fields{"a": 2}), false))
		s.commit("updated, then created", exists(s.set("c/1", fields{"a": 1}), true), exists(s.set("c/1", fields{"a": 2}), false))
		s.commit("created, then updated", exists(s.set("c/new2", fields{"a": 1}), false), exists(s.set("c/new2", fields{"a": 2}), true))
		s.commit("created, then set", exists(s.set("c/new3", fields{"a": 1}), false), s.set("c/new3", fields{"a": 2}))
		s.commit("created, then deleted if it exists", exists(s.set("c/new4", fields{"a": 1}), false), exists(s.remove("c/new4"), true))
		s.commit("created, then deleted", exists(s.set("c/new5", fields{"a": 1}), false), s.remove("c/new5"))
		s.commit("deleted, then created", s.remove("c/2"), exists(s.set("c/2", fields{"a": 2}), false))
		s.commit("deleted, then set", s.remove("c/3"), s.set("c/3", fields{"a": 2}))
		s.commit("deleted, then deleted", s.remove("c/4"), s.remove("c/4"))
		s.commit("deleted, then deleted if it exists", s.remove("c/5"), exists(s.remove("c/5"), true))
		s.commit("set, then deleted if it does not exist", s.set("c/new6", fields{"a": 1}), exists(s.remove("c/new6"), false))
		s.commit("set, then updated at its time", s.set("c/6", fields{"a": 2}), now(s.set("c/6", fields{"a": 3}), "c/6"))
		s.commit("set to the same, then updated at its time", s.set("c/7", fields{"a": 1}), now(s.set("c/7", fields{"a": 3}), "c/7"))
		s.commit("updated if it exists, then at its time", exists(s.set("c/7", fields{"a": 4}), true), now(s.set("c/7", fields{"a": 5}), "c/7"))
		s.commit("updated at its time, then set", now(s.set("c/7", fields{"a": 4}), "c/7"), s.set("c/7", fields{"a": 5}))
		s.commit("updated at its time, then if it exists", now(s.set("c/7", fields{"a": 4}), "c/7"), exists(s.set("c/7", fields{"a": 5}), true))
		s.commit("updated at its time twice", now(s.set("c/1", fields{"a": 5}), "c/1"), now(s.set("c/1", fields{"a": 6}), "c/1"))
		for i, path := range numbered("t/%d", 12) {
			s.given(s.set(path, fields{"a": i}))
		}
		s.commit("deleted at its time, then set", now(s.remove("t/0"), "t/0"), s.set("t/0", fields{"a": 9}))
		s.commit("deleted at its time, then set at its time", now(s.remove("t/1"), "t/1"), now(s.set("t/1", fields{"a": 9}), "t/1"))
		s.commit("deleted at its time, then patched at its time", now(s.remove("t/2"), "t/2"), now(s.patch("t/2", fields{"a": 9}, "a"), "t/2"))
		s.commit("deleted at its time, then created", now(s.remove("t/3"), "t/3"), exists(s.set("t/3", fields{"a": 9}), false))
		s.commit("deleted at its time twice", now(s.remove("t/4"), "t/4"), now(s.remove("t/4"), "t/4"))
		s.commit("deleted at its time, then deleted", now(s.remove("t/5"), "t/5"), s.remove("t/5"))
		s.commit("set at its time, then deleted at its time", now(s.set("t/6", fields{"a": 9}), "t/6"), now(s.remove("t/6"), "t/6"))
		s.commit("set at its time, deleted, then set at its time", now(s.set("t/7", fields{"a": 9}), "t/7"), s.remove("t/7"), now(s.set("t/7", fields{"a": 10}), "t/7"))
		s.commit("deleted at its time, created, then set at its time", now(s.remove("t/8"), "t/8"), exists(s.set("t/8", fields{"a": 9}), false), now(s.set("t/8", fields{"a": 10}), "t/8"))
		s.commit("deleted at its time, set, then set at its time", now(s.remove("t/9"), "t/9"), s.set("t/9", fields{"a": 9}), now(s.set("t/9", fields{"a": 10}), "t/9"))
		s.commit("deleted at its time, then transformed at its time", now(s.remove("t/10"), "t/10"), now(transformed(s.patch("t/10", nil), increment("a", 1)), "t/10"))
		s.commit("deleted, then set at its time", s.remove("t/11"), now(s.set("t/11", fields{"a": 9}), "t/11"))
	}},
	{"values", func(s *session) {
		when := time.Date(2020, 1, 2, 3, 4, 5, 123456789, time.UTC)
		for _, c := range []struct {
			label string
			v     any
		}{
			{"timestamp is cut", when},
			{"the first timestamp", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
			{"the last timestamp", time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)},
			{"beyond the last timestamp", &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: &timestamppb.Timestamp{Seconds: 253402300800}}}},
			{"negative nanoseconds", &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: &timestamppb.Timestamp{Nanos: -1}}}},
			{"null", nil},
			{"empty array", []any{}},
			{"empty map", fields{}},
			{"empty bytes", []byte{}},
			{"array of maps of arrays", []any{fields{"a": []any{1}}}},
			{"array in array", []any{[]any{1}}},
			{"geo point", geo(90, -180)},
			{"geo point off the globe", geo(90.1, 0)},
			{"reference", ref(s.name("c/x"))},
			{"reference to another project", ref("projects/other/databases/(default)/documents/c/x")},
			{"reference to a collection", ref(s.name("c"))},
			{"reference to anything", ref("x")},
			{"no value", &pb.Value{}},
			{"minus zero", negativeZero},
			{"not a number", nan},
			{"infinity", infinity},
			{"an empty field name", fields{"": 1}},
			{"a vector", fields{"__type__": "__vector__", "value": []any{1.0, 2.0}}},
			{"a vector without values", fields{"__type__": "__vector__", "value": []any{}}},
			{"a vector of words", fields{"__type__": "__vector__", "value": []any{"a"}}},
		} {
			_, err := s.send(s.set("c/d", fields{"v": c.v}))
			var kept map[string]*pb.Value
			if err == nil {
				doc, err := s.document(&pb.BatchGetDocumentsRequest{}, "c/d")
				s.must(err)
				kept = doc.GetFields()
			}
			s.note(c.label, kept, err)
		}
	}},
	{"malformed-writes", func(s *session) {
		s.commit("no operation", &pb.Write{})
		s.commit("a delete with a mask", func() *pb.Write {
			w := s.remove("c/d")
			w.UpdateMask = &pb.DocumentMask{FieldPaths: []string{"a"}}
			return w
		}())
		s.commit("a delete with a transform", transformed(s.remove("c/d"), increment("a", 1)))
		s.commit("a transform with a transform", transformed(&pb.Write{Operation: &pb.Write_Transform{
			Transform: &pb.DocumentTransform{Document: s.name("c/d")}}}, increment("a", 1)))
		s.commit("no name", &pb.Write{Operation: &pb.Write_Update{Update: &pb.Document{}}})
		s.commit("a collection's name", s.set("c", fields{"a": 1}))
		_, err := s.send(&pb.Write{Operation: &pb.Write_Delete{Delete: "projects/other/databases/(default)/documents/c/d"}})
		s.note("another project", "ok", err)
		_, err = s.send(&pb.Write{Operation: &pb.Write_Delete{Delete: strings.Replace(s.name("c/d"), "(default)", "other", 1)}})
		s.note("another database", "ok", err)
		_, err = s.api.Commit(s.ctx, &pb.CommitRequest{Database: "nonsense"})
		s.note("a database that is none", "ok", err)
		_, err = s.api.Commit(s.ctx, &pb.CommitRequest{})
		s.note("no database", "ok", err)
		s.commit("a transform write", &pb.Write{Operation: &pb.Write_Transform{Transform: &pb.DocumentTransform{
			Document: s.name("c/t"), FieldTransforms: []*pb.DocumentTransform_FieldTransform{increment("a", 2)}}}})
		s.get("makes a document", "c/t")
		s.commit("an empty transform write", &pb.Write{Operation: &pb.Write_Transform{Transform: &pb.DocumentTransform{Document: s.name("c/t2")}}})
		s.get("makes an empty document, or none", "c/t2")
	}},
	{"unary-writes", func(s *session) {
		create := func(label, collection, id string, f fields) {
			doc, err := s.api.CreateDocument(s.ctx, &pb.CreateDocumentRequest{
				Parent: s.root(), CollectionId: collection, DocumentId: id, Document: &pb.Document{Fields: values(f)}})
			s.note(label, doc, err)
		}
		create("create", "c", "d", fields{"a": 1})
		create("create again", "c", "d", fields{"a": 2})
		create("a bad id", "c", "a/b", fields{"a": 2})
		create("no collection", "", "d", fields{"a": 2})
		doc, err := s.api.CreateDocument(s.ctx, &pb.CreateDocumentRequest{Parent: s.root(), CollectionId: "c", Document: &pb.Document{}})
		s.must(err)
		s.note("a chosen id has 20 letters", len(doc.Name) == len(s.name("c/"))+20, nil)
		doc, err = s.api.UpdateDocument(s.ctx, &pb.UpdateDocumentRequest{
			Document: &pb.Document{Name: s.name("c/d"), Fields: values(fields{"b": 2})}, UpdateMask: &pb.DocumentMask{FieldPaths: []string{"b"}}})
		s.note("update", doc, err)
		doc, err = s.api.GetDocument(s.ctx, &pb.GetDocumentRequest{Name: s.name("c/d"), Mask: &pb.DocumentMask{FieldPaths: []string{"b"}}})
		s.note("get with a mask", doc, err)
		doc, err = s.api.GetDocument(s.ctx, &pb.GetDocumentRequest{Name: s.name("c/d"), Mask: &pb.DocumentMask{}})
		s.note("get with an empty mask", doc, err)
		_, err = s.api.GetDocument(s.ctx, &pb.GetDocumentRequest{Name: s.name("c/none")})
		s.note("get what is missing", "found", err)
		_, err = s.api.GetDocument(s.ctx, &pb.GetDocumentRequest{Name: s.name("c")})
		s.note("get a collection", "found", err)
		_, err = s.api.DeleteDocument(s.ctx, &pb.DeleteDocumentRequest{Name: s.name("c/none")})
		s.note("delete what is missing", "ok", err)
		_, err = s.api.DeleteDocument(s.ctx, &pb.DeleteDocumentRequest{Name: s.name("c/none"),
			CurrentDocument: &pb.Precondition{ConditionType: &pb.Precondition_Exists{Exists: true}}})
		s.note("delete what must exist and is missing", "ok", err)
	}},
}
