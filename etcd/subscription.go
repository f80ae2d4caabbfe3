package etcd

import (
	"context"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

const (
	// lingerFor is how long a watch outlives its last user. Who waits for a name again and
	// again mostly finds the same Locker ahead, whose key has the same name as last time:
	// then neither the watch is made anew nor the look that a new watch needs. And while
	// there is a watch the client keeps its stream, for which it would have to log in again.
	lingerFor = 3 * time.Second
	// unusedMost is how many watches are kept without a user.
	unusedMost = 64
)

// target is what is watched: one key, or all keys of a queue. Deletions are always told,
// puts if wanted.
type target struct {
	key         string
	queue, puts bool
}

// watches are the watches of one Locker. They begin at the present revision: who begins in
// the past is served by a loop of the server that runs every 100 ms.
type watches struct {
	mu            sync.Mutex
	subscriptions map[target]*subscription
	unused        int // subscriptions without a watcher
	stream        int // number of the stream that new ones go by
}

// subscription is one watch at the server, for all of this Locker who wait for its target.
type subscription struct {
	ready chan struct{} // closed when the server has confirmed it, or it has ended
	end   context.CancelFunc

	// Under watches.mu.
	since    int64 // no event after this revision goes unnoticed by who begins now
	ended    error
	watchers map[*watcher]struct{}
	linger   *time.Timer
}

// watcher is one user of a subscription.
type watcher struct {
	b     *backend
	to    target
	sub   *subscription
	since int64         // no event after this revision goes unnoticed
	news  chan struct{} // has a value when there is something to take

	// Under watches.mu.
	events []*clientv3.Event
}

// watch begins to use the watch of a target, and returns when the server has confirmed it.
func (b *backend) watch(ctx context.Context, to target) (*watcher, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	w := &watcher{b: b, to: to, news: make(chan struct{}, 1)}
	ws := &b.watches
	ws.mu.Lock()
	w.sub = ws.subscriptions[to]
	if w.sub == nil {
		w.sub = b.subscribe(to)
	} else if len(w.sub.watchers) == 0 {
		ws.unused--
		w.sub.linger.Stop()
	}
	w.sub.watchers[w] = struct{}{}
	ws.mu.Unlock()
	select {
	case <-w.sub.ready:
	case <-ctx.Done():
		w.close()
		return nil, ctx.Err()
	}
	ws.mu.Lock()
	err := w.sub.ended
	w.since = w.sub.since
	ws.mu.Unlock()
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// told returns a channel that has a value when there is something to take; nil for a nil watcher.
func (w *watcher) told() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.news
}

// take returns the events since the last call, and the reason if there will be no more.
func (w *watcher) take() ([]*clientv3.Event, error) {
	ws := &w.b.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	events := w.events
	w.events = nil
	return events, w.sub.ended
}

// close ends the use of the watch.
func (w *watcher) close() {
	if w == nil {
		return
	}
	ws := &w.b.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	s := w.sub
	delete(s.watchers, w)
	if len(s.watchers) > 0 || ws.subscriptions[w.to] != s {
		return
	}
	ws.unused++
	s.linger = time.AfterFunc(lingerFor, func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		if len(s.watchers) == 0 {
			ws.drop(w.to, s)
		}
	})
	if ws.unused > unusedMost {
		ws.drop(w.to, s)
	}
}

// drop ends s, which nobody begins to use any more; ws.mu is held.
func (ws *watches) drop(to target, s *subscription) {
	s.end()
	if ws.subscriptions[to] != s {
		return
	}
	delete(ws.subscriptions, to)
	if len(s.watchers) == 0 {
		s.linger.Stop()
		ws.unused--
	}
}

// subscribe begins a watch; b.watches.mu is held.
func (b *backend) subscribe(to target) *subscription {
	ws := &b.watches
	// The client has one stream for all watches with the same metadata.
	ctx := metadata.AppendToOutgoingContext(b.life, "locker-stream", strconv.Itoa(ws.stream))
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	s := &subscription{ready: make(chan struct{}), end: cancel, watchers: make(map[*watcher]struct{})}
	ws.subscriptions[to] = s
	go b.receive(ctx, to, s)
	return s
}

// receive tells the watchers of s what the server tells, until there is nothing more.
func (b *backend) receive(ctx context.Context, to target, s *subscription) {
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if to.queue {
		opts = append(opts, clientv3.WithPrefix())
	}
	if !to.puts {
		opts = append(opts, clientv3.WithFilterPut())
	}
	silence := time.AfterFunc(patience+time.Duration(b.slow.Load()), b.restartWatches)
	defer silence.Stop()
	err := errWatchEnded
	for r := range b.client.Watch(ctx, to.key, opts...) {
		if why := r.Err(); why != nil {
			err = why
			break
		}
		silence.Stop()
		s.tell(&b.watches, r)
	}
	if refused(err) {
		b.restartWatches() // a stream is opened with a token, which may have become invalid
		err = errWatchEnded
	}
	b.watches.remove(to, s, err)
}

// tell passes one response on.
func (s *subscription) tell(ws *watches, r clientv3.WatchResponse) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if r.Created {
		s.since = r.Header.Revision
		close(s.ready)
	}
	for _, ev := range r.Events {
		s.since = max(s.since, ev.Kv.ModRevision)
	}
	if len(r.Events) == 0 {
		return
	}
	for w := range s.watchers {
		w.events = append(w.events, r.Events...)
		w.rouse()
	}
}

// remove takes in that s has ended.
func (ws *watches) remove(to target, s *subscription, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.drop(to, s)
	s.ended = err
	for w := range s.watchers {
		w.rouse()
	}
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
}

func (w *watcher) rouse() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// restartWatches ends all watches, so that they are made anew on another stream. A stream
// belongs to one member of the cluster; if that has fallen silent, no watch on it
// will ever say so.
func (b *backend) restartWatches() {
	ws := &b.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.subscriptions) == 0 {
		return
	}
	ws.stream++
	for to, s := range ws.subscriptions {
		ws.drop(to, s)
	}
}
