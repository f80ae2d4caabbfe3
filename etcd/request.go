package etcd

import (
	"context"
	"sync"
	"time"
)

// underway are the requests that have not come back. Each has a context that can be
// cancelled, for when its patience or its caller's context ends. To make one, to tie it to
// that of the caller, and to set a timer took about as long as all the rest that a Locker
// does for an acquisition, and nearly every request is answered before anybody has looked at
// it. So contexts that nobody cancelled are used again, and one timer looks after all
// requests.
type underway struct {
	mu    sync.Mutex
	all   map[*request]struct{}
	timer *time.Timer
	armed bool
}

// lookEvery is how often requests under way are looked after: it is how late they end.
const lookEvery = 25 * time.Millisecond

type request struct {
	live   context.Context // not cancelled yet, or the request has been given up
	cancel context.CancelFunc
	caller context.Context
	until  time.Time // the end of patience
}

// spare are requests that were not given up.
var spare = sync.Pool{New: func() any {
	r := new(request)
	r.live, r.cancel = context.WithCancel(context.Background())
	return r
}}

// requestContext has the values of the caller's context.
type requestContext struct {
	context.Context // request.live
	caller          context.Context
}

// Value asks the inner context first: package context finds by it how to cancel what
// depends on it.
func (c *requestContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.caller.Value(key)
}

// begin begins a request on behalf of ctx. It has to be ended.
func (u *underway) begin(ctx context.Context, until time.Time) (*request, context.Context) {
	r := spare.Get().(*request)
	r.caller, r.until = ctx, until
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.timer == nil:
		u.all = make(map[*request]struct{})
		u.timer = time.AfterFunc(lookEvery, u.look)
	case !u.armed:
		u.timer.Reset(lookEvery)
	}
	u.armed = true
	u.all[r] = struct{}{}
	return r, &requestContext{r.live, ctx}
}

// look gives up what has taken too long.
func (u *underway) look() {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for r := range u.all {
		if now.After(r.until) || r.caller.Err() != nil {
			r.cancel()
		}
	}
	if u.armed = len(u.all) > 0; u.armed {
		u.timer.Reset(lookEvery)
	}
}

// end ends a request that has come back, and reports whether it was given up before.
func (u *underway) end(r *request) (givenUp bool) {
	u.mu.Lock()
	delete(u.all, r)
	u.mu.Unlock()
	if r.live.Err() != nil {
		return true
	}
	r.caller = nil
	spare.Put(r)
	return false
}
