package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/internal/child"
)

// childEnv holds the address of the store in a process that was started by the
// suite.
const childEnv = "LOCKER_CONFORMANCE_CHILD"

// marker begins the lines of a child that are answers.
const marker = "@conformance "

// order is what a child is told to do, one JSON object a line.
type order struct {
	ID      int
	Kind    string // of the lock
	AtLeast time.Duration
	Do      string // "open", "acquire", "release", "look", "watch", "loop"
	Name    string
	Timeout time.Duration
	TTL     time.Duration
	Hold    time.Duration
}

// reply is what it answers.
type reply struct {
	ID    int
	Err   string
	Kind  string // of a context's cause: "lost", "released", "alive"
	Token int64
	Stamp int64 // when the answer was found
	Alive int64 // when the last look began that found the lock alive
	Spans []span
}

// childProcess is another process as the suite sees it.
type childProcess struct {
	c       *C
	process *child.Process
	orders  *json.Encoder

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
	output  strings.Builder // but for answers
}

// spawn starts a child with a client open.
func (c *C) spawn(ttl time.Duration) *childProcess {
	c.tb.Helper()
	var pattern []string
	top := c.top()
	for _, part := range strings.Split(top, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := exec.Command(os.Args[0], "-test.run="+strings.Join(pattern, "/"), "-test.timeout=5m", "-test.count=1")
	cmd.Env = append(os.Environ(), childEnv+"="+c.h.Address)
	p, err := child.Open(cmd)
	c.must(err, "child process")
	ch := &childProcess{c: c, process: p, orders: json.NewEncoder(p), waiting: make(map[int]chan reply)}
	go func() {
		lines := bufio.NewScanner(p)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			ch.heard(lines.Text())
		}
	}()
	c.mu.Lock()
	c.children = append(c.children, ch)
	c.mu.Unlock()
	ch.ask(order{Do: "open", TTL: ttl}).must("open")
	return ch
}

// top is the name of the test that called Run.
func (c *C) top() string { return strings.TrimSuffix(c.tb.Name(), "/"+subtestName(c.cs.title(c.kind))) }

// subtestName is how package testing writes a name.
func subtestName(name string) string { return strings.ReplaceAll(name, " ", "_") }

func (ch *childProcess) heard(line string) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	text, is := strings.CutPrefix(line, marker)
	if !is {
		fmt.Fprintln(&ch.output, line)
		return
	}
	var r reply
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		fmt.Fprintln(&ch.output, line)
		return
	}
	if w := ch.waiting[r.ID]; w != nil {
		w <- r
		delete(ch.waiting, r.ID)
	}
}

// asked is an order under way.
type asked struct {
	ch *childProcess
	do string
	r  chan reply
}

func (ch *childProcess) ask(o order) *asked {
	ch.mu.Lock()
	ch.next++
	o.ID = ch.next
	if k := ch.c.kind; k != nil {
		o.Kind = k.name
	}
	r := make(chan reply, 1)
	ch.waiting[o.ID] = r
	ch.mu.Unlock()
	if err := ch.orders.Encode(o); err != nil {
		ch.c.logf("child process: %v", err)
	}
	return &asked{ch, o.Do, r}
}

// answer waits for what the child says.
func (a *asked) answer() reply {
	c := a.ch.c
	c.tb.Helper()
	select {
	case r := <-a.r:
		return r
	case <-a.ch.process.Ended():
		c.fatalf("the child process ended before it could %s; its output:\n%s", a.do, a.ch.said())
	case <-c.ctx.Done():
		c.fatalf("the child process does not answer to %q; its output:\n%s", a.do, a.ch.said())
	}
	return reply{}
}

// must is answer, which may not be an error.
func (a *asked) must(what string) reply {
	a.ch.c.tb.Helper()
	r := a.answer()
	if r.Err != "" {
		a.ch.c.must(child.Error(r.Err), "child process: %s", what)
	}
	return r
}

func (ch *childProcess) said() string {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.output.String() + ch.process.Said()
}

func (ch *childProcess) acquire(name string) reply {
	ch.c.tb.Helper()
	return ch.ask(order{Do: "acquire", Name: name}).must("acquire " + name)
}

// kill ends the child as kill -9 does, and returns the moment at which it has ended.
func (ch *childProcess) kill() (died time.Time) {
	ch.process.Kill()
	died = time.Now()
	_ = ch.process.Close()
	return died
}
