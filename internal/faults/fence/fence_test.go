package fence_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker/internal/faults/fence"
	"github.com/seed80cd6120/locker/internal/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = locktest.Must

type user interface {
	Open(name string, token int64, holder string) (int64, error)
	Write(name string, token int64, holder string, was int64) error
}

// each runs a test on the resource itself and over its socket.
func each(t *testing.T, test func(t *testing.T, r *fence.Resource, u user)) {
	t.Run("here", func(t *testing.T) {
		r := fence.New()
		test(t, r, r)
	})
	t.Run("over a socket", func(t *testing.T) {
		r := fence.New()
		s, err := r.Serve()
		must(t, err)
		defer s.Close()
		c, err := fence.Dial(s.Addr())
		must(t, err)
		defer c.Close()
		test(t, r, c)
	})
}

func TestLowerTokensAreRefused(t *testing.T) {
	each(t, func(t *testing.T, r *fence.Resource, u user) {
		n, err := u.Open("x", 5, "a")
		must(t, err)
		_, err = u.Open("x", 6, "b")
		must(t, err)
		if err := u.Write("x", 5, "a", n); !errors.Is(err, fence.ErrStale) {
			t.Errorf("a write with a lower token gave %v", err)
		}
		if _, err := u.Open("x", 5, "a"); !errors.Is(err, fence.ErrStale) {
			t.Errorf("a look with a lower token gave %v", err)
		}
		must(t, u.Write("x", 6, "b", 0))
		_, err = u.Open("y", 1, "c") // names are independent
		must(t, err)
		if n := r.Writes("x"); n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
		if v := r.Violations(); len(v) > 0 {
			t.Errorf("refusing is no violation: %v", v)
		}
	})
}

func TestTokenGivenTwiceIsAViolation(t *testing.T) {
	each(t, func(t *testing.T, r *fence.Resource, u user) {
		_, _ = u.Open("x", 5, "a")
		_, _ = u.Open("x", 5, "b")
		if v := r.Violations(); len(v) != 1 || !strings.Contains(v[0], "token 5 was given to a and to b") {
			t.Errorf("violations %q", v)
		}
	})
}

// Two with no token between them to tell them apart both write.
func TestLostUpdateIsAViolation(t *testing.T) {
	each(t, func(t *testing.T, r *fence.Resource, u user) {
		a, _ := u.Open("x", 0, "a")
		b, _ := u.Open("x", 0, "b")
		_ = u.Write("x", 0, "b", b)
		_ = u.Write("x", 0, "a", a)
		if v := strings.Join(r.Violations(), "\n"); !strings.Contains(v, "an update is lost") {
			t.Errorf("violations %q", v)
		}
	})
}

// Clients with connections of their own use one resource. The tokens are those that a lock would have given to each.
func TestSeveralClients(t *testing.T) {
	r := fence.New()
	s, err := r.Serve()
	must(t, err)
	defer s.Close()
	hundred := func(first int64) error {
		c, err := fence.Dial(s.Addr())
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		for token := first; token < first+100; token++ {
			who := fmt.Sprint("client#", token)
			n, err := c.Open("x", token, who)
			if err == nil {
				err = c.Write("x", token, who, n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	must(t, hundred(1), hundred(101), hundred(201))
	if n := r.Writes("x"); n != 300 {
		t.Errorf("%d writes, want 300", n)
	}
	if err := hundred(1); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a client with tokens from before: %v, want %v", err, fence.ErrStale)
	}
	if v := r.Violations(); len(v) > 0 {
		t.Errorf("violations %q", v)
	}
}
