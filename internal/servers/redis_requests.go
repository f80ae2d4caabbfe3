package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
)

// redisProbe counts requests. INFO commandstats alone cannot tell what a client sent
// from what a script of its called inside, so the first count attaches a MONITOR,
// which can, and each count reads what came in since. There is no goroutine: between
// two counts the server and the system keep the stream.
type redisProbe struct {
	mu      sync.Mutex
	monitor *respConn
	total   int64
	own     map[string]bool // near ends of our connections whose command MONITOR has not shown: whether its call is over
}

func (p *redisProbe) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.total = 0
}

// stop ends the MONITOR. The caller holds mu.
func (p *redisProbe) stop() {
	if p.monitor != nil {
		p.monitor.Close()
	}
	p.monitor, p.own = nil, nil
}

// do sends a command of this package's, the only one on its connection, and notes the near end of that until MONITOR has shown the
// command or cannot show it any more.
func (p *redisProbe) do(c *respConn, args ...string) (any, error) {
	near := c.LocalAddr().String()
	p.mu.Lock()
	if p.own == nil {
		p.own = map[string]bool{}
	}
	p.own[near] = false
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, there := p.own[near]; there && p.monitor != nil {
			p.own[near] = true
		} else {
			delete(p.own, near)
		}
	}()
	return c.do(args...)
}

func (p *redisProbe) count(r *Redis) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		ctx, cancel := context.WithTimeout(ctx, StartTimeout)
		defer cancel()
		p.mu.Lock()
		first := p.monitor == nil
		p.mu.Unlock()
		var err error
		if first {
			err = p.attach(ctx, r)
		}
		var n int64
		if err == nil {
			n, err = p.read(ctx, r)
		}
		if err != nil {
			r.StopCounting()
			return 0, fmt.Errorf("count requests of redis at %s: %w", r.addr, err)
		}
		return n, nil
	}
}

// attach starts the stream.
func (p *redisProbe) attach(ctx context.Context, r *Redis) error {
	c, err := r.dial(ctx)
	if err != nil {
		return err
	}
	if _, err := c.do("MONITOR"); err != nil {
		c.Close()
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.monitor = c
	return nil
}

// read counts the stream up to now, which it finds by a word of its own.
func (p *redisProbe) read(ctx context.Context, r *Redis) (int64, error) {
	c, err := r.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var before []string // whose commands MONITOR shows before the mark, if it shows them at all
	p.mu.Lock()
	for near, answered := range p.own {
		if answered {
			before = append(before, near)
		}
	}
	p.mu.Unlock()
	mark := rand.Text()
	if _, err := p.do(c, "ECHO", mark); err != nil {
		return 0, err
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.monitor == nil {
		return 0, fmt.Errorf("the server restarted")
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := p.monitor.SetDeadline(deadline); err != nil {
			return 0, err
		}
	}
	for {
		line, err := p.monitor.line()
		if err != nil {
			return 0, err
		}
		who, ok := parseMonitor(line)
		_, ours := p.own[who]
		switch {
		case !ok || who == "lua":
		case strings.HasSuffix(line, `"ECHO" "`+mark+`"`):
			for _, near := range append(before, c.LocalAddr().String()) {
				delete(p.own, near)
			}
			return p.total, nil
		case ours:
			delete(p.own, who)
		default:
			p.total++
		}
	}
}

// parseMonitor finds who sent a command in a line such as
// `+1700000000.123456 [0 127.0.0.1:5000] "set" "a" "1"`. A script is "lua".
func parseMonitor(line string) (who string, ok bool) {
	_, rest, ok1 := strings.Cut(line, " [")
	where, _, ok2 := strings.Cut(rest, "] ")
	_, who, ok3 := strings.Cut(where, " ")
	return who, ok1 && ok2 && ok3
}

// StopCounting ends what Requests began, so that the server is as fast as before. What is sent until the next call of Requests is
// not counted.
func (r *Redis) StopCounting() {
	r.probe.mu.Lock()
	defer r.probe.mu.Unlock()
	r.probe.stop()
}
