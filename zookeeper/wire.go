package zookeeper

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// maxFrame is more than any server sends.
const maxFrame = 64 << 20

// ourXid is the first number of our requests. The library counts from 1 and only
// ever sends the one that ends the session.
const ourXid int32 = 1 << 30

// A wire is one TCP connection, used together by the library and by us. The library
// finds servers, opens, moves and closes the session, pings, and notices dead
// connections; all that concerns locks is said by us, on the same connection
// and in the same session, because the library's calls cannot do it:
//
//   - they take no context and block while there is no connection; a request of ours
//     is answered, or its wire is dead, and which of the two is known;
//   - they cannot be sent one behind the other in a given order, so that each would
//     have to wait for the one before it;
//   - they cannot set several watches with one request, or take one back.
//
// Frames are told apart by the number of the request. Those for the library are
// handed on as they are.
type wire struct {
	net.Conn
	home *session
	in   *bufio.Reader
	rest []byte        // of a frame for the library that it has not read yet
	dead chan struct{} // closed when the connection is over
	late *time.Timer   // ends the wire unless the session is open by then

	proved bool // it has answered more than the opening; the home's mu guards it

	mu       sync.Mutex
	err      error // why it is over
	opened   bool  // the server has confirmed the session
	session  int64
	began    driver.Instant // the request to open the session was sent
	last     int32          // number of our last request
	waiting  []sent         // requests not answered, in the order of sending
	out      []byte         // not written yet
	writing  bool
	watchers map[string][]*watcher
}

// sent is a request on its way.
type sent struct {
	xid  int32
	at   driver.Instant
	call *call // nil if it is the library's
}

// A call is one request of ours and its answer. What the answer was may be looked at
// once ask has returned without an error.
type call struct {
	op   int32
	req  encoder
	xid  int32
	err  error
	body []byte
	done chan struct{} // closed when answered or when the wire is dead
}

func newCall(op int32) *call { return &call{op: op, req: request(0, op)} }

func (c *call) reply() *decoder { return &decoder{rest: c.body} }

// leader says whether the answer took the leader of an ensemble.
func (c *call) leader() bool {
	switch c.op {
	case opCreate, opCreateContainer, opDelete, opMulti, opSync:
		return true
	}
	return false
}

// A watcher is told what happened to a node, once. It is called on the goroutine
// that reads, before anything that came after the news is read.
type watcher struct {
	path string
	tell func(event int32)
}

// errBroken says that the wire was dead before the answer came: what became of the
// request is not known. It wraps zk.ErrConnectionClosed.
var errBroken = fmt.Errorf("no answer: %w", zk.ErrConnectionClosed)

func newWire(home *session, conn net.Conn) *wire {
	return &wire{
		Conn:     conn,
		home:     home,
		in:       bufio.NewReader(conn),
		dead:     make(chan struct{}),
		last:     ourXid,
		watchers: make(map[string][]*watcher),
	}
}

// ask sends the calls one behind the other and waits until all are answered. An
// error means that it is not known which were carried out.
func (w *wire) ask(ctx context.Context, calls ...*call) error {
	last := calls[len(calls)-1]
	last.done = make(chan struct{})
	w.post(calls...)
	// The server answers in the order in which it was asked.
	select {
	case <-last.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if errors.Is(last.err, errBroken) {
		return last.err
	}
	return nil
}

// post sends the calls one behind the other and does not wait.
func (w *wire) post(calls ...*call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range calls {
		if w.err != nil {
			c.finish(errBroken)
			continue
		}
		if c.op == opAuth {
			c.xid = xidAuth
		} else {
			w.last = (w.last+1)&^(-1<<30) | ourXid
			c.xid = w.last
		}
		c.req.number(c.xid)
		w.send(c.req.frame(), c.xid, c)
	}
	w.flush()
}

func (c *call) finish(err error) {
	c.err = err
	if c.done != nil {
		close(c.done)
	}
}

// send queues a frame for writing.
func (w *wire) send(frame []byte, xid int32, c *call) {
	w.waiting = append(w.waiting, sent{xid: xid, at: w.home.clock.Now(), call: c})
	w.out = append(w.out, frame...)
}

// flush writes what is queued, unless another goroutine is doing so. It is called
// with mu held and lets go of it while it writes.
func (w *wire) flush() {
	if w.writing {
		return
	}
	w.writing = true
	var spare []byte
	for len(w.out) > 0 && w.err == nil {
		out := w.out
		w.out = spare[:0]
		w.mu.Unlock()
		_, err := w.Conn.Write(out)
		w.mu.Lock()
		if err != nil {
			w.end(err)
		}
		spare = out
	}
	w.writing = false
}

// Write takes a frame from the library. It never fails: the library, told that
// writing failed while it authenticates, may block for good, and a connection
// that cannot be written to is closed, which it learns by reading.
func (w *wire) Write(frame []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
	case w.began == 0:
		w.began = w.home.clock.Now()
		w.out = append(w.out, frame...)
	case len(frame) >= 8:
		w.send(frame, int32(binary.BigEndian.Uint32(frame[4:])), nil)
	}
	w.flush()
	return len(frame), nil
}

