//go:build unix

package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed80cd6120/locker/internal/cli/finding"
	"github.com/seed80cd6120/locker/internal/openurl"
)

// maxClockDifference is how far a server's clock may be from that of this machine.
const maxClockDifference = time.Second

func readRedis(rawURL, port string) (*openurl.Server, error) {
	return read(rawURL, port, func(scheme string) bool {
		return strings.HasPrefix(scheme, "rediss") || scheme == "redlocks"
	})
}

// checkRedis examines a Redis, the master that Sentinels name, or the masters of a Cluster.
func checkRedis(ctx context.Context, rawURL string) ([]finding.Finding, error) {
	_, kind, _ := strings.Cut(strings.ToLower(rawURL[:strings.Index(rawURL, ":")]), "+")
	port := "6379"
	if kind == "sentinel" {
		port = "26379"
	}
	s, err := readRedis(rawURL, port)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "cluster":
		return checkCluster(ctx, s)
	case "sentinel":
		password, err := s.Secret("sentinel-password", "")
		if err != nil {
			return nil, err
		}
		client := goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: strings.TrimPrefix(s.Path, "/"), SentinelAddrs: s.Addresses,
			SentinelUsername: s.Params["sentinel-user"], SentinelPassword: password,
			Username: s.User, Password: s.Password, TLSConfig: s.TLS, ContextTimeoutEnabled: true,
		})
		defer client.Close()
		return checkNode(ctx, client, "master of "+strings.Join(s.Addresses, ","))
	}
	client := nodeClient(s, s.Addresses[0])
	defer client.Close()
	return checkNode(ctx, client, s.Addresses[0])
}

func nodeClient(s *openurl.Server, address string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: address, Username: s.User, Password: s.Password, TLSConfig: s.TLS, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func checkCluster(ctx context.Context, s *openurl.Server) ([]finding.Finding, error) {
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: s.Addresses, Username: s.User, Password: s.Password, TLSConfig: s.TLS, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer client.Close()
	var mu sync.Mutex
	var all []finding.Finding
	err := client.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error {
		l := &redisList{finding.List{Server: node.Options().Addr}}
		err := l.examine(ctx, node, "7.0")
		mu.Lock()
		defer mu.Unlock()
		all = append(all, l.Findings...)
		return err
	})
	return all, err
}

func checkNode(ctx context.Context, client *goredis.Client, name string) ([]finding.Finding, error) {
	l := &redisList{finding.List{Server: name}}
	err := l.examine(ctx, client, "6.2")
	return l.Findings, err
}

// checkRedLock examines each of the nodes, and how many there are.
func checkRedLock(ctx context.Context, rawURL string) ([]finding.Finding, error) {
	s, err := readRedis(rawURL, "6379")
	if err != nil {
		return nil, err
	}
	n := len(s.Addresses)
	all := &finding.List{Server: "all nodes"}
	var away int
	var first error
	all.Findings, away, first = examineEach(ctx, "node", s.Addresses, func(ctx context.Context, l finding.List) ([]finding.Finding, error) {
		client := nodeClient(s, l.Server)
		defer client.Close()
		node := redisList{l}
		err := node.examine(ctx, client, "6.2")
		return node.Findings, err
	})
	majority := n/2 + 1
	switch {
	case n-away < majority:
		return all.Findings, fmt.Errorf("%d of %d nodes answer, %d are needed; the first that does not: %w", n-away, n, majority, first)
	case n < 3:
		all.Warn(fmt.Sprintf("%d nodes", n), "no node may fail", "use three or five")
	case n%2 == 0:
		all.Warn(fmt.Sprintf("%d nodes", n), fmt.Sprintf("no more may fail than of %d", n-1), "use an odd number of nodes")
	default:
		all.OK(fmt.Sprintf("%d of %d nodes answer, %d are needed", n-away, n, majority))
	}
	return all.Findings, nil
}

