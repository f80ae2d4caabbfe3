package redisnode

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// lead is how far the tokens that are proposed are ahead of the time.
const lead = 90 * time.Millisecond

// What the scripts do in fewer steps for the commonest cases is what they do without, to the byte but for the time.
func TestShortWays(t *testing.T) {
	server := servers.NewRedis(t, servers.RedisOptions{}) // on which no other test has set a clock
	for _, byAge := range []bool{false, true} {
		var said [2][]string
		for i := range said {
			n := open(t, connect(t, server.Addr()))
			n.opts.ByAge = byAge
			if i == 1 {
				n.scripts.acquire, n.scripts.release = load(false, "lib", "acquire"), load(false, "lib", "release")
			}
			for began := time.Now(); said[i] == nil || time.Since(began) > lead/2; { // else the tokens are the time
				began = time.Now()
				n.client.FlushAll(within(t, 20*time.Second))
				said[i] = n.commonestCases(t, t.Name())
			}
		}
		if !slices.Equal(said[0], said[1]) {
			for i := range min(len(said[0]), len(said[1])) {
				if said[0][i] != said[1][i] {
					t.Errorf("by age %v: %s, and without %s", byAge, said[0][i], said[1][i])
				}
			}
		}
	}
}

// commonestCases passes a name on among five claims and returns what the server says of it.
func (n *Node) commonestCases(t *testing.T, name string) (said []string) {
	ctx := within(t, 20*time.Second)
	claims := make([]*Claim, 5)
	news := make(chan Answer, 10)
	for i := range claims {
		c := n.exclusive(name)
		c.ID, c.Owner, c.Spare, c.Since = fmt.Sprintf("%032x", i), fmt.Sprint("owner ", i), 100, int64(1000+i)
		n.Join(c, func(e Answer) { news <- e })
		claims[i] = c
	}
	if err := n.Ready(ctx, claims[0]); err != nil {
		t.Fatal(err)
	}
	first := n.Time() + lead.Microseconds()
	look := func(what string) {
		all, err := n.Look(ctx, name)
		said = append(said, fmt.Sprint(what, err, n.client.PTTL(ctx, claims[0].lock).Val() > claims[0].TTL-time.Minute))
		for _, p := range all {
			said = append(said, fmt.Sprintf("%s %x %d %d %v %v %v", p.ID, p.Owner, p.Weight, p.Limit, p.Held, p.Left > 0, p.Since.UnixMicro() > first-time.Minute.Microseconds()))
		}
	}
	ask := func(i int, how How) {
		claims[i].Proposed = first
		a, err := n.Acquire(ctx, claims[i], how)
		if a.Granted {
			a.Token -= first
		}
		said = append(said, fmt.Sprint(i, how, a.Granted, a.Token, a.Spare, a.Left > 9*time.Second && a.Left <= 10*time.Second, a.Ahead, err))
		look(string(how))
	}
	release := func(i int, proposed int64) {
		claims[i].Proposed = proposed
		said = append(said, fmt.Sprint(i, n.Release(ctx, claims[i].Claim)))
		look("release")
	}
	granted := func() {
		select {
		case e := <-news:
			said = append(said, fmt.Sprint("told", e.Granted, e.Token-first, e.Spare, e.Now > first-time.Minute.Microseconds()))
		case <-ctx.Done():
			t.Error("nobody was told")
		}
	}
	ask(0, Try)
	ask(0, Queue) // again: it has the name
	ask(1, Try)
	ask(1, Queue)
	ask(1, Queue) // again: its place
	ask(3, Queue)
	ask(2, Queue) // which is older than the last
	ask(4, Queue)
	release(0, first+1000)
	granted()
	release(0, 0) // again
	release(1, first+2000)
	granted()
	for range 2 {
		for _, i := range []int{2, 3} {
			release(i, first+3000)
		}
	}
	return said
}
