package zookeeper

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

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
	refused  bool  // it took too long, and is not to any more
	session  int64
	began    driver.Instant // the request to open the session was sent
	last     int32          // number of our last request
	waiting  []sent         // requests not answered, in the order of sending
	size     int            // of those, in bytes
	out      []byte         // not written yet
	spare    []byte         // to be used for out
	writing  bool
	watchers map[string][]*watcher
}

// sent is a request on its way.
type sent struct {
	xid  int32
	size int
	at   driver.Instant
	call *call // nil if it is the library's
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
	w.begin(calls...)
	return w.outcome(ctx, calls[len(calls)-1])
}

// begin is the first half of ask.
func (w *wire) begin(calls ...*call) {
	calls[len(calls)-1].done = make(chan struct{})
	w.post(calls...)
}

// outcome is the second: the server answers in the order in which it was asked.
func (w *wire) outcome(ctx context.Context, last *call) error {
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

// send queues a frame for writing.
func (w *wire) send(frame []byte, xid int32, c *call) {
	w.waiting = append(w.waiting, sent{xid: xid, size: len(frame), at: w.home.clock.Now(), call: c})
	w.size += len(frame)
	w.out = append(w.out, frame...)
}

// buffered is what every system takes off a writer's hands: for so many bytes that the
// server has not answered, a write does not block.
const buffered = 8 << 10

// flush has what is queued written, unless that is being done. It never blocks, so that
// those who ask are not held up by a connection that takes nothing: what might
// have to wait is written aside, and so is what comes in all the time.
func (w *wire) flush() {
	if w.writing {
		return
	}
	for range 8 {
		if !w.pending() || w.size > buffered {
			break
		}
		w.write()
	}
	if w.pending() {
		w.writing = true
		go w.drain()
	}
}

func (w *wire) pending() bool { return len(w.out) > 0 && w.err == nil }

// write writes what is queued now. It is called with mu held and lets go of it
// meanwhile.
func (w *wire) write() {
	w.writing = true
	out := w.out
	w.out = w.spare[:0]
	w.mu.Unlock()
	_, err := w.Conn.Write(out)
	w.mu.Lock()
	if err != nil {
		w.end(err)
	}
	w.spare = out
	w.writing = false
}

// drain writes until nothing is queued.
func (w *wire) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.pending() {
		w.write()
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
		w.home.opening(w.out)
	case len(frame) >= 8:
		w.send(frame, int32(binary.BigEndian.Uint32(frame[4:])), nil)
	}
	w.flush()
	return len(frame), nil
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
	w.waiting, w.out, w.spare = nil, nil, nil
	clear(w.watchers)
	close(w.dead)
	go w.home.ended(w, err)
}
