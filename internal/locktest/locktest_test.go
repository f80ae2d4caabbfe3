package locktest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
