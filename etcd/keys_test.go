package etcd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"pgregory.net/rapid"
)

// TestGroupsNeverMeet: no name of one prefix is in the queue of a name of another, however the
// prefixes and names are made of each other.
func TestGroupsNeverMeet(t *testing.T) {
	piece := rapid.StringOfN(rapid.SampledFrom([]rune("ab/%2F!#.-")), 1, 8, 24)
	rapid.Check(t, func(t *rapid.T) {
		queue := func(who string) (prefix, name, queue string) {
			prefix = strings.TrimSuffix(strings.ReplaceAll(piece.Draw(t, "prefix "+who), mark, ""), "/") + "/"
			name = piece.Draw(t, "name "+who)
			return prefix, name, (&backend{prefix: prefix}).queueOf(name)
		}
		p1, n1, q1 := queue("one")
		p2, n2, q2 := queue("two")
		if (p1 != p2 || n1 != n2) && strings.HasPrefix(q1+"id.0", q2) {
			t.Fatalf("%q of %q is in the queue of %q of %q: %q, %q", n1, p1, n2, p2, q1, q2)
		}
		if b := (&backend{prefix: p1}); strings.HasPrefix(b.barrierOf(1), q2) {
			t.Fatalf("the barrier of %q is in the queue of %q of %q", p1, n2, p2)
		}
		if name, ok := (&backend{prefix: p1}).nameOf(q1 + "id.0"); !ok || name != n1 {
			t.Fatalf("%q is read as %q", n1, name)
		}
	})
}

// TestGroupInAGroup: a group whose prefix is made of another's prefix and one of its names is
// not in its way, and its names are not listed there.
func TestGroupInAGroup(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	outer, inner := patientLocker(t, c), patientLocker(t, c, WithPrefix(DefaultPrefix+t.Name()))
	if _, err := inner.Acquire(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := outer.TryAcquire(t.Context(), t.Name()); err != nil {
		t.Errorf("%v: a name that is part of another group's prefix", err)
	}
	for name, err := range locker.Names(t.Context(), outer, t.Name()) {
		if err != nil || name != t.Name() {
			t.Errorf("listed: %q %v", name, err)
		}
	}
}

// TestNamesAreIndependent: a lock on a name does not block one that it begins.
func TestNamesAreIndependent(t *testing.T) {
	t.Parallel()
	l := patientLocker(t, dial(t, servers.SharedEtcd(t).Addr()))
	for _, name := range []string{"/p/a/b", "/p/a", "/p", "/p/", "/p/a/", "/p/ab", "#", "#barrier", "#barrier/1"} {
		if _, err := l.TryAcquire(t.Context(), t.Name()+name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestValue: what is written is read again, and what is not understood is an exclusive claim.
func TestValue(t *testing.T) {
	cs := &claimState{claim: claimOf("x", 3, 7), weight: 2, joined: time.UnixMilli(1763913600123)}
	cs.claim.Owner = "a text with  spaces"
	e := parse(&mvccpb.KeyValue{Key: []byte("k"), Value: []byte(cs.value(queued)), CreateRevision: 5, Lease: 6})
	want := entry{key: "k", id: cs.claim.ID, owner: cs.claim.Owner, weight: 2, limit: 7, how: queued, joined: cs.joined, rev: 5, lease: 6}
	if e != want {
		t.Errorf("%+v, want %+v", e, want)
	}
	for _, value := range []string{"", "by hand", "2 1 2147483647 id free 0 owner", "1 0 5 id free 0 owner", "1 1 9999999999 id free 0 owner", "1 1 5 id free"} {
		if e := parse(&mvccpb.KeyValue{Value: []byte(value)}); e.weight != driver.All || e.limit != driver.All || e.id != "" {
			t.Errorf("%q is read as %+v", value, e)
		}
	}
}

// TestLaterFormat: a claim in a format of a later version stands in the queue.
func TestLaterFormat(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	later := b.queueOf(t.Name()) + "later"
	put(t, c, later, "2 1 2147483647 and so on")
	try := claimOf(t.Name(), 1, driver.All)
	try.Wait = false
	if _, err := b.Acquire(t.Context(), try); !errors.Is(err, driver.ErrTaken) {
		t.Errorf("a try behind it: %v", err)
	}
	granted := begin(t, b, claimOf(t.Name(), 1, driver.All))
	queueHas(t, c, t.Name(), 2)
	remove(t, c, later)
	must(t, soon(t, "the grant", granted))
}

// TestKeysAreReused: the names of keys do not grow in number with the acquisitions,
// because etcd remembers each until the next compaction and looks through all of them.
func TestKeysAreReused(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	used := map[string]bool{}
	for range 20 {
		held := hold(t, b, t.Name())
		for _, key := range keysOf(t, c, t.Name()) {
			used[key] = true
		}
		release(t, b, held)
	}
	if len(used) != 1 || len(b.keys) != 0 {
		t.Errorf("20 acquisitions used %d keys: %v; kept: %v", len(used), used, b.keys)
	}
}

// TestKeyOfSomebodyElse: a claim whose key somebody else has put takes another, however many are put, and the
// other's key is never deleted.
func TestKeyOfSomebodyElse(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	b := driverOf(t, c)
	held := hold(t, b, t.Name())
	key := keysOf(t, c, t.Name())[0]
	remove(t, c, key)
	put(t, c, key, "somebody else")
	if err := b.Release(t.Context(), held); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release: %v, want ErrGone", err)
	}
	abandon(t, b, held)
	if keys := keysOf(t, c, t.Name()); len(keys) != 1 {
		t.Errorf("the successor's key was deleted: %v", keys)
	}
	for _, weight := range []int32{1, driver.All} {
		try := claimOf(t.Name(), weight, driver.All)
		try.Wait = false
		if _, err := b.Acquire(t.Context(), try); !errors.Is(err, driver.ErrTaken) {
			t.Errorf("acquire behind a foreign key: %v, want ErrTaken", err)
		}
	}
	next := strings.TrimSuffix(key, "0") + "1"
	put(t, c, next, "somebody else, too")
	granted := begin(t, b, claim(t.Name(), true))
	queueHas(t, c, t.Name(), 3)
	for _, key := range []string{key, next} {
		remove(t, c, key)
	}
	must(t, soon(t, "the grant", granted))
}
