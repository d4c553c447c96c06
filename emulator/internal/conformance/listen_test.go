package conformance

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// changesText is a snapshot of a query: its size, and what has changed.
func (s *session) changesText(snap *firestore.QuerySnapshot) []string {
	kinds := map[firestore.DocumentChangeKind]string{firestore.DocumentAdded: "added", firestore.DocumentModified: "modified", firestore.DocumentRemoved: "removed"}
	out := []string{fmt.Sprint(snap.Size)}
	for _, c := range snap.Changes {
		out = append(out, fmt.Sprintf("%s %s %s %d>%d", kinds[c.Kind], c.Doc.Ref.ID, s.fieldsText(values(c.Doc.Data())), c.OldIndex, c.NewIndex))
	}
	return out
}

// watch notes a query's snapshots, the first one and one after each commit.
func (s *session) watch(q firestore.Query, commits ...[]*pb.Write) {
	it := q.Snapshots(s.ctx)
	defer it.Stop()
	snap, err := it.Next()
	s.must(err)
	s.note("at first", s.changesText(snap), nil)
	for i, writes := range commits {
		s.given(writes...)
		snap, err := it.Next()
		s.must(err)
		s.note(fmt.Sprintf("after commit %d", i+1), s.changesText(snap), nil)
	}
}