// redisList has the findings about one Redis.
type redisList struct{ finding.List }

// examine asks the node; the error is that of a node that does not answer.
func (l *redisList) examine(ctx context.Context, client *goredis.Client, least string) error {
	if err := client.Ping(ctx).Err(); err != nil {
		return err
	}
	l.clock(ctx, client)
	text, err := client.Info(ctx).Result()
	if err != nil {
		l.Unknown(fmt.Sprintf("INFO: %v", err), "let the user of the URL call INFO, or ask with another")
		return nil
	}
	info := fields(text, ":")
	l.Version(info["redis_version"], least)
	l.eviction(info)
	l.replication(info)
	l.persistence(ctx, client, info)
	return nil
}

// clock compares the server's clock with that of this machine.
func (l *redisList) clock(ctx context.Context, client *goredis.Client) {
	before := time.Now()
	there, err := client.Time(ctx).Result()
	after := time.Now()
	if err != nil {
		l.Unknown(fmt.Sprintf("TIME: %v", err), "let the user of the URL call TIME: locks need it")
		return
	}
	// The answer was made at some moment in between.
	switch {
	case there.Before(before.Add(-maxClockDifference)):
		l.clockDiffers(before.Sub(there), "behind")
	case there.After(after.Add(maxClockDifference)):
		l.clockDiffers(there.Sub(after), "ahead of")
	default:
		l.OK("its clock is that of this machine")
	}
}

func (l *redisList) clockDiffers(by time.Duration, how string) {
	l.Warn(fmt.Sprintf("its clock is %v %s that of this machine", by.Round(time.Millisecond), how),
		"tokens fall if the lower clock takes over after a failover, and times in inspect are wrong", "run NTP on all machines")
}

// eviction looks whether the server throws keys away when its memory is full.
func (l *redisList) eviction(info map[string]string) {
	policy, limit := info["maxmemory_policy"], info["maxmemory"]
	switch {
	case policy == "":
		l.Unknown("the eviction policy is not told", "see that maxmemory-policy is noeviction")
	case policy == "noeviction":
		l.OK("no key is evicted")
	case limit == "0":
		l.Warn("maxmemory-policy "+policy+" without maxmemory", "locks may be thrown away as soon as maxmemory is set",
			"CONFIG SET maxmemory-policy noeviction")
	default:
		l.Broken("maxmemory-policy "+policy+" with maxmemory "+limit, "locks may be thrown away while they are held",
			"CONFIG SET maxmemory-policy noeviction")
	}
}

// replication looks what a failover would lose.
func (l *redisList) replication(info map[string]string) {
	replicas, _ := strconv.Atoi(info["connected_slaves"])
	switch {
	case info["role"] == "slave":
		l.Broken("it is a replica", "it refuses to take locks", "give the address of the master, or use redis+sentinel://")
	case replicas > 0:
		l.Warn(fmt.Sprintf("%d replicas, which copy later", replicas),
			"a failover may forget a lock that was just taken: two hold it then, and only tokens tell them apart",
			"have the store compare tokens")
	default:
		l.OK("it has no replica that could take over without its last locks")
	}
}

// persistence looks what a restart forgets.
func (l *redisList) persistence(ctx context.Context, client *goredis.Client, info map[string]string) {
	if info["aof_enabled"] != "1" {
		l.Warn("appendonly is off", "a restart forgets locks that are held: others may take them",
			"CONFIG SET appendonly yes and appendfsync always, or keep it down for the TTL after a crash")
		return
	}
	config, err := client.ConfigGet(ctx, "appendfsync").Result()
	switch policy := config["appendfsync"]; {
	case err != nil || policy == "":
		l.Unknown("appendfsync is not told", "see that appendfsync is always")
	case policy != "always":
		l.Warn("appendfsync "+policy, "a crash of the machine forgets the locks of the last second or more", "CONFIG SET appendfsync always")
	default:
		l.OK("every lock is on disk when it is granted")
	}
}
