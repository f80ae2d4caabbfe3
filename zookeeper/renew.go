package zookeeper

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// confirmations is how many requests of one Renew are under way at the same time.
const confirmations = 32

// Renew asks nothing for the single lock but once, to watch its node. Now and then it asks the leader,
// for the session.
func (d *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	id, err := d.session.usable(ctx, true)
	if err != nil {
		return // not known; what was lost, the core has been told
	}
	if d.session.contact.stale(d.clock.Now()) {
		err = d.session.sync()
	}
	errs := make([]error, len(claims))
	slots := make(chan struct{}, confirmations)
	var wg sync.WaitGroup
	for i, c := range claims {
		st := stateOf(c)
		switch {
		case st.lost() != nil:
		case st.session != id:
			st.end(zk.ErrSessionExpired)
		case st.quiet():
		default:
			slots <- struct{}{}
			wg.Go(func() {
				errs[i] = d.confirm(st)
				<-slots
			})
		}
	}
	wg.Wait()
	until := d.session.contact.until()
	for i, c := range claims {
		lost := stateOf(c).lost()
		err := errors.Join(errs[i], err)
		switch {
		case lost != nil:
			report(c, 0, gone(lost))
		case err != nil:
			report(c, 0, err)
		default:
			report(c, until, nil)
		}
	}
}

// quiet reports whether there is nothing to be asked for the claim: its node is watched, and nothing
// has happened that its watches would tell.
func (st *claimState) quiet() bool {
	if !st.watching.TryLock() {
		return false
	}
	defer st.watching.Unlock()
	return st.own != nil && len(st.own) == 0 && (st.wanted || st.joins != nil && len(st.joins) == 0)
}

// confirm sees to it that the claim's node is there and watched.
func (d *backend) confirm(st *claimState) error {
	st.watching.Lock()
	defer st.watching.Unlock()
	if st.own == nil || len(st.own) > 0 {
		_, events, err := d.session.watch(st.node)
		if errors.Is(err, zk.ErrNoNode) {
			st.end(errDeleted)
			return nil
		}
		if err != nil {
			return err
		}
		st.own = events
	}
	if !st.wanted && (st.joins == nil || len(st.joins) > 0) {
		d.hint(st)
	}
	return nil
}

// hint tells the core if somebody waits. Who joins a queue writes to it.
func (d *backend) hint(st *claimState) {
	stat, events, err := d.session.watch(st.queue)
	st.joins = events
	if err != nil || stat.NumChildren <= 1 {
		return
	}
	l, _ := d.list(st.queue, false)
	if n := len(l.queue); n > 0 && !l.queue[n-1].granted() {
		st.wanted = true
		st.claim.Wanted()
	}
}
