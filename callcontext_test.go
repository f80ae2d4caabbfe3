package locker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A call ends with its caller's context, with the Locker's, at its deadline and when
// it is over, whichever comes first and however one looks.
func TestCallContext(t *testing.T) {
	type parts struct {
		call    *callContext
		caller  context.CancelFunc
		another context.CancelFunc
	}
	ends := []struct {
		name string
		end  func(parts)
		want error
	}{
		{"caller", func(p parts) { p.caller() }, context.Canceled},
		{"another", func(p parts) { p.another() }, context.Canceled},
		{"deadline", func(parts) { time.Sleep(time.Minute) }, context.DeadlineExceeded},
		{"over", func(p parts) { p.call.end() }, context.Canceled},
	}
	looks := map[string]func(context.Context) error{
		"Err":  func(ctx context.Context) error { return ctx.Err() },
		"Done": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"child": func(ctx context.Context) error {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			<-child.Done()
			return child.Err()
		},
	}
	for _, e := range ends {
		for look, err := range looks {
			for _, before := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					var p parts
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					with, cancelWith := context.WithCancel(context.Background())
					defer cancelWith()
					p = parts{&callContext{Context: ctx, with: with, until: time.Now().Add(time.Minute)}, cancel, cancelWith}
					defer p.call.end()
					if d, ok := p.call.Deadline(); !ok || time.Until(d) != time.Minute {
						t.Errorf("deadline %v, %v", d, ok)
					}
					if p.call.Err() != nil {
						t.Error("ended before its time")
					}
					if before {
						child, cancel := context.WithCancel(p.call)
						defer cancel()
						synctest.Wait()
						if child.Err() != nil {
							t.Error("a child ended before its time")
						}
					}
					e.end(p)
					if got := err(p.call); !errors.Is(got, e.want) {
						t.Errorf("%s seen by %s, waited before %v: %v", e.name, look, before, got)
					}
				})
			}
		}
	}
}