var listenScenarios = []scenario{
	{"document-snapshots", func(s *session) {
		it := s.client.Doc("c/d").Snapshots(s.ctx)
		defer it.Stop()
		next := func(label string) {
			snap, err := it.Next()
			s.note(label, snap, err)
		}
		next("missing at first")
		s.given(s.set("c/d", fields{"n": 1}))
		next("made")
		s.given(s.patch("c/d", fields{"n": 2}, "n"))
		next("changed")
		s.given(s.patch("c/d", fields{"n": 2}, "n"))
		s.given(s.set("c/e", fields{"n": 2}))
		s.given(s.patch("c/d", fields{"n": 3}, "n"))
		next("changed, after a write that changed nothing")
		s.given(s.remove("c/d"))
		next("deleted")
		s.given(s.set("c/d", fields{"n": 4}))
		next("made again")
		s.given(s.remove("c/d"), s.set("c/d", fields{"n": 5}))
		next("made anew in one commit")
	}},
	{"query-snapshots", func(s *session) {
		s.given(s.set("c/a", fields{"n": 1}), s.set("c/b", fields{"n": 2}))
		s.watch(s.client.Collection("c").Query,
			[]*pb.Write{s.set("c/c", fields{"n": 3})},
			[]*pb.Write{s.patch("c/a", fields{"n": 9}, "n"), s.remove("c/b")},
			[]*pb.Write{s.set("c/d", fields{"n": 1}), s.set("c/e", fields{"n": 1}), s.remove("c/a")},
		)
	}},
	{"filtered-snapshots", func(s *session) {
		s.given(s.set("c/a", fields{"n": 1}), s.set("c/b", fields{"n": 2}))
		s.watch(s.client.Collection("c").Where("n", ">", 1).OrderBy("n", firestore.Desc),
			[]*pb.Write{s.patch("c/a", fields{"n": 3}, "n")},
			[]*pb.Write{s.patch("c/b", fields{"n": 1}, "n")},
			[]*pb.Write{s.patch("c/a", fields{"n": 7, "m": 1}, "n", "m"), s.set("c/z", fields{"n": 5})},
			[]*pb.Write{s.remove("c/a")},
		)
	}},
	{"limited-snapshots", func(s *session) {
		s.given(s.set("c/a", fields{"n": 1}), s.set("c/b", fields{"n": 2}), s.set("c/c", fields{"n": 3}))
		s.watch(s.client.Collection("c").OrderBy("n", firestore.Asc).Limit(2),
			[]*pb.Write{s.remove("c/a")},
			[]*pb.Write{s.set("c/z", fields{"n": 0})},
			[]*pb.Write{s.patch("c/z", fields{"n": 10}, "n")},
		)
	}},
	{"group-snapshots", func(s *session) {
		s.watch(s.client.CollectionGroup("shards").Query,
			[]*pb.Write{s.set("counters/a/shards/0", fields{"n": 1})},
			[]*pb.Write{s.set("counters/b/shards/0", fields{"n": 1}), transformed(s.patch("counters/a/shards/0", nil), increment("n", 1))},
		)
	}},
	{"listen-messages", func(s *session) {
		ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
		defer cancel()
		stream, err := s.api.Listen(ctx)
		s.must(err)
		l := &listener{session: s, stream: stream, known: map[int32]map[string]bool{}, current: map[int32]bool{}}
		query := func(id int32, collection string) *pb.Target {
			return &pb.Target{TargetId: id, TargetType: &pb.Target_Query{Query: &pb.Target_QueryTarget{
				Parent: s.root(), QueryType: &pb.Target_QueryTarget_StructuredQuery{StructuredQuery: from(collection)}}}}
		}
		start := s.given(s.set("c/a", fields{"n": 1})).CommitTime
		l.add(&pb.Target{TargetId: 2, TargetType: &pb.Target_Documents{Documents: &pb.Target_DocumentsTarget{
			Documents: []string{s.name("c/a"), s.name("c/b")}}}})
		l.settle("two documents, one missing", 2, start)
		l.add(query(4, "c"))
		l.settle("a query", 4, start)
		l.add(query(6, "d"))
		l.settle("a query without results", 6, start)
		l.settle("made", 6, s.given(s.set("c/b", fields{"n": 1}), s.set("d/x", nil)).CommitTime)
		l.settle("deleted", 6, s.given(s.remove("c/a")).CommitTime)
		l.settle("deleted and made", 6, s.given(s.remove("c/b"), s.set("c/a", nil), s.set("c/c", nil)).CommitTime)
		l.send(&pb.ListenRequest{TargetChange: &pb.ListenRequest_RemoveTarget{RemoveTarget: 2}})
		l.removed("removed", 2)
		l.settle("the others go on", 6, s.given(s.set("c/b", nil)).CommitTime)
		l.add(query(8, "a/b"))
		l.removed("a query that makes no sense", 8)
		l.settle("harms no other", 6, s.given(s.remove("c/b")).CommitTime)
	}},
	{"listen-targets", func(s *session) {
		at := s.given(s.set("c/a", fields{"n": 1}), s.set("c/b", fields{"n": 2})).CommitTime
		query := func(id int32) *pb.Target {
			return &pb.Target{TargetId: id, TargetType: &pb.Target_Query{Query: &pb.Target_QueryTarget{
				Parent: s.root(), QueryType: &pb.Target_QueryTarget_StructuredQuery{StructuredQuery: from("c")}}}}
		}
		// said are the messages of a stream of its own, until the target is of one time with the others, or the stream
		// ends.
		said := func(label string, requests ...*pb.ListenRequest) {
			ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
			defer cancel()
			stream, err := s.api.Listen(ctx)
			s.must(err)
			for _, r := range requests {
				r.Database = s.db
				s.must(stream.Send(r))
			}
			text := []string{}
			current := false
			for {
				resp, err := stream.Recv()
				if err != nil {
					s.Logf("%s: %v", label, err)
					text = append(text, status.Code(err).String())
					break
				}
				switch r := resp.ResponseType.(type) {
				case *pb.ListenResponse_TargetChange:
					c := r.TargetChange
					if c.TargetChangeType == pb.TargetChange_NO_CHANGE && len(c.TargetIds) == 0 {
						if current && !c.ReadTime.AsTime().Before(at.AsTime()) {
							s.note(label, text, nil)
							return
						}
						continue
					}
					current = current || c.TargetChangeType == pb.TargetChange_CURRENT
					line := fmt.Sprint(c.TargetChangeType, c.TargetIds)
					if c.Cause != nil {
						s.Logf("%s: %s", label, c.Cause.Message)
						line += codes.Code(c.Cause.Code).String()
					}
					text = append(text, line)
					if c.TargetChangeType == pb.TargetChange_REMOVE {
						s.note(label, text, nil)
						return
					}
				case *pb.ListenResponse_DocumentChange:
					text = append(text, fmt.Sprint("+", s.paths([]*pb.Document{r.DocumentChange.Document})[0], r.DocumentChange.TargetIds))
				case *pb.ListenResponse_DocumentDelete:
					text = append(text, fmt.Sprint("-", strings.TrimPrefix(r.DocumentDelete.Document, s.root()+"/"), r.DocumentDelete.RemovedTargetIds))
				case *pb.ListenResponse_DocumentRemove:
					text = append(text, fmt.Sprint("-", strings.TrimPrefix(r.DocumentRemove.Document, s.root()+"/"), r.DocumentRemove.RemovedTargetIds))
				case *pb.ListenResponse_Filter:
					text = append(text, fmt.Sprint("filter ", r.Filter.TargetId, " ", r.Filter.Count, " ", r.Filter.UnchangedNames != nil))
				}
			}
			s.note(label, text, nil)
		}
		add := func(t *pb.Target) *pb.ListenRequest {
			return &pb.ListenRequest{TargetChange: &pb.ListenRequest_AddTarget{AddTarget: t}}
		}
		remove := func(id int32) *pb.ListenRequest {
			return &pb.ListenRequest{TargetChange: &pb.ListenRequest_RemoveTarget{RemoveTarget: id}}
		}
		said("a target", add(query(2)))
		said("a target without an id", add(query(0)))
		said("a negative target", add(query(-1)))
		said("the largest target", add(query(math.MaxInt32)))
		said("the smallest target", add(query(math.MinInt32)))
		said("the removal of a negative target", remove(-1), add(query(2)))
		said("the removal of what was never there", remove(7), add(query(2)))
		said("the removal of no target", remove(0), add(query(2)))
		said("expected without a token", func() *pb.ListenRequest {
			t := query(2)
			t.ExpectedCount = wrapperspb.Int32(7)
			return add(t)
		}())
	}},
}

