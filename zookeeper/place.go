package zookeeper

import (
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// A place is what is known of a claim at the server; it is the claim's State. The
// first fields are written by Acquire alone, and only read after it.
type place struct {
	claim *driver.Claim
	queue string        // path of the queue
	stir  chan struct{} // Acquire, waiting, has news

	node     string  // path of the claim's node, "" if none is known
	session  int64   // in which it was made
	token    int64   // its czxid
	asked    bool    // a create was sent
	doubt    bool    // a node may be there that is not known
	repeated bool    // a create was sent after one in doubt
	made     bool    // a request to make the queue was sent
	waited   bool    // others were there before
	alone    bool    // nobody was behind it when it was found to be the first
	version  int32   // the queue's, with its node in it; 0 if that is not known
	deleting bool    // Release has asked for the node's removal, and had no answer
	brought  *waiter // it came with a release and has not gone on from there

	mu      sync.Mutex
	granted bool
	over    bool     // given up by its owner: what is heard is no news
	gone    error    // why the node is no more
	watched *wire    // where the node is watched
	self    *watcher // there
}

func newPlace(c *driver.Claim, base string) *place {
	return &place{
		claim: c,
		queue: queuePath(base, c.Name),
		stir:  make(chan struct{}, 1),
	}
}

// stands notes the node that was made on w.
func (p *place) stands(w *wire, made results) {
	p.node, p.session, p.token, p.version = made.path, w.session, made.stat.pzxid, made.stat.version
}

var errDeleted = fmt.Errorf("its node was deleted: %w", zk.ErrNoNode)

// poke wakes Acquire.
func (p *place) poke() {
	select {
	case p.stir <- struct{}{}:
	default:
	}
}

// end notes that the node is no more, and tells whom it concerns.
func (p *place) end(reason error) {
	p.mu.Lock()
	if p.over || p.gone != nil {
		p.mu.Unlock()
		return
	}
	p.gone = reason
	granted := p.granted
	p.mu.Unlock()
	if granted && p.claim.Lost != nil {
		p.claim.Lost(reason)
	}
	p.poke()
}

// lost returns why the node is no more, nil as far as is known.
func (p *place) lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// grant makes the place a held one, unless it is lost.
func (p *place) grant() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.granted = p.gone == nil
	return p.granted
}

// ungrant takes it back.
func (p *place) ungrant() {
	p.mu.Lock()
	p.granted = false
	p.mu.Unlock()
}

// watchSelf returns a watcher of the place's own node for w, nil if there is one
// already or no need for one.
func (p *place) watchSelf(w *wire) *watcher {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watched == w || p.over {
		return nil
	}
	p.watched = w
	p.self = &watcher{path: p.node, tell: func(int32) { p.end(errDeleted) }}
	return p.self
}

// finish is called when the owner gives the place up.
func (p *place) finish() {
	p.mu.Lock()
	p.over = true
	w, o := p.watched, p.self
	p.mu.Unlock()
	if w != nil {
		w.unwatch(o)
	}
}

// mislay forgets a node that may be there all the same.
func (p *place) mislay() {
	p.forget()
	p.doubt = true
}

// forget makes ready for another node.
func (p *place) forget() {
	p.mu.Lock()
	w, o := p.watched, p.self
	p.gone, p.watched, p.self = nil, nil, nil
	p.mu.Unlock()
	if w != nil {
		w.unwatch(o)
	}
	p.node, p.session, p.token = "", 0, 0
	p.version, p.alone = 0, false
}
