package proxy

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker/internal/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPassesThrough(t *testing.T) {
	p, s := newProxy(t)
	c := connect(t, p)
	for _, line := range []string{"one", "two"} {
		ask(t, c, line)
	}
	big := strings.Repeat("x", 1<<20)
	go func() { _, _ = io.WriteString(c, big+"\n") }()
	receive(t, c, "re: "+big)
	up := int64(8 + len(big) + 1)
	eventually.Within(t, 10*time.Second, "all is counted", func() bool {
		st := p.Stats()
		return st.BytesUp == up && st.BytesDown == up+3*4 && st.Accepted == 1 && st.Open == 1
	})
	p.FreezeUp() // the server keeps the connection
	if open := p.LeftOpen(); len(open) != 1 || !strings.HasSuffix(open[0], "ended by the server: false") {
		t.Errorf("before the client's end there are %q", open)
	}
	c.Close()
	eventually.Within(t, 10*time.Second, "the end read", func() bool { return len(p.LeftOpen()) == 0 })
	if n := p.Stats().Open; n != 1 {
		t.Errorf("%d connections before the end is passed on, want 1", n)
	}
	p.Heal()
	eventually.Within(t, 10*time.Second, "the end passed on", func() bool { return p.Stats().Open == 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends != 1 {
		t.Error("the server did not see the client's end as an end")
	}
}

func TestDelay(t *testing.T) {
	p, _ := newProxy(t)
	c := connect(t, p)
	const each = 40 * time.Millisecond
	p.Delay(each, each)
	for range 3 {
		start := time.Now()
		ask(t, c, "x")
		if took := time.Since(start); took < 2*each {
			t.Errorf("there and back in %v", took)
		}
	}
	p.Delay(time.Hour, 0)
	send(t, c, "y")
	silent(t, c)
	p.Heal()
	receive(t, c, "re: y")
}

// A delay of a tenth of a millisecond is not rounded up to a whole one.
func TestShortDelay(t *testing.T) {
	p, _ := newProxy(t)
	c := connect(t, p)
	const each = 100 * time.Microsecond
	p.Delay(each, each)
	best := time.Hour
	const most = 2*each + 300*time.Microsecond
	for n := 0; n < 50 || n < 5000 && best > most; n++ { // on a machine that is late most take longer
		start := time.Now()
		ask(t, c, "x")
		best = min(best, time.Since(start))
	}
	if best < 2*each || best > most {
		t.Errorf("there and back in %v", best)
	}
}

// Everything at once, for the race detector and for what Close leaves behind.
func TestStorm(t *testing.T) {
	p, _ := newProxy(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", p.Addr())
				if err != nil {
					continue
				}
				_ = c.SetDeadline(time.Now().Add(20 * time.Millisecond))
				_, _ = io.WriteString(c, "x\n")
				_, _ = io.ReadFull(c, make([]byte, 6))
				c.Close()
			}
		})
	}
	acts := []func(){
		p.FreezeUp, p.Heal, p.FreezeDown, p.Cut, p.Heal, p.Refuse, p.Heal, p.BlackHole, p.Heal,
		func() { p.Delay(time.Millisecond, time.Millisecond) },
		func() { p.SwallowReply(nil, time.Millisecond) },
		func() { p.Stats() },
	}
	for i := range 300 {
		acts[i%len(acts)]()
		time.Sleep(time.Millisecond)
	}
	close(stop)
	wg.Wait()
}
