package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

// leastCommands are those that the documentation says a user needs, without what clients of go-redis
// send to begin with.
const leastCommands = "evalsha eval time exists get set del hget hset hdel hgetall hincrby pttl pexpire " +
	"lindex llen lpop lpos lrange lrem rpush linsert subscribe publish pubsub|numsub ping scan"

// asUser makes clients that log in.
func asUser(t testing.TB, nodes []string, user, password string) (clients []goredis.UniversalClient) {
	for _, addr := range nodes {
		o := options(addr)
		o.Username, o.Password = user, password
		c := goredis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

func TestLeastPermission(t *testing.T) {
	t.Parallel()
	nodes := addrs(servers.NewRedisSet(t, 5, servers.RedisOptions{}))
	ctx := within(t, 60*time.Second)
	rules := []string{"on", ">pw", "~" + DefaultPrefix + ":*", "&" + DefaultPrefix + ":*", "-@all", "+hello"}
	for command := range strings.FieldsSeq(leastCommands) {
		rules = append(rules, "+"+command)
	}
	admins := connect(t, nodes...)
	for _, c := range admins {
		must(t, c.ACLSetUser(ctx, "locker", rules...).Err())
	}
	a, b := newDriverOver(t, asUser(t, nodes, "locker", "pw")), newDriverOver(t, asUser(t, nodes, "locker", "pw"))
	const ttl = 10 * time.Minute
	c, next, last := driverClaim(t.Name(), ttl, false), driverClaim(t.Name(), ttl, true), sharedClaim(t.Name(), ttl, true)
	take(t, a, c)
	w := begin(ctx, b, next)
	waits(t, admins, t.Name(), 1)
	gaveUp, cancel := context.WithCancel(ctx)
	late := begin(gaveUp, b, last)
	waits(t, admins, t.Name(), 2)
	cancel()
	<-late.Done
	must(t, b.Abandon(ctx, last))
	if _, err := renewed(t, a, c); err != nil {
		t.Error(err)
	}
	must(t, a.Lighten(ctx, c, 1))
	if all, err := a.Look(ctx, t.Name()); err != nil || len(all) != 2 {
		t.Errorf("got %+v %v", all, err)
	}
	for _, err := range a.Names(ctx, "") {
		must(t, err)
	}
	must(t, a.Release(ctx, c))
	w.Granted(t, 10*time.Second)
	must(t, a.Evict(ctx, t.Name(), next.ID))
	must(t, b.Abandon(ctx, next))
	must(t, asUser(t, nodes[:1], "locker", "pw")[0].Ping(ctx).Err()) // as a subscription does after 30 s of silence
	nothingLeft(t, nodes)
}

// Who cannot log in, or may not do anything, is told so at once, also if it would wait.
func TestRefusalsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	set := servers.NewRedisSet(t, 5, servers.RedisOptions{Password: "secret"})
	for what, row := range map[string]struct{ password, word string }{
		"no password":    {"", "NOAUTH"},
		"wrong password": {"wrong", "WRONGPASS"},
	} {
		b := newDriverOver(t, asUser(t, addrs(set), "", row.password))
		for _, wait := range []bool{false, true} {
			ctx := within(t, 30*time.Second)
			_, err := b.Acquire(ctx, driverClaim(t.Name(), 20*time.Second, wait))
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), row.word) {
				t.Errorf("%s: got %v, want %s", what, err, row.word)
			}
			if ctx.Err() != nil {
				t.Errorf("%s: told at the end of the context", what)
			}
		}
	}
}

// A minority that refuses keeps nobody from anything.
func TestMinorityThatRefuses(t *testing.T) {
	t.Parallel()
	nodes := addrs(servers.NewRedisSet(t, 5, servers.RedisOptions{}))
	ctx := within(t, 2*time.Minute)
	b := newDriver(t, nodes)
	clients := connect(t, nodes...)
	must(t, clients[0].Set(ctx, lockKey(t.Name()), "somebody else's", 0).Err())
	must(t, clients[1].Do(ctx, "acl", "setuser", "default", "-eval", "-evalsha").Err())
	for _, wait := range []bool{false, true} {
		c := driverClaim(t.Name(), 20*time.Second, wait)
		take(t, b, c)
		if _, err := renewed(t, b, c); err != nil {
			t.Error(err)
		}
		must(t, b.Release(ctx, c))
	}
}
