package servers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

// What is read of /metrics.
var (
	received = regexp.MustCompile(`(?m)^grpc_server_msg_received_total\{grpc_method="(\w+)",grpc_service="(?:etcdserverpb\.)?([\w.]+)",.*\} (\S+)$`)
	leads    = regexp.MustCompile(`(?m)^etcd_server_is_leader 1$`)
	serverID = regexp.MustCompile(`(?m)^etcd_server_id\{server_id="(\w+)"\} 1$`)
)

func (e *Etcd) metrics(ctx context.Context) (string, error) {
	body, err := e.http(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return "", fmt.Errorf("metrics of etcd at %s: %w", e.addr, err)
	}
	return string(body), nil
}

// Methods returns how many messages the server has received for each method of gRPC
// since its process started (grpc_server_msg_received_total), as "KV/Txn" or
// "Lease/LeaseKeepAlive". Methods that were not called are left out. What
// [EtcdCluster.MoveLeader] sends is counted too, under Maintenance.
func (e *Etcd) Methods(ctx context.Context) (map[string]int64, error) {
	text, err := e.metrics(ctx)
	if err != nil {
		return nil, err
	}
	methods := map[string]int64{}
	for _, m := range received.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of etcd at %s: %w", e.addr, err)
		}
		if n > 0 {
			methods[m[2]+"/"+m[1]] += int64(n)
		}
	}
	return methods, nil
}

// leads reports whether the server says that it is the leader.
func (e *Etcd) leads(ctx context.Context) (bool, error) {
	text, err := e.metrics(ctx)
	return leads.MatchString(text), err
}

// id returns the server's id.
func (e *Etcd) id(ctx context.Context) (uint64, error) {
	text, err := e.metrics(ctx)
	if err != nil {
		return 0, err
	}
	m := serverID.FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New("etcd at " + e.addr + " does not tell its id")
	}
	return strconv.ParseUint(m[1], 16, 64)
}
