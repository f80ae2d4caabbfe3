package fence_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker/internal/faults/fence"
)

const envAddr = "FENCE_TEST_ADDR"

// The test binary is also the other process.
func TestMain(m *testing.M) {
	if addr := os.Getenv(envAddr); addr != "" {
		if err := writeHundred(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// writeHundred takes the tokens that a lock would have given to this process.
func writeHundred(addr string) error {
	c, err := fence.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	first, _ := strconv.ParseInt(os.Getenv("FENCE_TEST_FIRST"), 10, 64)
	for token := first; token < first+100; token++ {
		n, err := c.Open("x", token, fmt.Sprint("child#", token))
		if err == nil {
			err = c.Write("x", token, fmt.Sprint("child#", token), n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

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
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c, err := fence.Dial(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		test(t, r, c)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
		if got, want := r.Tally("x"), (fence.Tally{Highest: 6, Writes: 1, Stale: 2}); got != want {
			t.Errorf("tally %+v, want %+v", got, want)
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

func TestSeveralProcesses(t *testing.T) {
	r := fence.New()
	s, err := r.Serve()
	must(t, err)
	defer s.Close()
	for first := int64(1); first <= 201; first += 100 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), envAddr+"="+s.Addr(), fmt.Sprintf("FENCE_TEST_FIRST=%d", first))
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if got, want := r.Tally("x"), (fence.Tally{Highest: 300, Writes: 300}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
	// One that comes with a token from before is refused also if it is another process.
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), envAddr+"="+s.Addr(), "FENCE_TEST_FIRST=1")
	if err := child.Run(); err == nil {
		t.Error("a process with tokens from before was not refused")
	}
	if v := r.Violations(); len(v) > 0 {
		t.Errorf("violations %q", v)
	}
}
