package etcd

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// habit is what a Locker remembers of a queue in which it stands again and again. Where
// the same Lockers compete they mostly come in the same order. To know it saves the look
// between a release and the next, which was a third of the time that a lock takes from one
// to the other.
//
// The look answers two questions that the deletion of the key ahead leaves open: was that
// the first of the queue, and is the waiter's own still there? Here the releases answer
// them. Everybody writes into the value of its key whom it expects ahead. A release deletes
// its key and marks the one that it takes for the next, in one transaction, on condition that
// this is there and expects the deleted one. To mark is to write the key as it is, which
// shows in its version. A marked key is deleted in no other way: if somebody else is next,
// or the claim is given up, the mark is spoilt first, by writing the key once more. The event
// of the deletion tells the version. So, if a waiter joins directly behind the key that it
// expects, and that is deleted with a mark:
//
// It was the first. The waiter has seen, when it joined, that the key was not marked, and
// that it expects the one before it: it is marked by the release of just that one. (Or that it
// was marked and the only one.) Who comes to have the name of that one later stands
// behind, and is not granted anything before.
//
// The waiter's own key was there: it is the one that expects the deleted key ahead. But if that was
// deleted by hand, or with its lease, or for want of space without a condition, nobody asked
// for the waiter's. Whether that is gone with its own lease the waiter knows by a watch of the
// session's fence, which is under the same lease and is never deleted otherwise; the server
// tells of it before, on the same stream, unless that is clogged. Then, or if the waiter's key was
// deleted by hand, it is told a moment later, as a holder is whose lease was revoked or whose key was
// deleted.
type habit struct {
	ahead string // who stood ahead, by its key without what all keys of the queue begin with
	trust int    // grows while the same stands there
	next  string // who was the first after a release, likewise
}

const (
	// habitsMost is how many are remembered.
	habitsMost = 64
	// trustEnough is the trust from which on somebody is expected. It is more than comes
	// of a name that is used a few times.
	trustEnough = 3
	// trustMost is as far as it grows, and trustLoss what a change costs: where the order is the
	// same for long, what disturbs it once does not make all begin anew.
	trustMost = 16
	trustLoss = 4
	// many is how many must be ahead for the order to be trusted at once: among many it
	// does not change easily.
	many = 5
	// marked is the version of a marked key.
	marked = 2
)

// expectedLocked returns who will probably stand ahead in a queue, "" if there is no telling.
func (b *backend) expectedLocked(queue string) string {
	if h := b.habits[queue]; h.trust >= trustEnough {
		return h.ahead
	}
	return ""
}

// accustom takes note of who stood ahead of e, if anybody.
func (b *backend) accustom(e *entry, p place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case p.ahead == 0:
		delete(b.habits, e.queue)
		return
	case e.follows:
		return
	}
	h, known := b.habits[e.queue]
	if !known && len(b.habits) >= habitsMost {
		clear(b.habits)
	}
	if who := standing(e.queue, p.key); h.ahead == who {
		h.trust = min(h.trust+1, trustMost)
	} else {
		h.ahead, h.trust = who, max(h.trust-trustLoss, 0)
	}
	if p.ahead >= many {
		h.trust = max(h.trust, trustEnough)
	}
	b.habits[e.queue] = h
}

// learn takes note of who was the first after the release of e, "" if nobody was. One of this
// Locker may have that very key the next time.
func (b *backend) learn(e *entry, first string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h, known := b.habits[e.queue]; known && first != "" && !strings.HasPrefix(first, b.ownIn(e.queue)) {
		h.next = standing(e.queue, first)
		b.habits[e.queue] = h
	}
}

// nextAfter returns the key of another Locker that is probably behind e, "" if there is no telling.
func (b *backend) nextAfter(e *entry) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if next := b.habits[e.queue].next; next != "" && e.expects != "" && !e.follows && b.queued[e.queue] <= 1 {
		return e.queue + next
	}
	return ""
}

// errNotNext: there is no telling who is next.
var errNotNext = errors.New("not the next")

// handOver deletes the key and marks the next, if there is a habit that tells which. If
// another one is next this time it deletes the key all the same, in the same request, and
// learns which; or, if the key is marked itself, it spoils that and leaves it to be deleted.
func (b *backend) handOver(ctx context.Context, e *entry) error {
	next := b.nextAfter(e)
	if next == "" && !e.marked {
		return errNotNext
	}
	mine := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.rev.Load())}
	remove := clientv3.OpDelete(e.key)
	otherwise := []clientv3.Op{remove, firstOf(e.queue)}
	if e.marked {
		otherwise = []clientv3.Op{touch(e.key)}
	}
	if next != "" {
		resp, err := b.txn(ctx, append(mine, expecting(next, e)...), []clientv3.Op{remove, touch(next)},
			[]clientv3.Op{clientv3.OpTxn(mine, otherwise, nil)})
		if err != nil || resp.Succeeded {
			return err
		}
		return b.notNext(e, (*clientv3.TxnResponse)(resp.Responses[0].GetResponseTxn()))
	}
	resp, err := b.txn(ctx, mine, otherwise, nil)
	if err != nil {
		return err
	}
	return b.notNext(e, resp)
}

// notNext takes note of the answer to what is done instead.
func (b *backend) notNext(e *entry, resp *clientv3.TxnResponse) error {
	switch {
	case !resp.Succeeded:
		return driver.ErrGone
	case e.marked:
		e.marked = false
		return errNotNext
	}
	b.learn(e, b.tell(resp))
	return nil
}

// standing returns who a key in a queue belongs to. In a value a space ends it.
func standing(queue, key string) string {
	who := strings.TrimPrefix(key, queue)
	if strings.Contains(who, " ") {
		return "" // nobody's key
	}
	return who
}

// expecting are the conditions under which a key expects e ahead of it.
func expecting(key string, e *entry) []clientv3.Cmp {
	who := standing(e.queue, e.key)
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(key), ">", who+" "), // and what begins with it
		clientv3.Compare(clientv3.Value(key), "<", who+"!"), // the character after " "
	}
}

// touch writes a key as it is.
func touch(key string) clientv3.Op {
	return clientv3.OpPut(key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
}

// telling returns the key directly ahead of e if its deletion with a mark will tell all that a
// look would. last are the last two of the queue that e has joined, of n. What expects nobody is
// never marked, but may be written again for another reason; see newEntry.
func (e *entry) telling(last []*mvccpb.KeyValue, n int64) *mvccpb.KeyValue {
	ahead := last[0]
	switch {
	case e.expects == "" || e.expects != standing(e.queue, string(ahead.Key)):
	case n == 1 && ahead.Version == marked && !strings.HasPrefix(string(ahead.Value), " "):
		return ahead
	case n > 1 && ahead.Version < marked && e.follower(ahead, last[1].Key):
		return ahead
	}
	return nil
}

// follower reports whether kv expects another key ahead of it.
func (e *entry) follower(kv *mvccpb.KeyValue, ahead []byte) bool {
	who := standing(e.queue, string(ahead))
	return who != "" && strings.HasPrefix(string(kv.Value), who+" ")
}

// wasFirst reports whether a key as it was when it was deleted is the one that was to tell,
// was marked, and is otherwise as it was.
func wasFirst(was, told *mvccpb.KeyValue) bool {
	return was != nil && told != nil && was.Version == marked && was.CreateRevision == told.CreateRevision &&
		was.Lease == told.Lease && bytes.Equal(was.Value, told.Value)
}
