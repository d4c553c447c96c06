package conformance

import (
	"fmt"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// list notes the pages of a ListDocuments.
func (s *session) list(label string, req *pb.ListDocumentsRequest) {
	if req.Parent == "" {
		req.Parent = s.root()
	}
	pages := []string{}
	for {
		resp, err := s.api.ListDocuments(s.ctx, req)
		if err != nil {
			s.note(label, nil, err)
			return
		}
		text := []string{}
		for _, d := range resp.Documents {
			t := s.paths([]*pb.Document{d})[0] + s.fieldsText(d.Fields)
			if d.CreateTime == nil {
				t += "?" // there is no such document
			}
			text = append(text, t)
		}
		pages = append(pages, "["+strings.Join(text, " ")+"]")
		if req.PageToken = resp.NextPageToken; req.PageToken == "" || len(pages) == 9 {
			s.note(label, pages, nil)
			return
		}
	}
}

// collections notes the pages of a ListCollectionIds.
func (s *session) collections(label, parent string, size int32) {
	req := &pb.ListCollectionIdsRequest{Parent: parent, PageSize: size}
	pages := []string{}
	for {
		resp, err := s.api.ListCollectionIds(s.ctx, req)
		if err != nil {
			s.note(label, nil, err)
			return
		}
		pages = append(pages, s.text(resp.CollectionIds))
		if req.PageToken = resp.NextPageToken; req.PageToken == "" || len(pages) == 9 {
			s.note(label, pages, nil)
			return
		}
	}
}

var listScenarios = []scenario{
	{"lists", func(s *session) {
		s.given(s.set("c/a", fields{"n": 1, "m": 2}), s.set("c/b", fields{"n": 2}), s.set("c/x/d/e", nil), s.set("c/y/d/e/f/g", nil), s.set("c/z", nil), s.set("c/a/d/e", nil))
		s.list("all", &pb.ListDocumentsRequest{CollectionId: "c"})
		s.list("pages of one", &pb.ListDocumentsRequest{CollectionId: "c", PageSize: 1})
		s.list("pages of two", &pb.ListDocumentsRequest{CollectionId: "c", PageSize: 2})
		s.list("one full page", &pb.ListDocumentsRequest{CollectionId: "c", PageSize: 3})
		s.list("missing ones too", &pb.ListDocumentsRequest{CollectionId: "c", ShowMissing: true})
		s.list("missing ones too, in pages", &pb.ListDocumentsRequest{CollectionId: "c", ShowMissing: true, PageSize: 2})
		s.list("a mask", &pb.ListDocumentsRequest{CollectionId: "c", Mask: &pb.DocumentMask{FieldPaths: []string{"n"}}})
		s.list("an empty mask", &pb.ListDocumentsRequest{CollectionId: "c", Mask: &pb.DocumentMask{}})
		s.list("below a missing document", &pb.ListDocumentsRequest{Parent: s.name("c/x"), CollectionId: "d"})
		s.list("none", &pb.ListDocumentsRequest{CollectionId: "none"})
		s.list("all collections", &pb.ListDocumentsRequest{})
		s.list("a bad token", &pb.ListDocumentsRequest{CollectionId: "c", PageToken: "!"})
		s.list("a negative page", &pb.ListDocumentsRequest{CollectionId: "c", PageSize: -1})
		s.list("in order of a field", &pb.ListDocumentsRequest{CollectionId: "c", OrderBy: "n desc"})
		s.list("in order of names", &pb.ListDocumentsRequest{CollectionId: "c", OrderBy: "__name__"})
		s.list("in order of names, down", &pb.ListDocumentsRequest{CollectionId: "c", OrderBy: "__name__ desc"})
		s.list("missing ones in order", &pb.ListDocumentsRequest{CollectionId: "c", ShowMissing: true, OrderBy: "n"})
		s.list("a collection as parent", &pb.ListDocumentsRequest{Parent: s.name("c"), CollectionId: "c"})
		s.given(s.remove("c/x/d/e"))
		s.list("nothing below it any more", &pb.ListDocumentsRequest{CollectionId: "c", ShowMissing: true})
		refs, err := s.client.Collection("c").DocumentRefs(s.ctx).GetAll()
		s.must(err)
		ids := []string{}
		for _, r := range refs {
			ids = append(ids, r.ID)
		}
		s.note("the client's references", ids, nil)
	}},
	{"collection-ids", func(s *session) {
		s.collections("an empty database", s.root(), 0)
		s.given(s.set("b/1", nil), s.set("a/1", nil), s.set("B/1", nil), s.set("é/1", nil), s.set("deep/1/deeper/2", nil), s.set("a/1/sub/1", nil), s.set("a/1/other/1", nil), s.set("a/2", nil))
		s.collections("at the root", s.root(), 0)
		s.collections("in pages", s.root(), 2)
		s.collections("below a document", s.name("a/1"), 0)
		s.collections("below a missing document", s.name("deep/1"), 0)
		s.collections("below nothing", s.name("a/2"), 0)
		s.collections("below a collection", s.name("a"), 0)
		s.collections("a negative page", s.root(), -1)
		s.given(s.remove("b/1"), s.remove("deep/1/deeper/2"))
		s.collections("after deletions", s.root(), 0)
	}},
	{"large-lists", func(s *session) {
		var writes []*pb.Write
		for _, id := range numbered("%04d", 400) {
			writes = append(writes, s.set("c/"+id, nil))
		}
		s.given(writes...)
		for _, size := range []int32{0, 350, 1000} {
			resp, err := s.api.ListDocuments(s.ctx, &pb.ListDocumentsRequest{Parent: s.root(), CollectionId: "c", PageSize: size})
			s.note(fmt.Sprintf("documents on a page of %d", size), len(resp.GetDocuments()), err)
		}
		refs, err := s.client.Collection("c").DocumentRefs(s.ctx).GetAll()
		s.note("the client lists all", len(refs), err)
	}},
}
