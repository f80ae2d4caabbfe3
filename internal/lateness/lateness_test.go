package lateness

import (
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Delays count from when they are due, also that of a goroutine that has not run yet, and only those after the moment
// that is asked for.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step, late = 2 * time.Millisecond, 60 * time.Millisecond
		begin := time.Now()
		m := &Meter{step: step, due: begin}
		time.Sleep(late)
		if got := m.Worst(begin); got != late {
			t.Errorf("not run for %v: late by %v", late, got)
		}
		m.sample()
		m.due = time.Now().Add(time.Hour)
		if worst, sum := m.Worst(begin), m.Sum(begin); worst != late || sum != late {
			t.Errorf("run after %v: late by %v, %v in all", late, worst, sum)
		}
		if worst, sum := m.Worst(begin.Add(late/2)), m.Sum(begin.Add(late/2)); worst != late || sum != late/2 {
			t.Errorf("half of it after the moment: late by %v, %v in all", worst, sum)
		}
		if got := m.Slack(begin); got <= late {
			t.Errorf("limits are widened by %v", got)
		}
		calm := time.Now()
		m.Calm(func() bool { return false })
		if waited := time.Since(calm); waited != 0 {
			t.Errorf("waited %v for nobody", waited)
		}
		m.Calm(func() bool { return true })
		if waited := time.Since(begin); waited < time.Second || waited > 2*time.Second {
			t.Errorf("calm %v after it was late", waited)
		}
	})
}

// A machine that is never late is not found to be.
func TestNeverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Start(2 * time.Millisecond)
		defer m.Stop()
		begin := time.Now()
		time.Sleep(time.Second)
		if got := m.Worst(begin); got > 2*time.Millisecond {
			t.Errorf("late by %v", got)
		}
	})
}

// In a process that has more to do than it can, who waits for an answer is woken later than who waits for a timer.
func TestMeterIsAsLateAsAnswers(t *testing.T) {
	m := Start(Step)
	defer m.Stop()
	server, client := connection(t)
	go func() { _, _ = io.Copy(server, server) }()

	begin := time.Now()
	var busy sync.WaitGroup
	for range 3000 {
		busy.Go(func() {
			for time.Since(begin) < 2*time.Second {
				for turn := time.Now(); time.Since(turn) < 50*time.Microsecond; {
				}
				runtime.Gosched()
			}
		})
	}
	slowest := time.Duration(0)
	for buf := make([]byte, 1); time.Since(begin) < 2*time.Second; {
		asked := time.Now()
		if _, err := client.Write(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(client, buf); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(asked))
	}
	late := m.Worst(begin)
	busy.Wait()
	if t.Logf("an answer took up to %v, late by %v", slowest, late); late < slowest/6 {
		t.Errorf("late by %v at most, and an answer took %v", late, slowest)
	}
}

// connection returns both ends of a connection over the loopback.
func connection(t *testing.T) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server, client
}

// All have the same Meter, which ends with the last.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, giveBack := Share()
		second, giveBackToo := Share()
		if first != second {
			t.Error("two meters")
		}
		giveBack()
		giveBack() // twice is harmless
		select {
		case <-second.done:
			t.Error("it ended while somebody had it")
		default:
		}
		giveBackToo()
		<-second.done
	})
}