// listener keeps what the messages of a stream come to, as a client does: servers may repeat what
// is known.
type listener struct {
	*session
	stream  pb.Firestore_ListenClient
	known   map[int32]map[string]bool // documents by target
	current map[int32]bool
}

func (l *listener) send(req *pb.ListenRequest) {
	req.Database = l.db
	l.must(l.stream.Send(req))
}

func (l *listener) add(t *pb.Target) {
	l.send(&pb.ListenRequest{TargetChange: &pb.ListenRequest_AddTarget{AddTarget: t}})
}

// settle notes what is known when the target is current, and all are of a time not before the given
// one.
func (l *listener) settle(label string, target int32, from *timestamppb.Timestamp) {
	for {
		c := l.receive()
		if c == nil || c.TargetChangeType != pb.TargetChange_NO_CHANGE || len(c.TargetIds) > 0 || !l.current[target] ||
			c.ReadTime.AsTime().Before(from.AsTime()) {
			continue
		}
		text := []string{}
		for _, id := range slices.Sorted(maps.Keys(l.known)) {
			text = append(text, fmt.Sprint(id, slices.Sorted(maps.Keys(l.known[id]))))
		}
		l.note(label, text, nil)
		l.note(label+", with a token", len(c.ResumeToken) > 0, nil)
		return
	}
}

// removed notes why a target was removed.
func (l *listener) removed(label string, target int32) {
	for {
		if c := l.receive(); c != nil && c.TargetChangeType == pb.TargetChange_REMOVE {
			l.note(label, fmt.Sprint(c.TargetIds, codes.Code(c.Cause.GetCode())), nil)
			delete(l.known, target)
			return
		}
	}
}

// receive takes a message in; nil unless it is about targets.
func (l *listener) receive() *pb.TargetChange {
	l.Helper()
	resp, err := l.stream.Recv()
	l.must(err)
	forget := func(name string, targets []int32) {
		for _, id := range targets {
			delete(l.known[id], strings.TrimPrefix(name, l.root()+"/"))
		}
	}
	switch r := resp.ResponseType.(type) {
	case *pb.ListenResponse_DocumentChange:
		for _, id := range r.DocumentChange.TargetIds {
			l.known[id][l.paths([]*pb.Document{r.DocumentChange.Document})[0]] = true
		}
		forget(r.DocumentChange.Document.Name, r.DocumentChange.RemovedTargetIds)
	case *pb.ListenResponse_DocumentDelete:
		forget(r.DocumentDelete.Document, r.DocumentDelete.RemovedTargetIds)
	case *pb.ListenResponse_DocumentRemove:
		forget(r.DocumentRemove.Document, r.DocumentRemove.RemovedTargetIds)
	case *pb.ListenResponse_TargetChange:
		c := r.TargetChange
		for _, id := range c.TargetIds {
			switch c.TargetChangeType {
			case pb.TargetChange_ADD, pb.TargetChange_RESET:
				l.known[id], l.current[id] = map[string]bool{}, false
			case pb.TargetChange_CURRENT:
				l.current[id] = true
			}
		}
		return c
	}
	return nil
}
