package locker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

// A leader that loses the lead campaigns again once its function has returned; it resigns by
// returning nil.
func TestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		l := openStore(t, s)
		var tokens []int64
		err := locker.Lead(t.Context(), l, "leader", func(ctx context.Context, lock *locker.Lock) error {
			tokens = append(tokens, lock.Token())
			if len(tokens) == 3 {
				return nil
			}
			s.Destroy("leader")
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil || len(tokens) != 3 || tokens[0] >= tokens[1] || tokens[1] >= tokens[2] {
			t.Errorf("%v, tokens %v", err, tokens)
		}
		if s.Len() != 0 {
			t.Error("the lead was not given back")
		}
	})
}

func TestLeadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		l, other := openStore(t, s), openStore(t, s)
		broken := errors.New("broken")
		if err := locker.Lead(t.Context(), l, "x", func(context.Context, *locker.Lock) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("an error while leading: %v", err)
		}
		lead := 0
		err := locker.Lead(t.Context(), l, "x", func(ctx context.Context, _ *locker.Lock) error {
			lead++
			s.Destroy("x")
			<-ctx.Done()
			return nil
		})
		if err != nil || lead != 1 {
			t.Errorf("nil after a loss does not resign: %v, led %d times", err, lead)
		}
		held, err := other.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = locker.Lead(ctx, l, "x", func(context.Context, *locker.Lock) error { t.Error("leads beside another"); return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		closed := make(chan error)
		go func() {
			closed <- locker.Lead(t.Context(), l, "x", func(context.Context, *locker.Lock) error { return nil })
		}()
		synctest.Wait()
		_ = l.Close(t.Context())
		if err := <-closed; !errors.Is(err, locker.ErrClosed) {
			t.Error(err)
		}
		_ = held.Release(t.Context())
	})
}

// A lead that is lost at once every time does not make a storm of campaigns.
func TestLeadPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		l := openStore(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		led := 0
		_ = locker.Lead(ctx, l, "x", func(ctx context.Context, _ *locker.Lock) error {
			led++
			s.Destroy("x")
			<-ctx.Done()
			return ctx.Err()
		})
		if led < 3 || led > 30 {
			t.Errorf("led %d times in ten seconds", led)
		}
	})
}
