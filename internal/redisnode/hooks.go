package redisnode

import (
	"context"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	goredis "github.com/redis/go-redis/v9"
)

// hookWatch is a hook that does nothing but find out whether the client has others, and remember why
// it could not connect: the client tells that only after several attempts, for which the caller may not
// have the time. Hooks added before it call it; those added after it are what it is to call.
type hookWatch struct {
	before bool
	after  atomic.Bool
	dial   atomic.Pointer[failedDial]
}

type failedDial struct {
	at  time.Time
	err error
}

// failedSince returns why it was not possible to connect at some time after t, nil if it was or nobody
// tried.
func (w *hookWatch) failedSince(t time.Time) error {
	if w == nil {
		return nil
	}
	if f := w.dial.Load(); f != nil && f.at.After(t) {
		return f.err
	}
	return nil
}

// none reports whether the client has no other hooks.
func (w *hookWatch) none() bool { return !w.before && !w.after.Load() }

// probe is a command that goes no further than the hookWatch.
type probe struct {
	*goredis.Cmd
	direct bool // nothing was between
}

func (w *hookWatch) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			w.dial.Store(&failedDial{time.Now(), err})
		}
		return conn, err
	}
}

func (w *hookWatch) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (w *hookWatch) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	if f := runtime.FuncForPC(reflect.ValueOf(next).Pointer()); f == nil || !ofClient(f.Name()) {
		w.after.Store(true)
	}
	return func(ctx context.Context, cmd goredis.Cmder) error {
		p, ok := cmd.(*probe)
		if !ok {
			return next(ctx, cmd)
		}
		var callers [1]uintptr
		runtime.Callers(2, callers[:])
		caller, _ := runtime.CallersFrames(callers[:]).Next()
		p.direct = ofClient(caller.Function)
		return nil
	}
}

// ofClient reports whether a function is one of go-redis.
func ofClient(function string) bool {
	return strings.HasPrefix(function, "github.com/redis/go-redis/v9.")
}

// watched are the clients that have a hookWatch, and theirs. adding is held while one is added.
var (
	watched sync.Map
	adding  sync.Mutex
)

// watchHooks returns the hookWatch of a client, which it adds at the first call.
func watchHooks[C any](client *C, c interface {
	AddHook(goredis.Hook)
	processor
}) *hookWatch {
	key := weak.Make(client)
	if w, ok := watched.Load(key); ok {
		return w.(*hookWatch)
	}
	adding.Lock()
	defer adding.Unlock()
	if w, ok := watched.Load(key); ok {
		return w.(*hookWatch)
	}
	w := &hookWatch{}
	c.AddHook(w)
	p := &probe{Cmd: goredis.NewCmd(context.Background(), "probe")}
	_ = c.Process(context.Background(), p)
	w.before = !p.direct
	watched.Store(key, w)
	runtime.AddCleanup(client, func(key weak.Pointer[C]) { watched.Delete(key) }, key)
	return w
}
