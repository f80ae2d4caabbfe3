package etcd

import (
	"context"
	"reflect"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The client takes some ten microseconds to put a transaction together, since it copies
// each comparison by reflection, up to three times. That is a good part of what a
// lock that nobody else wants costs beside its two requests. So those two are put together
// here, and go to the server by the client's connection as all others do.

// directKV returns what carries such requests; nil if the client's KV is not its own but
// something around it, as package namespace puts there, which has to see every request.
func directKV(client *clientv3.Client) pb.KVClient {
	if reflect.TypeOf(client.KV) != reflect.TypeOf(clientv3.NewKV(client)) {
		return nil
	}
	return pb.NewKVClient(client.ActiveConnection())
}

// direct makes one transaction.
func (b *backend) direct(ctx context.Context, r *pb.TxnRequest) (resp *clientv3.TxnResponse, err error) {
	err = b.call(ctx, func(ctx context.Context) error {
		got, err := b.directKV.Txn(ctx, r)
		resp = (*clientv3.TxnResponse)(got)
		return clientv3.ContextError(ctx, err)
	})
	return resp, err
}

// putAlone puts the key of e if its queue is empty and the fence of s where it was.
func putAlone(s *session, e *entry) *pb.TxnRequest {
	return &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Target:      pb.Compare_MOD,
			Key:         []byte(s.fence),
			TargetUnion: &pb.Compare_ModRevision{ModRevision: s.fenceMark()},
		}, {
			Target:      pb.Compare_CREATE,
			Key:         []byte(e.queue),
			RangeEnd:    []byte(clientv3.GetPrefixRangeEnd(e.queue)),
			TargetUnion: &pb.Compare_CreateRevision{},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
			Key:   []byte(e.key),
			Value: []byte(e.value()),
			Lease: int64(s.lease),
		}}}},
	}
}

// deleteOwn deletes the key of e if it is the one that was granted.
func deleteOwn(e *entry) *pb.TxnRequest {
	key := []byte(e.key)
	return &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Target:      pb.Compare_CREATE,
			Key:         key,
			TargetUnion: &pb.Compare_CreateRevision{CreateRevision: e.rev.Load()},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
			Key: key,
		}}}},
	}
}
