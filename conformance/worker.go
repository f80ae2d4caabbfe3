package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
)

// obey is the life of a child. It ends with its standard input.
func obey(t testing.TB, b *Backend) {
	if b.DialClient == nil {
		t.Fatal("conformance: Backend.Dial is nil in a child process")
	}
	opening, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w := &worker{b: b, opening: opening, out: json.NewEncoder(os.Stdout), locks: make(map[string]Holding)}
	orders := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var o order
		if orders.Decode(&o) != nil {
			os.Exit(0)
		}
		go w.carryOut(o)
	}
}

type worker struct {
	b       *Backend
	opening context.Context

	mu     sync.Mutex
	out    *json.Encoder
	client Client
	locks  map[string]Holding
}

func (w *worker) carryOut(o order) {
	ctx := context.Background()
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	r, err := w.do(ctx, o)
	r.ID = o.ID
	if err != nil {
		r.Err = err.Error()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Print("\n" + marker)
	_ = w.out.Encode(r)
}

func (w *worker) do(ctx context.Context, o order) (reply, error) {
	w.mu.Lock()
	client, lock := w.client, w.locks[o.Name]
	w.mu.Unlock()
	switch o.Do {
	case "open":
		client, err := w.b.DialClient(w.opening, os.Getenv(childEnv), locker.WithTTL(o.TTL))
		if err == nil && w.b.rig != nil {
			client = w.b.rig(client)
		}
		w.mu.Lock()
		w.client = client
		w.mu.Unlock()
		return reply{}, err
	case "acquire":
		lock, err := client.Acquire(ctx, o.Name, o.options()...)
		for again := 0; errors.Is(err, locker.ErrLost) && again < 5; again++ { // a machine that is late lost it before its use
			lock, err = client.Acquire(ctx, o.Name, o.options()...)
		}
		if err != nil {
			return reply{}, err
		}
		w.mu.Lock()
		w.locks[o.Name] = lock
		w.mu.Unlock()
		return reply{Token: lock.Token(), Stamp: stamp()}, nil
	case "loop":
		return w.loop(client, o)
	}
	if lock == nil {
		return reply{}, fmt.Errorf("%s: no lock on %q", o.Do, o.Name)
	}
	switch o.Do {
	case "release":
		return reply{}, lock.Release(ctx)
	case "look":
		err := lock.Context().Err()
		return reply{Kind: kindOf(err, lock.Context()), Stamp: stamp()}, nil
	case "watch":
		return w.watch(lock)
	}
	return reply{}, fmt.Errorf("unknown order %q", o.Do)
}

// options returns the options of the acquisition that is asked for.
func (o order) options() options {
	opts := kindNamed(o.Kind).own
	if o.AtLeast > 0 {
		opts = opts.with(locker.AtLeast(o.AtLeast))
	}
	return opts
}

// watch looks without a pause until the lock's context has ended.
func (w *worker) watch(lock Holding) (reply, error) {
	var r reply
	ctx := lock.Context()
	for {
		begun := stamp()
		if err := ctx.Err(); err != nil {
			r.Stamp, r.Kind = begun, kindOf(err, ctx)
			return r, nil
		}
		r.Alive = begun
	}
}

// loop takes and releases a name again and again for the time given.
func (w *worker) loop(client Client, o order) (reply, error) {
	var rec record
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	for ctx.Err() == nil {
		lock, err := client.Acquire(ctx, o.Name, o.options()...)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			return reply{}, err
		}
		begin := stamp()
		time.Sleep(o.Hold)
		rec.add(os.Getpid(), lock, begin)
		if err := lock.Release(context.Background()); err != nil && !errors.Is(err, locker.ErrLost) {
			return reply{}, err
		}
	}
	return reply{Spans: rec.spans}, nil
}

func kindOf(err error, ctx context.Context) string {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return "alive"
	case errors.Is(cause, locker.ErrLost):
		return "lost"
	case errors.Is(cause, locker.ErrReleased):
		return "released"
	}
	return fmt.Sprint(cause)
}
