package etcd

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// asked is a server that keeps the transactions it is asked for.
type asked struct {
	pb.KVClient
	txns []*pb.TxnRequest
}

func (a *asked) Txn(_ context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	a.txns = append(a.txns, r)
	return &pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 7}, Succeeded: true, Responses: []*pb.ResponseOp{{}}}, nil
}

// TestDirect: what is put together without the client is what the client would send. A
// client's KV that is not its own is never passed by.
func TestDirect(t *testing.T) {
	t.Parallel()
	client := dial(t, "localhost:1")
	if directKV(client) == nil {
		t.Error("no direct requests with a client as it is made")
	}
	client.KV = struct{ clientv3.KV }{client.KV}
	if directKV(client) != nil {
		t.Error("direct requests although something is around the client's KV")
	}
	var sent []*asked
	for _, direct := range []bool{true, false} {
		server := &asked{}
		sent = append(sent, server)
		client.KV = clientv3.NewKVFromKVClient(server, client)
		b := driverOf(t, client)
		b.id, b.directKV = "id", nil
		if direct {
			b.directKV = server
		}
		s := &session{lease: 5, fence: b.fenceOf(5), gone: make(chan struct{}), mark: 3}
		c := claim("name", true)
		c.ID = "claim"
		e := b.newEntry(c)
		if _, err := b.enter(t.Context(), s, e); err != nil {
			t.Fatal(err)
		}
		if err := b.delete(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if e.session != s || !e.sown || e.rev.Load() != 7 {
			t.Errorf("entry after the put: %+v", e)
		}
	}
	if len(sent[0].txns) != 2 || len(sent[1].txns) != 2 {
		t.Fatalf("sent: %v and %v", sent[0].txns, sent[1].txns)
	}
	for i := range 2 {
		if !proto.Equal(sent[0].txns[i], sent[1].txns[i]) {
			t.Errorf("direct:\n%v\nthe client's:\n%v", sent[0].txns[i], sent[1].txns[i])
		}
	}
}
