package zookeeper

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/go-zookeeper/zk"
)

// maxFrame is more than any server sends.
const maxFrame = 64 << 20

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
		if !w.open(id, timeout) {
			return errBroken
		}
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

// open notes that the server has answered the request to open the session; false if
// nobody waits for that any more. An id of 0 means that the session is no more.
func (w *wire) open(id int64, timeout time.Duration) bool {
	w.mu.Lock()
	if w.refused {
		w.mu.Unlock()
		return false
	}
	w.opened, w.session = true, id
	w.mu.Unlock()
	w.late.Stop()
	w.home.opened(w, id, timeout)
	return true
}

// refuse has the session not opened on this connection, unless that was done.
func (w *wire) refuse() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = !w.opened
	return w.refused
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
		w.size -= s.size
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
