package zookeeper

import (
	"context"
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
)

func TestSpareTokens(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	d := raw(t, []string{z.Addr()})
	n := name(t)
	last := int64(0)
	for _, want := range []int32{0, 7, 1023, 5000} {
		c := claim(n)
		c.Spare = want
		g := take(t, d, c)
		if g.Spare != int64(min(want, 1023)) || g.Token <= last {
			t.Errorf("asked for %d: %+v after %d", want, g, last)
		}
		last = g.Token + g.Spare
		release(t, d, c)
	}
}

// A czxid of more than 53 bits has no room for the core's part of a token.
func TestTokensThatAreUsedUp(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	d := raw(t, []string{z.Addr()})
	st := &claimState{claim: claim(name(t)), session: d.sessionID(), czxid: maxCzxid}
	if g, err := d.grant(st); err != nil || g.Token+1<<spareBits-1 != 1<<63-1 {
		t.Errorf("the last: %+v, %v", g, err)
	}
	st.czxid++
	if _, err := d.grant(st); err == nil {
		t.Error("one beyond the last was granted")
	}
}

func TestTokenIsCzxidAndDataIsOwner(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	c := claim(name(t))
	g := take(t, d, c)
	data, stat, err := op.Get(op.nodeOf(c))
	must(t, err)
	if g.Token != stat.Czxid<<10 || string(data) != c.Owner {
		t.Errorf("token %d, czxid %d, data %q", g.Token, stat.Czxid, data)
	}
	if err := d.Release(context.Background(), c); err != nil {
		t.Error(err)
	}
}
