package zookeeper

import (
	"sync"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// claimState is what is known of a claim at the server; it is the claim's State. The first
// fields are written by Acquire and, after it, by whoever ends the holding.
type claimState struct {
	claim *driver.Claim
	queue string // path of the queue

	node    string // path of the claim's node, "" if none is known
	session int64  // in which it was made
	czxid   int64  // of the transaction that made it
	doubt   bool   // there may be a node that is not known
	made    bool   // its queue was made, and nothing in it yet
	known   int64  // the last zxid that the list of the queue is certain to show
	watched string // path of the node whose news is waited for, "" if there is none
	news    <-chan zk.Event
	hangups int // connections that ended instead of answering, one after the other

	ending  bool     // its end was asked for
	lingers string   // path of the node that was to take its place, "" if none
	lighter []string // paths of nodes that say that it is lighter
	weight  int32    // as they say

	watching sync.Mutex      // held by whoever asks for the watches
	own      <-chan zk.Event // news of the claim's node, nil if it is not watched
	joins    <-chan zk.Event // news of others who join the queue
	wanted   bool            // the core was told that others wait

	mu      sync.Mutex
	granted bool
	over    bool  // given up by its owner: what is heard is no news
	gone    error // why the node is no more
}

func stateOf(c *driver.Claim) *claimState {
	st, _ := c.State.(*claimState)
	return st
}

// forget records that the claim's node may be no more.
func (st *claimState) forget() {
	st.node, st.session, st.czxid = "", 0, 0
	st.own, st.watched, st.doubt = nil, "", true
	st.mu.Lock()
	st.granted, st.gone = false, nil
	st.mu.Unlock()
}

// end records that the node is no more, and tells the core if the claim held the name.
func (st *claimState) end(reason error) {
	st.mu.Lock()
	news := !st.over && st.gone == nil
	if news {
		st.gone = reason
	}
	told := news && st.granted
	st.mu.Unlock()
	if told && st.claim.Lost != nil {
		st.claim.Lost(reason)
	}
}

// lost returns why the node is no more, nil as far as is known.
func (st *claimState) lost() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.gone
}
