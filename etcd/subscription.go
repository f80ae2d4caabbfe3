package etcd

import (
	"context"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// lingerFor is how long a watch outlives its use. Who waits for a name again and again mostly
// finds the same Locker ahead, whose key has the same name as last time: then neither the
// watch is made anew nor the look that a new watch needs. And while there is a watch the
// client keeps its stream. Without it 16 clients took a third as many locks.
const lingerFor = 3 * time.Second

// target is what is watched: one key, or all keys of a queue. Deletions are always told,
// puts if wanted.
type target struct {
	key         string
	queue, puts bool
}

// watches are the watches of one Locker. They begin at the present revision: who begins in
// the past is served by a loop of the server that runs every 100 ms.
type watches struct {
	mu     sync.Mutex
	idle   map[target]*watch // not in use, until they have lingered
	stream int               // number of the stream that new ones go by
	life   context.Context   // of those of this stream
	end    context.CancelFunc
}

// watch is one watch at the server. It has one user at a time.
type watch struct {
	watches *watches
	to      target
	end     context.CancelFunc
	ready   chan struct{} // closed when the server has confirmed it, or it has ended
	news    chan struct{} // has a value when there is something to take

	// Under watches.mu.
	since  int64 // no event after this revision goes unnoticed by who begins to use it now
	events []*clientv3.Event
	ended  error
	linger *time.Timer
}

// watch returns a watch of a target that the server has confirmed, and the revision after
// which no event goes unnoticed.
func (b *backend) watch(ctx context.Context, to target) (w *watch, since int64, err error) {
	ws := &b.watches
	ws.mu.Lock()
	if w = ws.idle[to]; w == nil {
		w = b.newWatch(to)
	} else {
		w.linger.Stop()
		delete(ws.idle, to)
		w.events = nil
		select {
		case <-w.news:
		default:
		}
	}
	ws.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		w.close()
		return nil, 0, ctx.Err()
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w, w.since, w.ended
}

// newWatch begins a watch; b.watches.mu is held.
func (b *backend) newWatch(to target) *watch {
	ws := &b.watches
	if ws.life == nil || ws.life.Err() != nil {
		ws.stream++
		ws.life, ws.end = context.WithCancel(b.life)
	}
	// The client has one stream for all watches with the same metadata.
	ctx := metadata.AppendToOutgoingContext(ws.life, "locker-stream", strconv.Itoa(ws.stream))
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	w := &watch{watches: ws, to: to, end: cancel, ready: make(chan struct{}), news: make(chan struct{}, 1)}
	go b.receive(ctx, w)
	return w
}

// restartWatches ends all watches, so that they are made anew on another stream. A stream
// belongs to one member of the cluster; if that has fallen silent, no watch on it
// will ever say so.
func (b *backend) restartWatches() {
	ws := &b.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.end != nil {
		ws.end()
	}
	clear(ws.idle)
}

// take returns the events since the last call, and the reason if there will be no more.
func (w *watch) take() ([]*clientv3.Event, error) {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	events := w.events
	w.events = nil
	return events, w.ended
}

// close ends the use of w.
func (w *watch) close() {
	ws := w.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.ended != nil || ws.idle[w.to] != nil {
		w.end()
		return
	}
	ws.idle[w.to] = w
	w.linger = time.AfterFunc(lingerFor, func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		if ws.idle[w.to] == w {
			delete(ws.idle, w.to)
			w.end()
		}
	})
}

// receive takes in what the server tells, until there is nothing more.
func (b *backend) receive(ctx context.Context, w *watch) {
	defer w.end()
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if w.to.queue {
		opts = append(opts, clientv3.WithPrefix())
	}
	if !w.to.puts {
		opts = append(opts, clientv3.WithFilterPut())
	}
	silence := time.AfterFunc(b.patience(), b.restartWatches)
	defer silence.Stop()
	err := errWatchEnded
	for r := range b.client.Watch(ctx, w.to.key, opts...) {
		if why := r.Err(); why != nil {
			err = why
			break
		}
		silence.Stop()
		w.tell(r, nil)
	}
	if refused(err) { // a stream is opened with a token, which may have become invalid
		b.restartWatches()
		err = errWatchEnded
	}
	w.tell(clientv3.WatchResponse{}, err)
}

// tell takes in a response of the server, or that there will be no more.
func (w *watch) tell(r clientv3.WatchResponse, ended error) {
	ws := w.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, ev := range r.Events {
		w.since = max(w.since, ev.Kv.ModRevision)
		w.events = append(w.events, ev)
	}
	if r.Created {
		w.since = r.Header.Revision
		close(w.ready)
	} else if ended != nil && w.since == 0 {
		close(w.ready)
	}
	if w.ended = ended; ended != nil && ws.idle[w.to] == w {
		w.linger.Stop()
		delete(ws.idle, w.to)
	}
	if len(r.Events) == 0 && ended == nil {
		return
	}
	select {
	case w.news <- struct{}{}:
	default:
	}
}
