package engine

import (
	"context"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/query"
)

// PartitionQuery finds cursors that cut a query of a collection group into parts of about the same
// size.
func (e *Engine) PartitionQuery(ctx context.Context, req *pb.PartitionQueryRequest) (*pb.PartitionQueryResponse, error) {
	db, err := e.databaseFor(req.GetParent())
	if err != nil {
		return nil, err
	}
	in := req.GetStructuredQuery()
	q, err := query.Parse(db.name, req.GetParent(), in)
	if err != nil {
		return nil, err
	}
	switch {
	case !q.AllDescendants || !q.ByNameOnly() || q.Orders[0].Desc:
		return nil, invalid("A query to partition is of all descendants, and in the order of __name__.")
	case in.GetWhere() != nil || in.GetLimit() != nil || q.Offset > 0 || q.Start != nil || q.End != nil:
		return nil, invalid("A query to partition has no filter, limit, offset or cursor.")
	case req.GetPartitionCount() <= 0:
		return nil, invalid("partition_count must be positive.")
	case req.GetPageSize() < 0:
		return nil, invalid("page_size must not be negative.")
	}
	after, err := decodePage(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	docs, _, _, _, err := db.results(ctx, q, consistency{readTime: req.GetReadTime()})
	if err != nil {
		return nil, err
	}
	e.stats.reads.Add(1)
	cursors := min(req.GetPartitionCount(), int64(len(docs)-1))
	size := cursors
	if n := int64(req.GetPageSize()); n > 0 {
		size = n
	}
	resp := &pb.PartitionQueryResponse{}
	last := after
	for i := int64(1); i <= cursors; i++ {
		name := docs[i*int64(len(docs))/(cursors+1)].Name
		if after != "" && document.CompareNames(name, after) <= 0 {
			continue // on an earlier page
		}
		if int64(len(resp.Partitions)) == size {
			resp.NextPageToken = encodePage(last)
			break
		}
		last = name
		resp.Partitions = append(resp.Partitions, &pb.Cursor{Before: true,
			Values: []*pb.Value{{ValueType: &pb.Value_ReferenceValue{ReferenceValue: name}}}})
	}
	return resp, nil
}
