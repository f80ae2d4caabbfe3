package locktest

import (
	"fmt"
	"strings"
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
