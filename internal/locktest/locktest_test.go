package locktest

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/mustfail"
)

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said, failed := mustfail.Run(t, func(t testing.TB) {
			inTime := Limit(t, time.Second)
			time.Sleep(time.Second)
			inTime("what is quick")
			time.Sleep(time.Second)
			inTime("what is slow")
		})
		if !failed || !strings.HasPrefix(said, "what is slow took 2s, more than 1s ") || strings.Contains(said, "\n") {
			t.Errorf("got %q", said)
		}
	})
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		come := make(chan int)
		go func() { time.Sleep(time.Second); come <- 7 }()
		if v := Receive(t, "what comes", come, time.Second); v != 7 {
			t.Errorf("got %d", v)
		}
		start := time.Now()
		said, _ := mustfail.Run(t, func(t testing.TB) { Receive(t, "what never comes", come, time.Second) })
		if said != "what never comes: not within 1s" || time.Since(start) < time.Second {
			t.Errorf("said %q after %v", said, time.Since(start))
		}
	})
}

func TestGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, err := time.Now(), errors.New("not answered")
		if GaveUp(err, begun) {
			t.Error("at once")
		}
		time.Sleep(5 * time.Second)
		if !GaveUp(err, begun) || GaveUp(nil, begun) || GaveUp(locker.ErrLost, begun) {
			t.Error("after five seconds")
		}
	})
}

func TestRequests(t *testing.T) {
	counts := []int{14, 12, 10, 9}
	next := func() int {
		n := counts[0]
		counts = counts[1:]
		return n
	}
	if n := Requests(10, next); n != 10 || len(counts) != 1 {
		t.Errorf("%d, and %v not counted", n, counts)
	}
	times := 0
	if n := Requests(10, func() int { times++; return 31 - times }); n != 11 || times != 20 {
		t.Errorf("%d after %d counts that are all too great", n, times)
	}
}
