package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	// unusedFor is how long the server may bother us with a watch that nobody uses.
	unusedFor = time.Second
	// streamIdle is how long a stream stays open with none but such watches.
	streamIdle = 5 * time.Second
	// unusedMost is how many of them a stream keeps.
	unusedMost = 64
	// streamYoung is for how long silence elsewhere is not held against a stream.
	streamYoung = 2 * time.Second
)

// stream carries watches to one member. Two goroutines serve it: one sends, so that
// nobody hangs when the network takes no more, and one receives. It ends when no
// watch has been used for a while.
type stream struct {
	rpc    pb.Watch_WatchClient
	cancel context.CancelFunc
	since  time.Time
	over   chan struct{} // closed when it has ended
	more   chan struct{} // there is something to send

	mu    sync.Mutex
	out   []*pb.WatchRequest // to be sent
	asked []*watch           // not answered yet, in order
	byID  map[int64]*watch   // answered
	byKey map[string]*watch  // the latest for each key, answered or not
	used  int                // watches that are used
	idle  *time.Timer
}

// watch is a watch as the server knows it.
type watch struct {
	stream *stream
	key    string
	known  chan struct{} // closed when the server has answered, or never will

	// Set before known is closed.
	id   int64 // -1: refused
	from int64 // a revision after which no deletion goes unnoticed

	// Under stream.mu.
	last  int64 // the revision of the latest deletion
	taps  map[*tap]struct{}
	since time.Time // when it was used last
}

func newStream(rpc pb.Watch_WatchClient, cancel context.CancelFunc) *stream {
	s := &stream{
		rpc:    rpc,
		cancel: cancel,
		since:  time.Now(),
		over:   make(chan struct{}),
		more:   make(chan struct{}, 1),
		byID:   make(map[int64]*watch),
		byKey:  make(map[string]*watch),
	}
	s.idle = time.AfterFunc(streamIdle, s.rest)
	go s.send()
	go s.receive()
	return s
}

func (s *stream) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// ask taps the watch of a key, and has one made if there is none that knows enough. It
// returns nil if the stream has ended.
func (s *stream) ask(key string, after, start int64, then func()) *tap {
	t := &tap{after: after, then: then, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver() {
		return nil
	}
	w := s.byKey[key]
	if w == nil || start > 0 && (w.id < 0 || w.from >= start) {
		w = s.create(key, start)
	}
	t.w = w
	if len(w.taps) == 0 {
		s.used++
	}
	w.taps[t] = struct{}{}
	if w.last > after {
		s.end(t, w.last, nil)
	}
	return t
}

func (s *stream) create(key string, start int64) *watch {
	w := &watch{stream: s, key: key, id: -1, known: make(chan struct{}), taps: make(map[*tap]struct{})}
	s.byKey[key] = w
	s.asked = append(s.asked, w)
	s.enqueue(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key:           []byte(key),
		StartRevision: start,
		PrevKv:        true,
		Filters:       []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT},
	}}})
	return w
}

// drop ends a watch at the server.
func (s *stream) drop(w *watch) {
	s.remove(w)
	s.enqueue(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{
		WatchId: w.id,
	}}})
}

func (s *stream) remove(w *watch) {
	delete(s.byID, w.id)
	if s.byKey[w.key] == w {
		delete(s.byKey, w.key)
	}
}

func (s *stream) enqueue(r *pb.WatchRequest) {
	s.out = append(s.out, r)
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *stream) send() {
	for {
		select {
		case <-s.more:
		case <-s.over:
			return
		}
		s.mu.Lock()
		out := s.out
		s.out = nil
		s.mu.Unlock()
		for _, r := range out {
			if s.rpc.Send(r) != nil {
				return // receive is told why
			}
		}
	}
}

func (s *stream) receive() {
	for {
		r, err := s.rpc.Recv()
		if err != nil {
			s.fail(rpctypes.Error(err))
			return
		}
		s.take(r)
	}
}

// take deals with one message. The server answers in the order in which it was
// asked, and tells of nothing before it has answered.
func (s *stream) take(r *pb.WatchResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver() {
		return
	}
	w := s.byID[r.WatchId]
	if r.Created && len(s.asked) > 0 {
		w, s.asked = s.asked[0], s.asked[1:]
	}
	switch {
	case w == nil:
		// It has been dropped.
	case r.Canceled:
		s.refuse(w, refusal(r))
	case r.Created:
		w.id, w.from = r.WatchId, r.Header.GetRevision()
		s.byID[w.id] = w
		close(w.known)
	default:
		for _, ev := range r.Events {
			if ev.Type == mvccpb.Event_DELETE {
				s.deleted(w, ev.Kv.ModRevision, ev.PrevKv)
			}
		}
	}
}

func (s *stream) deleted(w *watch, rev int64, was *mvccpb.KeyValue) {
	w.last = max(w.last, rev)
	for t := range w.taps {
		if rev > t.after {
			t.was = was
			s.end(t, rev, nil)
		}
	}
	if len(w.taps) == 0 && time.Since(w.since) > unusedFor {
		s.drop(w)
	}
}

// refuse ends a watch that the server does not carry on with.
func (s *stream) refuse(w *watch, err error) {
	s.remove(w)
	for t := range w.taps {
		s.end(t, 0, err)
	}
	if w.id < 0 {
		close(w.known)
	}
	if tokenExpired(err) {
		s.endAll(errWatch)
	}
}

// refusal says why the server does not carry on with a watch.
func refusal(r *pb.WatchResponse) error {
	if r.CompactRevision != 0 {
		return rpctypes.ErrCompacted
	}
	_, reason, found := strings.Cut(r.CancelReason, "desc = ")
	if !found {
		reason = r.CancelReason
	}
	return rpctypes.Error(errors.New(reason))
}

// end ends the use of a watch.
func (s *stream) end(t *tap, deleted int64, err error) {
	w := t.w
	if _, ok := w.taps[t]; !ok {
		return
	}
	delete(w.taps, t)
	t.deleted, t.err = deleted, err
	close(t.done)
	if t.then != nil {
		go t.then()
	}
	if len(w.taps) > 0 {
		return
	}
	w.since = time.Now()
	s.used--
	if s.used == 0 {
		s.idle.Reset(streamIdle)
	}
	if len(s.byID)-s.used > unusedMost {
		s.thin()
	}
}

// thin drops the watch that has not been used for longest.
func (s *stream) thin() {
	var oldest *watch
	for _, w := range s.byID {
		if len(w.taps) == 0 && (oldest == nil || w.since.Before(oldest.since)) {
			oldest = w
		}
	}
	if oldest != nil {
		s.drop(oldest)
	}
}

// close ends the use of a watch for a user that has lost interest.
func (t *tap) close() {
	if t == nil {
		return
	}
	s := t.w.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := t.w.taps[t]; ok {
		t.then = nil
		s.end(t, 0, errWatch)
	}
}

// rest ends a stream that nobody has used for a while.
func (s *stream) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == 0 {
		s.endAll(errWatch)
	}
}

// fail ends the stream and every watch on it.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endAll(err)
}

func (s *stream) endAll(err error) {
	if s.isOver() {
		return
	}
	close(s.over)
	s.cancel()
	all := s.asked
	for _, w := range s.byID {
		all = append(all, w)
	}
	for _, w := range all {
		for t := range w.taps {
			s.end(t, 0, err)
		}
		if w.id < 0 {
			close(w.known)
		}
	}
	s.idle.Stop()
	s.asked, s.byID, s.byKey = nil, nil, nil
}
