package servers

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// metric is one line of /metrics.
type metric struct {
	name   string
	labels map[string]string
	value  float64
}

func (e *Etcd) metrics(ctx context.Context) ([]metric, error) {
	body, err := e.http(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return nil, fmt.Errorf("metrics of etcd at %s: %w", e.addr, err)
	}
	var all []metric
	for line := range strings.Lines(string(body)) {
		if m, ok := parseMetric(strings.TrimSpace(line)); ok {
			all = append(all, m)
		}
	}
	return all, nil
}

// parseMetric takes `name{a="x",b="y"} 12` or `name 12` apart.
func parseMetric(line string) (metric, bool) {
	if line == "" || line[0] == '#' {
		return metric{}, false
	}
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return metric{}, false
	}
	value, err := strconv.ParseFloat(line[i+1:], 64)
	if err != nil {
		return metric{}, false
	}
	name, labels, _ := strings.Cut(line[:i], "{")
	m := metric{name: name, labels: map[string]string{}, value: value}
	for label := range strings.SplitSeq(strings.TrimSuffix(labels, "}"), ",") {
		if key, v, ok := strings.Cut(label, "="); ok {
			m.labels[key] = strings.Trim(v, `"`)
		}
	}
	return m, true
}

// Methods returns how many messages the server has received for each method of gRPC
// since its process started (grpc_server_msg_received_total), as "KV/Txn" or
// "Lease/LeaseKeepAlive". Methods that were not called are left out. What
// [EtcdCluster.MoveLeader] sends is counted too, under Maintenance.
func (e *Etcd) Methods(ctx context.Context) (map[string]int64, error) {
	all, err := e.metrics(ctx)
	if err != nil {
		return nil, err
	}
	methods := map[string]int64{}
	for _, m := range all {
		if m.name == "grpc_server_msg_received_total" && m.value > 0 {
			service := strings.TrimPrefix(m.labels["grpc_service"], "etcdserverpb.")
			methods[service+"/"+m.labels["grpc_method"]] += int64(m.value)
		}
	}
	return methods, nil
}

// leads reports whether the server says that it is the leader.
func (e *Etcd) leads(ctx context.Context) (bool, error) {
	is, _, err := e.role(ctx)
	return is, err
}

// role reports whether the server says that it is the leader, and its id.
func (e *Etcd) role(ctx context.Context) (leader bool, id uint64, err error) {
	all, err := e.metrics(ctx)
	if err != nil {
		return false, 0, err
	}
	for _, m := range all {
		switch m.name {
		case "etcd_server_is_leader":
			leader = m.value == 1
		case "etcd_server_id":
			if id, err = strconv.ParseUint(m.labels["server_id"], 16, 64); err != nil {
				return false, 0, fmt.Errorf("id of etcd at %s: %w", e.addr, err)
			}
		}
	}
	return leader, id, nil
}