// Read gives the library the frames that are meant for it.
func (w *wire) Read(p []byte) (int, error) {
	for len(w.rest) == 0 {
		frame, err := w.frame()
		if err == nil {
			err = w.sort(frame)
		}
		if err != nil {
			w.fail(err)
			return 0, err
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// frame reads one frame, its length in front.
func (w *wire) frame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(w.in, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if most := uint32(maxFrame); n > most || !w.opened && n > 1<<10 {
		return nil, fmt.Errorf("zookeeper: frame of %d bytes: this is no ZooKeeper server, or it wants TLS", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(w.in, frame[4:])
	return frame, err
}

// sort finds out whom a frame is for.
func (w *wire) sort(frame []byte) error {
	d := &decoder{rest: frame[4:]}
	if !w.opened {
		d.int32() // version of the protocol
		timeout := time.Duration(d.int32()) * time.Millisecond
		id := d.int64()
		if d.err != nil {
			return d.err
		}
		w.open(id, timeout)
		w.rest = frame
		return nil
	}
	xid := d.int32()
	d.int64() // zxid
	code := d.int32()
	if d.err != nil {
		return d.err
	}
	if xid == xidEvent {
		event := d.int32()
		d.int32() // state
		w.happened(event, d.string())
		return d.err
	}
	c := w.answered(xid, code, d.rest)
	if c == nil {
		w.rest = frame
		return nil
	}
	return w.home.judge(w, c)
}

// open notes that the server has answered the request to open the session. An id of
// 0 means that the session is no more.
func (w *wire) open(id int64, timeout time.Duration) {
	w.mu.Lock()
	w.opened, w.session = true, id
	w.mu.Unlock()
	w.late.Stop()
	w.home.opened(w, id, timeout)
}

// answered finds the call that was answered, nil if it is the library's.
func (w *wire) answered(xid, code int32, body []byte) *call {
	now := w.home.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	// Only what authenticates is answered out of turn.
	for i, s := range w.waiting {
		if s.xid != xid {
			continue
		}
		if i == 0 {
			w.waiting = w.waiting[1:]
		} else {
			w.waiting = append(w.waiting[:i:i], w.waiting[i+1:]...)
		}
		w.home.contact.answer(s.at, now, s.call != nil && s.call.leader() && code != -6)
		if s.call == nil {
			return nil
		}
		s.call.body = body
		err := codeError(code)
		if err == zk.ErrSessionExpired || err == zk.ErrSessionMoved {
			err = fmt.Errorf("%w: %w", errBroken, err)
		}
		s.call.finish(err)
		return s.call
	}
	return nil
}

// SetReadDeadline is for the library, except that until the session is open its
// patience of several session timeouts is not shared: see [session.dial].
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	opened := w.opened
	w.mu.Unlock()
	if !opened {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: writes are not the library's, and one that hangs
// ends when the connection is found dead by reading.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// Close is called by the library and by us.
func (w *wire) Close() error {
	w.fail(net.ErrClosed)
	return nil
}

func (w *wire) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(err)
}

// end ends the wire: no request will be answered, no watcher told anything. It is
// called with mu held.
func (w *wire) end(err error) {
	if w.err != nil {
		return
	}
	w.err = err
	if w.late != nil {
		w.late.Stop()
	}
	_ = w.Conn.Close()
	for _, s := range w.waiting {
		if s.call != nil {
			s.call.finish(errBroken)
		}
	}
	w.waiting, w.out = nil, nil
	clear(w.watchers)
	close(w.dead)
	go w.home.ended(w, err)
}

// A watching is a request for several watches.
type watching struct {
	nodes []*watcher // to be told of the end of a node that should be there
	marks []*watcher // to be told of the making of one that should not
}

// watch sets several watches with one request. It is the one by which clients set
// their watches again on a new connection, and it answers at once with an event
// where things are already as one waits for.
func (w *wire) watch(x watching) *call {
	c := newCall(opSetWatches)
	c.req.int64(math.MaxInt64) // however recent a node is
	c.req.strings(paths(x.nodes)...)
	c.req.strings(paths(x.marks)...)
	c.req.strings()
	w.mu.Lock()
	for _, o := range append(x.nodes, x.marks...) {
		if w.err == nil {
			w.watchers[o.path] = append(w.watchers[o.path], o)
		}
	}
	w.mu.Unlock()
	return c
}

func paths(all []*watcher) []string {
	p := make([]string, len(all))
	for i, o := range all {
		p[i] = o.path
	}
	return p
}

// unwatch makes o deaf and says whether the server may still keep a watch that
// nobody here waits for. nil is allowed.
func (w *wire) unwatch(o *watcher) (left bool) {
	if o == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.watchers[o.path]
	for i := range all {
		if all[i] == o {
			if len(all) == 1 {
				delete(w.watchers, o.path)
				return true
			}
			w.watchers[o.path] = append(all[:i:i], all[i+1:]...)
		}
	}
	return false
}

// happened tells the watchers of a node.
func (w *wire) happened(event int32, path string) {
	w.mu.Lock()
	all := w.watchers[path]
	if len(all) > 0 && event == eventDataChanged {
		w.mu.Unlock()
		// Somebody wrote to the node, which is no news, but the watch is spent. This
		// goroutine must not wait for the connection to take the request.
		c := newCall(opSetWatches)
		c.req.int64(math.MaxInt64)
		c.req.strings(path)
		c.req.strings()
		c.req.strings()
		go w.post(c)
		return
	}
	delete(w.watchers, path)
	w.mu.Unlock()
	for _, o := range all {
		o.tell(event)
	}
}
