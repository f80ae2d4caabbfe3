package servers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
)

// metricsOf yields the labels and the value of every line of /metrics for the metric with this name. It is asked for often, and the text
// is long: searching it with regular expressions cost more than all else in the tests that count requests.
func metricsOf(text, name string) iter.Seq2[string, string] {
	return func(yield func(labels, value string) bool) {
		for line := range strings.SplitSeq(text, "\n") {
			rest, ok := strings.CutPrefix(line, name)
			if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
				continue
			}
			end := strings.LastIndexByte(rest, ' ')
			if !yield(rest[:end], rest[end+1:]) {
				return
			}
		}
	}
}

// labelOf returns the value of a label, "" if it is not there.
func labelOf(labels, name string) string {
	_, rest, _ := strings.Cut(labels, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// Get returns what the server answers at a path of its HTTP side, such as "/version".
func (e *Etcd) Get(ctx context.Context, path string) (string, error) {
	body, err := e.http(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return "", fmt.Errorf("%s of etcd at %s: %w", path, e.addr, err)
	}
	return string(body), nil
}

func (e *Etcd) metrics(ctx context.Context) (string, error) { return e.Get(ctx, "/metrics") }

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
	for labels, value := range metricsOf(text, "grpc_server_msg_received_total") {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of etcd at %s: %w", e.addr, err)
		}
		if n > 0 {
			service := strings.TrimPrefix(labelOf(labels, "grpc_service"), "etcdserverpb.")
			methods[service+"/"+labelOf(labels, "grpc_method")] += int64(n)
		}
	}
	return methods, nil
}

// leads reports whether the server says that it is the leader.
func (e *Etcd) leads(ctx context.Context) (bool, error) {
	text, err := e.metrics(ctx)
	for _, value := range metricsOf(text, "etcd_server_is_leader") {
		return value == "1", err
	}
	return false, err
}

// id returns the server's id.
func (e *Etcd) id(ctx context.Context) (uint64, error) {
	text, err := e.metrics(ctx)
	if err != nil {
		return 0, err
	}
	for labels := range metricsOf(text, "etcd_server_id") {
		return strconv.ParseUint(labelOf(labels, "server_id"), 16, 64)
	}
	return 0, errors.New("etcd at " + e.addr + " does not tell its id")
}
