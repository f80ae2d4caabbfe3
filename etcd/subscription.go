package etcd

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// keepFor is how long the last watch outlives its use. The client closes a stream with its last watch, and to open one costs
// more than a request, with a password much more. And who waits for a name again and again mostly finds the same Locker ahead,
// whose key has the same name as before: then the watch is used again, and needs no look when it begins. Measured with clients
// that contend for one name: an acquisition of one of 16 costs 3.2 requests and openings of streams, without this 5.4; of one
// of two 2.9, without this 4.7, and with a password 1.9 ms, without this 5.7.
const keepFor = 3 * time.Second

// subscription is the stream that carries the watches of one Locker.
type subscription struct {
	mu   sync.Mutex
	life context.Context // of the stream
	end  context.CancelFunc
	kept *watch // for the next use

	confirmed atomic.Int64 // watches, by the server
}

// watch is one watch at the server, of a key or of a whole queue, from the revision of its creation on:
// who begins in the past is served by a loop of the server that runs every 100 ms.
type watch struct {
	key    string
	told   chan clientv3.WatchResponse // what the server says: first, that the watch is created
	rev    int64                       // up to which it has told those who used it
	stream context.Context             // ends when it, or another of the Locker, has failed
	stop   context.CancelFunc
	timer  *time.Timer // stops it when it has been kept for long enough
}

// watch watches one key or, if key ends with mark, every key of that queue. It may return the watch that was kept: its first
// messages may be older than the caller's view, and others were told of what came until its revision.
func (b *backend) watch(key string) *watch {
	sub := &b.subscription
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.life == nil || sub.life.Err() != nil {
		// The client has one stream for all watches with the same metadata.
		ctx := metadata.AppendToOutgoingContext(b.life, "locker-stream", strconv.FormatUint(rand.Uint64(), 16))
		sub.life, sub.end = context.WithCancel(clientv3.WithRequireLeader(ctx))
		sub.kept = nil
	}
	if w := sub.kept; w != nil && w.key == key {
		sub.kept = nil
		w.timer.Stop()
		return w
	}
	ctx, stop := context.WithCancel(sub.life)
	w := &watch{key: key, told: make(chan clientv3.WatchResponse), stream: sub.life, stop: stop}
	go b.receive(ctx, sub.end, w)
	return w
}

// receive passes on what the server tells, until ctx ends. When the watch fails or the server is silent before it has
// confirmed it, it ends the stream.
func (b *backend) receive(ctx context.Context, end context.CancelFunc, w *watch) {
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if strings.HasSuffix(w.key, mark) {
		opts = append(opts, clientv3.WithPrefix())
	}
	// The client forgets a watch that ends before the server has confirmed it: the server is never told, and the
	// stream stays open. So the watch ends after that.
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	unanswered, answer := context.WithCancel(watching)
	defer answer()
	go b.endIfSilent(unanswered, end)
	for r := range b.client.Watch(watching, w.key, opts...) { // which waits for the server
		answer()
		if r.Created {
			b.subscription.confirmed.Add(1)
			context.AfterFunc(ctx, cancel)
		}
		select {
		case w.told <- r:
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		end()
	}
}

// endIfSilent waits until a watch is answered and ends unanswered, and ends the stream when the server confirms none for
// as long as patience lasts: the client asks for one after the other.
func (b *backend) endIfSilent(unanswered context.Context, end context.CancelFunc) {
	for seen := b.subscription.confirmed.Load(); ; {
		select {
		case <-unanswered.Done():
			return
		case <-time.After(b.patience):
		}
		now := b.subscription.confirmed.Load()
		if now == seen {
			end()
			return
		}
		seen = now
	}
}

// unwatch ends the use of w, and keeps it for a while instead of the one that was kept before, unless it has ended.
func (sub *subscription) unwatch(w *watch) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if w.stream.Err() != nil {
		w.stop()
		return
	}
	if sub.kept != nil {
		sub.kept.stop()
	}
	sub.kept = w
	w.timer = time.AfterFunc(keepFor, func() {
		sub.mu.Lock()
		defer sub.mu.Unlock()
		if sub.kept == w {
			sub.kept = nil
			w.stop()
		}
	})
}

// restart ends all watches, so that they are made anew on another stream. A stream belongs to one member of the cluster; if
// that has fallen silent, no watch on it will ever say so.
func (sub *subscription) restart() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.end != nil {
		sub.end()
	}
}
