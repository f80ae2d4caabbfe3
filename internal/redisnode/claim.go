package redisnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Claim is a claim at one node.
type Claim struct {
	*driver.Claim
	// Channel is where the claim is told news if it waits.
	Channel string

	// Since is when it was made, by the server's time in microseconds. It may be set before
	// the first request.
	Since int64
	// Yield: where a waiter holds the name it lets those go before it who are older.
	Yield bool

	lock, queue, clock, gone string // keys
	stray                    int64  // until when a request that had no answer may have an effect, or 0
	touched                  bool   // the server may know of it
	queued                   bool   // it may be in the queue
	unsure                   bool   // a request to release it had no answer

	sub *channel // guarded by subscriptions.mu, as is
	// tell is called with news as long as the claim waits.
	tell func(Event)
}

// Claim returns the claim c at the node.
func (n *Node) Claim(c *driver.Claim) *Claim {
	number := bucket(c.Name)
	tag := n.keys.tag(number)
	return &Claim{
		Claim:   c,
		Channel: n.channel(tag),
		lock:    tag + "lock:" + c.Name,
		queue:   tag + "queue:" + c.Name,
		clock:   tag + "clock",
		gone:    tag + "gone:" + c.ID,
		Since:   n.time.at(n.clock.Now()),
	}
}

// channel returns the channel of the bucket whose keys begin with tag: one of its own in a Cluster.
func (n *Node) channel(tag string) string {
	if n.cluster != nil {
		return tag + "wake:" + n.id
	}
	return n.keys.prefix + ":wake:" + n.id
}

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// entry is what stands in the queue for the claim; see lua/lib.lua.
func (c *Claim) entry() string {
	return fmt.Sprintf("1 %s %d %d %d %d %d %s %s",
		c.ID, c.Weight, c.Limit, c.Spare, millis(c.TTL), c.Since, c.Channel, c.Owner)
}

// Answer is what the server said to a request to acquire.
type Answer struct {
	// Sent is a moment before the request was sent, Now the server's time in microseconds.
	Sent driver.Instant
	Now  int64
	// Granted: the claim holds the name, with this token and so many above it.
	Granted      bool
	Token, Spare int64
	// Otherwise: for how long the holder who ends first will stay, less than zero if that is not
	// known, how many wait before the claim, and the ID of the holder if it holds the name alone.
	Left  time.Duration
	Ahead int64
	Who   string
}

var errGivenUp = errors.New("the claim has been given up")

// Acquire asks for the name; the claim joins the queue if wait is set and there is no room.
// proposed is a token that the server gives if it can, 0 for none. A refusal of a claim that does
// not wait promises nothing about requests that had no answer; see Unanswered.
func (n *Node) Acquire(ctx context.Context, c *Claim, wait bool, proposed int64) (Answer, error) {
	const tries = 5
	for range tries {
		a := Answer{Sent: n.clock.Now()}
		latest := n.time.latest(a.Sent)
		args := make([]any, 0, 16)
		args = append(args, 4, c.lock, c.queue, c.clock, c.gone,
			c.ID, c.Weight, c.Limit, c.Spare, millis(c.TTL), latest, proposed, c.Owner)
		if wait {
			how, order := "", ""
			switch {
			case c.Yield:
				how = "yield"
			case c.queued:
				how = "again"
			}
			if n.opts.ByAge {
				order = "age"
			}
			args = append(args, c.entry())
			if how != "" || order != "" {
				args = append(args, how, order)
			}
		}
		v, lost, err := n.run(ctx, n.scripts.acquire, c.lock, args)
		if lost {
			c.stray, c.touched, c.queued = max(c.stray, latest), true, c.queued || wait
		}
		if err != nil {
			return a, err
		}
		late, err := n.answer(c, &a, v, wait)
		if !late {
			return a, err
		}
	}
	return Answer{}, fmt.Errorf("the request came late %d times: the server's time moves", tries)
}

