package redisnode

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// pace says how quick the machine has to be.
type pace struct {
	lead   time.Duration // how far the tokens that are proposed are ahead of the time
	most   time.Duration // how long all requests may take: after lead the tokens are the time
	rounds int           // how often it is tried
}

// paces are those for a quick machine and, with a lead at which there are no spare tokens, for a late one.
var paces = []pace{{90 * time.Millisecond, 45 * time.Millisecond, 20}, {900 * time.Millisecond, 700 * time.Millisecond, 200}}

// What the scripts do in fewer steps for the commonest cases is what they do without, to the byte but for the time.
func TestShortWays(t *testing.T) {
	server := servers.NewRedis(t, servers.RedisOptions{}) // on which no other test has set a clock
	for _, byAge := range []bool{false, true} {
		var nodes [2]*Node
		for i := range nodes {
			n := open(t, connect(t, server.Addr()))
			n.opts.ByAge = byAge
			if i == 1 {
				n.scripts.acquire, n.scripts.release = load("lib", "acquire"), load("lib", "release")
			}
			n.client.FlushAll(within(t, time.Minute))
			takeAndRelease(t, n) // learns the server's time
			nodes[i] = n
		}
		var said [2][]string
		for _, p := range paces {
			if said[0] = nodes[0].inTime(t, p); said[0] != nil {
				said[1] = nodes[1].inTime(t, p)
			}
			if said[1] != nil {
				break
			}
		}
		if said[1] == nil {
			t.Fatal("the machine was never quick enough")
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

// inTime returns what commonestCases says at that pace; nil if it always takes longer.
func (n *Node) inTime(t *testing.T, p pace) []string {
	for range p.rounds {
		began := time.Now()
		n.client.FlushAll(within(t, time.Minute))
		if said, again := n.commonestCases(t, t.Name(), p.lead); !again && time.Since(began) <= p.most {
			return said
		}
	}
	return nil
}

// commonestCases passes a name on among five claims and returns what the server says of it, and whether a request was sent again.
func (n *Node) commonestCases(t *testing.T, name string, lead time.Duration) (said []string, again bool) {
	ctx := within(t, time.Minute)
	claims := make([]*Claim, 5)
	news := make(chan Answer, 10)
	ids := n.exclusive(name).ID[:31] // late news of other claims are not told
	for i := range claims {
		c := n.exclusive(name)
		c.ID, c.Owner, c.Spare, c.Since = ids+fmt.Sprint(i), fmt.Sprint("owner ", i), 100, int64(1000+i)
		n.Join(c, func(e Answer) { news <- e })
		claims[i] = c
	}
	must(t, n.Ready(ctx, claims[0]))
	first := n.Time() + lead.Microseconds()
	look := func(what string) {
		all, err := n.Look(ctx, name)
		said = append(said, fmt.Sprint(what, err, n.client.PTTL(ctx, claims[0].lock).Val() > claims[0].TTL-time.Second))
		for _, p := range all {
			said = append(said, fmt.Sprintf("%s %x %d %d %v %v %v", strings.TrimPrefix(p.ID, ids), p.Owner, p.Weight, p.Limit, p.Held, p.Left > 0, p.Since.UnixMicro() > first-time.Minute.Microseconds()))
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
	for _, c := range claims {
		again = again || c.LateUntil != 0 || c.unsure
	}
	return said, again
}
