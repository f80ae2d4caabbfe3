package redlock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// asked is a job that keeps its answer.
type asked struct {
	script *script
	args   []any
	done   chan error
}

func (a *asked) command(int) (*script, []any)             { return a.script, a.args }
func (a *asked) answered(_ int, _ any, err error, _ bool) { a.done <- err }
func ask(s *script, keys []string, argv ...string) *asked {
	return &asked{s, s.call(keys, argv...), make(chan error, 1)}
}

// A server that knows some scripts and not others has understood one request of a
// batch and not one before it. If they are of different claims of one name, the
// one it did not understand is still to be repeated.
func TestScriptIsTaughtThoughAnotherClaimCameLater(t *testing.T) {
	t.Parallel()
	node := addrs(servers.NewRedisSet(t, 1, servers.RedisOptions{}))
	client := connect(t, node...)[0]
	list, fronts := proxies(t, node)
	b := newDriver(t, fronts, WithNodeTimeout(10*time.Second))
	ctx := within(t, 20*time.Second)
	n := b.nodes[0]
	ping := &asked{args: []any{"ping"}, done: make(chan error, 2)}
	n.submit(&request{job: ping})
	must(t, <-ping.done)

	must(t, client.ScriptFlush(ctx).Err())
	must(t, client.ScriptLoad(ctx, bidSource).Err())
	one := b.newClaim(newDriverClaim(t.Name(), 10*time.Second, false), b.tokens.stamp())
	other := b.newClaim(newDriverClaim(t.Name(), 10*time.Second, false), b.tokens.stamp())
	confirm := ask(confirmScript, []string{one.lock, one.clock}, one.head, one.ttl, "")
	bid := &asked{bidScript, other.bidFor("", false), make(chan error, 1)}

	list[0].FreezeUp()
	n.submit(&request{job: ping}) // keeps the node busy
	n.submit(&request{job: confirm, c: one})
	n.submit(&request{job: bid, c: other})
	list[0].Heal()
	must(t, <-ping.done)
	if err := <-confirm.done; err != nil {
		t.Errorf("the first of the batch: %v", err)
	}
	must(t, <-bid.done)
	must(t, client.Del(ctx, one.lock).Err())
}

func TestForgottenScriptsAreTaughtAnew(t *testing.T) {
	t.Parallel()
	nodes := addrs(servers.NewRedisSet(t, 5, servers.RedisOptions{}))
	a, b := open(t, nodes), open(t, nodes)
	clients := connect(t, nodes...)
	flush := func() {
		for _, c := range clients {
			must(t, c.ScriptFlush(within(t, 5*time.Second)).Err())
		}
	}
	for i := range 6 {
		held, err := a.Acquire(within(t, 10*time.Second), t.Name())
		must(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			lock, err := b.Acquire(within(t, 10*time.Second), t.Name())
			if err == nil {
				flush()
				err = lock.Release(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		})
		if i%2 == 0 {
			waits(t, clients, t.Name(), 1)
		}
		flush()
		must(t, held.Release(context.Background()))
		wg.Wait()
	}
}
