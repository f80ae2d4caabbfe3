package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watches are all watches of one Locker: each for the deletions of one key, all on
// one stream, without a goroutine for each.
//
// They are made on the client's connection but not with its Watcher, for the sake of
// what that would cost where waits are short. There every watch begins and ends with
// a request; here a watch outlives its use for a while, because who waits for a
// name again and again mostly finds the same Locker before it, whose key has the
// same name as last time. There a watch that was cut off is resumed in the past;
// here its user is told, who reads what was missed and begins anew.
type watches struct {
	remote pb.WatchClient
	life   context.Context

	opening chan struct{} // taken by whoever opens a stream

	mu      sync.Mutex
	current *stream
}

func newWatches(life context.Context, remote pb.WatchClient) *watches {
	return &watches{remote: remote, life: life, opening: make(chan struct{}, 1)}
}

// tap is one use of a watch: it waits for one deletion of the key.
type tap struct {
	w     *watch
	after int64         // the deletion waited for has a greater revision
	then  func()        // called, if not nil, when done is closed, by a goroutine of its own
	done  chan struct{} // closed when it has come, or never will

	// deleted is the revision of the deletion; 0 if err says why there will be none.
	deleted int64
	was     *mvccpb.KeyValue // the key before that, if known
	err     error
}

// quietSince reports whether the watch has told of no deletion after a revision, at which
// it had begun already.
func (t *tap) quietSince(rev int64) bool {
	if t == nil {
		return false
	}
	s := t.w.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	_, quiet := t.w.taps[t]
	return quiet && t.w.id >= 0 && t.w.from <= rev
}

// open waits for a deletion of key at a revision greater than after. It returns when
// the watch is established; what happened before the revision from is then not known.
func (ws *watches) open(ctx context.Context, key string, after int64) (t *tap, from int64, err error) {
	for {
		t, fresh, err := ws.ask(ctx, key, after, 0, nil)
		if err != nil {
			return nil, 0, err
		}
		select {
		case <-t.w.known:
		case <-ctx.Done():
			t.close()
			return nil, 0, ctx.Err()
		}
		switch {
		case t.w.id >= 0:
			return t, t.w.from, nil
		case fresh || !tokenExpired(t.err):
			return nil, 0, t.err
		}
	}
}

// ask is open without waiting for the server, which may still refuse. A new watch
// begins at the revision start, or, where that is 0, now. The server tells at once
// what happens from now on; who begins in the past is told, at first, only every
// 100 ms. It says whether a stream was opened for it.
func (ws *watches) ask(ctx context.Context, key string, after, start int64, then func()) (t *tap, fresh bool, err error) {
	for t == nil {
		var s *stream
		if s, fresh, err = ws.stream(ctx); err != nil {
			return nil, fresh, err
		}
		t = s.ask(key, after, start, then) // nil if it has ended at this very moment
	}
	return t, fresh, nil
}

// tokenExpired: a stream is opened with a token, which may become invalid while it
// is open. The client gets another for each new stream, so that one ends.
func tokenExpired(err error) bool {
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision)
}

// stream returns the stream for the next watch, and whether it was opened for it.
func (ws *watches) stream(ctx context.Context) (s *stream, fresh bool, err error) {
	if s := ws.usable(); s != nil {
		return s, false, nil
	}
	select {
	case ws.opening <- struct{}{}:
		defer func() { <-ws.opening }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if s := ws.usable(); s != nil {
		return s, false, nil
	}
	life, cancel := context.WithCancel(clientv3.WithRequireLeader(ws.life))
	stop := context.AfterFunc(ctx, cancel)
	rpc, err := ws.remote.Watch(life)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, false, rpctypes.Error(err)
	}
	s = newStream(rpc, cancel)
	ws.mu.Lock()
	ws.current = s
	ws.mu.Unlock()
	return s, true, nil
}

// usable returns the present stream unless it has ended.
func (ws *watches) usable() *stream {
	ws.mu.Lock()
	s := ws.current
	ws.mu.Unlock()
	if s == nil {
		return nil
	}
	select {
	case <-s.over:
		return nil
	default:
		return s
	}
}

// suspect is called when some request has met silence. A stream belongs to one
// member of the cluster; if that is the one that is silent no watch on it will
// ever say so, so that all are made anew, on another.
func (ws *watches) suspect() {
	if s := ws.usable(); s != nil && time.Since(s.since) > streamYoung {
		s.fail(errWatch)
	}
}
