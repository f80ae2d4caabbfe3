package servers

import (
	"context"
	"fmt"
	"strconv"
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
	ownAddr map[string]bool  // the near ends of our connections whose command was not seen yet
	ownCmd  map[string]int64 // commands that this package sent, by name
}

func (p *redisProbe) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.monitor != nil {
		p.monitor.Close()
	}
	p.monitor, p.total, p.ownAddr, p.ownCmd = nil, 0, nil, nil
}

// do sends a command of this package's, the only one on its connection, and notes it.
func (p *redisProbe) do(c *respConn, args ...string) (any, error) {
	p.mu.Lock()
	if p.ownCmd == nil {
		p.ownAddr, p.ownCmd = map[string]bool{}, map[string]int64{}
	}
	p.ownAddr[c.LocalAddr().String()] = true
	p.mu.Unlock()
	v, err := c.do(args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.ownCmd != nil { // the server may have been restarted meanwhile
		name := strings.ToLower(args[0])
		p.ownCmd[name]++
		if len(args) > 1 {
			p.ownCmd[name+"|"+strings.ToLower(args[1])]++ // CONFIG GET counts as config|get
		}
	}
	return v, err
}

func (p *redisProbe) count(r *Redis) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		ctx, cancel := context.WithTimeout(ctx, StartTimeout)
		defer cancel()
		p.mu.Lock()
		first := p.monitor == nil
		p.mu.Unlock()
		if first {
			if err := p.attach(ctx, r); err != nil {
				return 0, fmt.Errorf("count requests of redis at %s: %w", r.addr, err)
			}
		}
		n, err := p.read(ctx, r)
		if err != nil {
			p.mu.Lock()
			if p.monitor != nil {
				p.monitor.Close()
				p.monitor = nil
			}
			p.mu.Unlock()
			return 0, fmt.Errorf("count requests of redis at %s: %w", r.addr, err)
		}
		return n, nil
	}
}

// attach starts the stream and takes what was counted before it.
func (p *redisProbe) attach(ctx context.Context, r *Redis) error {
	c, err := r.dial(ctx)
	if err != nil {
		return err
	}
	if _, err := p.do(c, "MONITOR"); err != nil {
		c.Close()
		return err
	}
	p.mu.Lock()
	p.monitor = c
	p.mu.Unlock()
	before, err := r.Commands(ctx)
	if err != nil {
		return err
	}
	if _, err := p.read(ctx, r); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = 0
	for _, n := range before {
		p.total += n
	}
	return nil
}

// read counts the stream up to now, which it finds by a word of its own.
func (p *redisProbe) read(ctx context.Context, r *Redis) (int64, error) {
	c, err := r.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	mark := c.LocalAddr().String()
	if _, err := p.do(c, "ECHO", "mark"); err != nil {
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
		switch {
		case !ok || who == "lua":
		case p.ownAddr[who]:
			delete(p.ownAddr, who)
			if who == mark {
				return p.total, nil
			}
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

// Commands returns how often the server has executed each command since its process
// started (INFO commandstats), less what this package sent to look after it. The
// commands that a script calls inside count here under their own names, beside the
// evalsha that ran it.
//
// Requests counts otherwise: only what clients sent, as MONITOR shows it. It leaves out
// what MONITOR leaves out (AUTH, HELLO, and commands of administration such as
// CONFIG) once it is called for the first time, and what is sent by [Redis.Do]. From
// that first call on the server keeps a line for every command until the next
// call, so it is not for counting millions.
func (r *Redis) Commands(ctx context.Context) (map[string]int64, error) {
	r.probe.mu.Lock()
	own := map[string]int64{}
	for name, n := range r.probe.ownCmd {
		own[name] = n
	}
	r.probe.mu.Unlock()
	v, err := r.Do(ctx, "INFO", "commandstats")
	if err != nil {
		return nil, err
	}
	text, _ := v.(string)
	counts := map[string]int64{}
	for line := range strings.Lines(text) {
		name, stats, ok := strings.Cut(strings.TrimSpace(line), ":calls=")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(stats, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("INFO commandstats: %q", line)
		}
		name = strings.TrimPrefix(name, "cmdstat_")
		if n -= own[name]; n > 0 {
			counts[name] = n
		}
	}
	return counts, nil
}