// answer reads the answer of acquire.lua.
func (n *Node) answer(c *Claim, a *Answer, v any, wait bool) (late bool, err error) {
	list, _ := v.([]any)
	number := func(i int) int64 {
		x, _ := list[i].(int64)
		return x
	}
	if len(list) < 2 {
		return false, fmt.Errorf("the server answered %v to the script", v)
	}
	a.Now = number(1)
	n.time.learn(a.Now, a.Sent)
	switch number(0) {
	case 1:
		a.Granted, a.Token, a.Spare = true, number(2), number(3)
		c.touched = true
	case 0:
		a.Left, a.Ahead = time.Duration(number(2))*time.Millisecond, number(3)
		a.Who, _ = list[4].(string)
		c.touched, c.queued = c.touched || wait, c.queued || wait
	case -1:
		return false, errGivenUp
	case -2:
		return true, nil
	}
	return false, nil
}

// Unanswered reports whether a request to acquire had no answer, so that it may still have an
// effect unless the claim is given up.
func (c *Claim) Unanswered() bool { return c.stray > 0 }

// end runs release.lua.
func (n *Node) end(ctx context.Context, c *Claim, linger time.Duration, proposed int64, entry string) (answer int64, lost bool, err error) {
	args := make([]any, 0, 10)
	args = append(args, 4, c.lock, c.queue, c.clock, c.gone, c.ID, millis(linger), proposed, c.stray)
	if entry != "" {
		args = append(args, entry)
	}
	v, lost, err := n.run(ctx, n.scripts.release, c.lock, args)
	answer, _ = v.(int64)
	return answer, lost, err
}

// Release frees the name, or keeps it for d more if d is not zero, and grants it to those who wait.
// It returns driver.ErrGone if the claim does not hold it, unless an earlier request to release had
// no answer. proposed is a token for the next holder, or 0.
func (n *Node) Release(ctx context.Context, c *Claim, d time.Duration, proposed int64) error {
	entry := ""
	if c.stray > 0 {
		entry = c.entry()
	}
	answer, lost, err := n.end(ctx, c, d, proposed, entry)
	c.unsure = c.unsure || lost
	switch {
	case err != nil:
		return err
	case answer != 1 && !c.unsure:
		n.Forget(c)
		return driver.ErrGone
	}
	n.Forget(c)
	return nil
}

// Abandon leaves nothing of the claim on the server, and sees to it that requests of it that are
// still on their way will have no effect.
func (n *Node) Abandon(ctx context.Context, c *Claim) error {
	if c.touched {
		if _, _, err := n.end(ctx, c, 0, 0, c.entry()); err != nil {
			return err
		}
	}
	n.Forget(c)
	return nil
}

// Lighten gives the claim a smaller weight.
func (n *Node) Lighten(ctx context.Context, c *Claim, weight int32) error {
	v, _, err := n.run(ctx, n.scripts.lighten, c.lock, []any{3, c.lock, c.queue, c.clock, c.ID, weight})
	if err == nil && v == int64(0) {
		err = driver.ErrGone
	}
	return err
}

// Settle gives the claim another token, with so many above it to spare, if it holds the name and no
// token of the bucket is as great, and counts its time anew. It returns driver.ErrGone if the claim does not hold the name.
// If settled is false, clock is the greatest token given.
func (n *Node) Settle(ctx context.Context, c *Claim, token, spare int64) (settled bool, clock int64, err error) {
	v, _, err := n.run(ctx, n.scripts.settle, c.lock,
		[]any{3, c.lock, c.queue, c.clock, c.ID, strconv.FormatInt(token, 10), millis(c.TTL), spare})
	if err != nil {
		return false, 0, err
	}
	list, _ := v.([]any)
	if len(list) < 2 || list[0] == int64(0) {
		return false, 0, driver.ErrGone
	}
	clock, _ = list[1].(int64)
	return list[0] == int64(1), clock, nil
}
