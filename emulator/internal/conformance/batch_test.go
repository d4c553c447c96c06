package conformance

import (
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
)

// batch notes the statuses of a BatchWrite.
func (s *session) batch(label string, writes ...*pb.Write) {
	resp, err := s.api.BatchWrite(s.ctx, &pb.BatchWriteRequest{Database: s.db, Writes: writes})
	text := []string{}
	for i, st := range resp.GetStatus() {
		text = append(text, codes.Code(st.Code).String()+s.resultsText(resp.WriteResults[i:i+1]))
	}
	s.note(label, text, err)
}

var batchScenarios = []scenario{
	{"batch-writes", func(s *session) {
		s.batch("nothing")
		s.batch("each on its own", s.set("c/a", fields{"n": 1}), exists(s.set("c/b", fields{"n": 1}), true), transformed(s.patch("c/c", nil), increment("n", 1)))
		s.get("the first", "c/a")
		s.get("the second", "c/b")
		s.get("the third", "c/c")
		s.batch("the same document twice", s.set("c/d", fields{"n": 1}), s.set("c/d", fields{"n": 2}))
		s.get("is not written", "c/d")
		s.batch("one makes no sense", s.set("c/e", fields{"n": 1}), s.set("c/f", fields{"__n__": 1}))
		s.get("neither is written", "c/e")
		s.batch("deletes", s.remove("c/a"), s.remove("c/none"), exists(s.remove("c/none2"), true))
		s.batch("made twice", exists(s.set("c/c", fields{"n": 1}), false))
	}},
	{"batch-gets", func(s *session) {
		s.given(s.set("c/a", fields{"n": 1, "m": fields{"x": 1, "y": 2}}))
		read := func(label string, req *pb.BatchGetDocumentsRequest, paths ...string) {
			req.Database = s.db
			for _, p := range paths {
				req.Documents = append(req.Documents, s.name(p))
			}
			stream, err := s.api.BatchGetDocuments(s.ctx, req)
			s.must(err)
			text := []string{}
			var resp *pb.BatchGetDocumentsResponse
			for {
				if resp, err = stream.Recv(); err != nil {
					break
				}
				switch r := resp.Result.(type) {
				case *pb.BatchGetDocumentsResponse_Found:
					text = append(text, "found "+s.paths([]*pb.Document{r.Found})[0]+" "+s.fieldsText(r.Found.Fields))
				case *pb.BatchGetDocumentsResponse_Missing:
					text = append(text, "missing "+r.Missing[len(s.root())+1:])
				default:
					text = append(text, "nothing")
				}
				if resp.ReadTime == nil {
					text = append(text, "without a time")
				}
				if len(resp.Transaction) > 0 {
					text = append(text, "in a transaction")
				}
			}
			s.note(label, text, eof(err))
		}
		read("found", &pb.BatchGetDocumentsRequest{}, "c/a")
		read("missing", &pb.BatchGetDocumentsRequest{}, "c/none")
		read("the same twice", &pb.BatchGetDocumentsRequest{}, "c/a", "c/a")
		read("nothing", &pb.BatchGetDocumentsRequest{})
		read("a masked field", &pb.BatchGetDocumentsRequest{Mask: &pb.DocumentMask{FieldPaths: []string{"m.x", "q"}}}, "c/a")
		read("an empty mask", &pb.BatchGetDocumentsRequest{Mask: &pb.DocumentMask{}}, "c/a")
		read("a mask of the name", &pb.BatchGetDocumentsRequest{Mask: &pb.DocumentMask{FieldPaths: []string{"__name__"}}}, "c/a")
		read("a bad name", &pb.BatchGetDocumentsRequest{}, "c")
		read("a bad mask", &pb.BatchGetDocumentsRequest{Mask: &pb.DocumentMask{FieldPaths: []string{"a..b"}}}, "c/a")
		read("a new transaction", &pb.BatchGetDocumentsRequest{ConsistencySelector: &pb.BatchGetDocumentsRequest_NewTransaction{
			NewTransaction: &pb.TransactionOptions{}}}, "c/none")
		read("an empty read in a new transaction", &pb.BatchGetDocumentsRequest{ConsistencySelector: &pb.BatchGetDocumentsRequest_NewTransaction{
			NewTransaction: &pb.TransactionOptions{}}})
	}},
}
