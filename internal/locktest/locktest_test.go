package locktest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// seen keeps what it is told instead of failing the test.
type seen struct {
	testing.TB
	said []string
}

func (s *seen) Errorf(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seen{TB: t}
		inTime := Limit(s, time.Second)
		time.Sleep(time.Second)
		inTime("what is quick")
		time.Sleep(time.Second)
		inTime("what is slow")
		if len(s.said) != 1 || !strings.HasPrefix(s.said[0], "what is slow took 2s, more than 1s ") {
			t.Errorf("got %q", s.said)
		}
	})
}

// quits keeps a call of Fatalf, which has to end the goroutine.
type quits struct {
	seen
}

func (q *quits) Fatalf(format string, args ...any) {
	q.Errorf(format, args...)
	runtime.Goexit()
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &quits{seen{TB: t}}
		come := make(chan int)
		go func() { time.Sleep(time.Second); come <- 7 }()
		if v := Receive(q, "what comes", come, time.Second); v != 7 {
			t.Errorf("got %d", v)
		}
		var over sync.WaitGroup
		start := time.Now()
		over.Go(func() { Receive(q, "what never comes", come, time.Second) })
		over.Wait()
		if len(q.said) != 1 || q.said[0] != "what never comes: not within 1s" || time.Since(start) < time.Second {
			t.Errorf("said %q after %v", q.said, time.Since(start))
		}
	})
}
