package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// EtcdCluster is a group of etcd servers that elect a leader.
type EtcdCluster struct{ group[*Etcd] }

// StartEtcdCluster starts n servers and returns when all serve.
func StartEtcdCluster(ctx context.Context, n int, opts EtcdOptions) (*EtcdCluster, error) {
	if addrs, ok := givenAddrs(EnvEtcd, n); ok && opts.plain() {
		c := &EtcdCluster{}
		for _, addr := range addrs {
			e := &Etcd{Server: givenServer("etcd", addr)}
			e.bind()
			c.Members = append(c.Members, e)
		}
		return c, c.WaitReady(ctx)
	}
	bin, err := etcdBinary(ctx, opts.Old)
	if err != nil {
		return nil, err
	}
	return retryPorts(func() (*EtcdCluster, error) {
		c := &EtcdCluster{}
		return orClose(c, c.start(ctx, n, bin, opts))
	})
}

func (c *EtcdCluster) start(ctx context.Context, n int, bin string, opts EtcdOptions) error {
	var shared *certs
	if opts.TLS {
		dir, err := newDir("etcd-certs")
		if err != nil {
			return err
		}
		if shared, err = newCerts(dir); err != nil {
			return err
		}
	}
	token := rand.Text() // of this cluster and no other
	for i := range n {
		e, err := newEtcd(bin, opts, "member"+strconv.Itoa(i+1), token, c)
		if err != nil {
			return err
		}
		e.certs = shared
		if n > 1 {
			e.notEmpty = "a member of an etcd cluster cannot come back without its data"
		}
		c.Members = append(c.Members, e)
	}
	err := startTogether(ctx, c.servers())
	if err == nil && opts.RootPassword != "" {
		err = c.Members[0].enableAuth(ctx)
	}
	return err
}

// initial returns the value of --initial-cluster.
func (c *EtcdCluster) initial() string {
	var members []string
	for _, e := range c.Members {
		members = append(members, e.name+"="+e.peerURL())
	}
	return strings.Join(members, ",")
}

// MoveLeader makes a member the leader, and returns when it is.
func (c *EtcdCluster) MoveLeader(ctx context.Context, to *Etcd) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	err := Poll(ctx, func(ctx context.Context) error {
		from, err := c.Leader(ctx)
		if err != nil || from == to {
			return err
		}
		id, err := to.id(ctx)
		if err != nil {
			return err
		}
		token, err := from.login(ctx)
		if err != nil {
			return err
		}
		// A transfer that is given up, as the member takes too long, has no answer until ctx ends.
		body := map[string]string{"targetID": strconv.FormatUint(id, 10)}
		_, err = from.http(ctx, http.MethodPost, "/v3/maintenance/transfer-leadership", token, body)
		return errors.Join(errors.New("it does not lead yet"), err)
	})
	if err != nil {
		return fmt.Errorf("move the leader: %w", err)
	}
	return nil
}
