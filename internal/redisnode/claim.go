package redisnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/look"
)

const (
	// fresh is for how long a request that takes something is meant. The network may keep one for longer
	// than anybody waits for the answer; the server refuses it then.
	fresh = 5 * time.Second
	// lateTries is how often a request is sent anew because the guess of the server's time was wrong.
	lateTries = 5
)

// Claim is a claim at one node. Its requests are made one after the other.
type Claim struct {
	*driver.Claim
	// Since is when it was made, by the server's time in microseconds. It may be set before it queues.
	Since int64
	// Touched: the server may know of it.
	Touched bool
	// LateUntil is until when, by the server's time in microseconds, a request to acquire that had no answer may still
	// have an effect unless the claim is given up; 0 if all had one.
	LateUntil int64
	// Lost is the same of the last request to acquire alone.
	Lost int64
	// Proposed is a token that the server gives next if it can, or a greater one: to the claim, also where it holds the name,
	// or after its release to whoever comes; 0 for none.
	Proposed int64

	lock, queue, clock, gone string // keys
	channel                  string // where it is told news if it waits

	sub    *subscription // on which it is told news, when it is Ready
	unsure bool          // a request to release it had no answer

	// Guarded by Node.mu:
	tell func(Answer) // called with news as long as it waits
	said Answer       // to the last request to acquire; before the first is answered Sent is when the claim was made
}

// Claim returns the claim c at the node.
func (n *Node) Claim(c *driver.Claim) *Claim {
	tag := n.keys.tag(c.Name)
	channel := n.keys.prefix + ":wake:" + n.id
	if n.cluster != nil {
		channel = tag + "wake:" + n.id // has to be in the same slot
	}
	return &Claim{
		Claim: c, Since: n.Time(), channel: channel, said: Answer{Sent: n.clock.Now()},
		lock: tag + "lock:" + c.Name, queue: tag + "queue:" + c.Name, clock: tag + "clock", gone: tag + "gone:" + c.ID,
	}
}

// entry is what stands in the queue for the claim; see lua/lib.lua.
func (c *Claim) entry() string {
	return fmt.Sprintf("1 %s %d %d %d %d %d %s %s",
		c.ID, c.Spare, c.Weight, c.Limit, millis(c.TTL), c.Since, c.channel, c.Owner)
}

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// How a claim asks for its name; see lua/acquire.lua.
type How string

const (
	Try   How = "try"   // it does not wait
	Queue How = "queue" // it joins the queue if there is no room, as soon as it is Ready
	Yield How = "yield" // the same, and where it holds the name those who are older and wait go before it
)

// Answer is what the server said to a request to acquire, or what news makes of that: a grant, and otherwise that the
// claim had better ask again.
type Answer struct {
	// Sent is a moment before which the server has not begun to count the TTL, Now the server's time then, or
	// later, in microseconds.
	Sent driver.Instant
	Now  int64
	// Granted: the claim holds the name, with this token and so many above it.
	Granted      bool
	Token, Spare int64
	// Otherwise: for how long the holder who ends first will stay, less than zero if that is not known, and
	// how many wait before the claim.
	Left  time.Duration
	Ahead int64
	// Evicted: somebody took its place in the queue away.
	Evicted bool
}

// NextLook returns when a waiter looks by itself.
func (a Answer) NextLook() time.Duration { return look.In(a.Left, a.Ahead == 0) }

// Acquire asks for the name. Of a holder the time is counted anew. A refusal of a claim that does not wait promises
// nothing about requests that had no answer; see [Claim.LateUntil].
func (n *Node) Acquire(ctx context.Context, c *Claim, how How) (Answer, error) {
	n.eviction.Do(n.checkEviction)
	c.Lost = 0
	if how != Try {
		if err := n.Ready(ctx, c); err != nil {
			return Answer{}, err
		}
	}
	for range lateTries {
		a := Answer{Sent: n.clock.Now()}
		latest := n.Time() + fresh.Microseconds()
		answer, lost, err := n.run(ctx, n.scripts.acquire, []string{c.lock, c.queue, c.clock, c.gone},
			c.entry(), latest, c.Proposed, string(how), n.opts.ByAge)
		if lost {
			c.Lost = max(c.Lost, latest)
			c.LateUntil, c.Touched = max(c.LateUntil, latest), true
		}
		if err != nil {
			return Answer{}, err
		}
		list, err := numbers(answer, 4)
		if err != nil {
			return Answer{}, err
		}
		a.Now = list[1]
		n.time.Learn(a.Now, a.Sent)
		switch list[0] {
		case 1:
			c.Touched = true
			a.Granted, a.Token, a.Spare = true, list[2], list[3]
		case 0:
			c.Touched = c.Touched || how == Queue || how == Yield
			a.Left, a.Ahead = time.Duration(list[2])*time.Millisecond, list[3]
		case -1:
			return Answer{}, errors.New("the claim has been given up")
		case -3:
			c.Touched = true // in a mixed queue it may stand there
			s := c.sub
			n.working.Go(func() { n.end(s, errUnknown) })
			return Answer{}, errUnknown
		default:
			continue
		}
		n.mu.Lock()
		c.said = a
		n.mu.Unlock()
		return a, nil
	}
	return Answer{}, fmt.Errorf("the request came late %d times: the server's time moves", lateTries)
}

// Release implements [driver.Driver]; see Linger.
func (n *Node) Release(ctx context.Context, c *driver.Claim) error { return n.Linger(ctx, c, 0) }

// Linger implements [driver.Lingerer]. It frees the name, or keeps it for d more, grants it to those who wait, and sees to it
// that requests of the claim that are still on their way will have no effect. It returns driver.ErrGone if the claim
// does not hold the name, unless an earlier request to release had no answer.
func (n *Node) Linger(ctx context.Context, dc *driver.Claim, d time.Duration) error {
	c, how := n.opts.At(dc), "free"
	if d > 0 {
		how = fmt.Sprint("linger ", millis(d))
	}
	answer, lost, err := n.release(ctx, n.inPlace(ctx, c.lock), c, how)
	c.unsure = c.unsure || lost
	if err != nil {
		return err
	}
	if answer != held {
		d = 0
	}
	n.forget(c, d)
	if answer != held && !c.unsure {
		return driver.ErrGone
	}
	return nil
}

// Abandon implements [driver.Driver]. It asks nothing if the server cannot know of the claim.
func (n *Node) Abandon(ctx context.Context, dc *driver.Claim) error {
	if c := n.opts.At(dc); !c.Touched {
		n.forget(c, 0)
		return nil
	}
	if err := n.Release(ctx, dc); err != driver.ErrGone {
		return err
	}
	return nil
}

// Lighten implements [driver.Weigher].
func (n *Node) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	at := n.opts.At(c)
	answer, _, err := n.release(ctx, n.inPlace(ctx, at.lock), at, fmt.Sprint("keep ", weight))
	if err == nil && answer != held {
		err = driver.ErrGone
	}
	return err
}

// Evict implements [driver.Evictor].
func (n *Node) Evict(ctx context.Context, name, id string) error {
	_, err := n.Remove(ctx, name, id)
	return err
}

// Remove evicts a claim; lost says that a sending of the request had no answer and may still have an effect. It does not ask in
// place: after a request without an answer the next cannot tell whether the claim was there.
func (n *Node) Remove(ctx context.Context, name, id string) (lost bool, err error) {
	answer, lost, err := n.release(ctx, nil, n.Claim(&driver.Claim{ID: id, Name: name}), "free")
	if err == nil && answer == 0 && !lost {
		err = driver.ErrGone
	}
	return lost, err
}

// held is what release.lua answers of a claim that held the name.
const held = 1

// release runs release.lua as send does.
func (n *Node) release(ctx context.Context, client goredis.UniversalClient, c *Claim, how string) (answer int64, lost bool, err error) {
	cmd, lost, err := n.send(ctx, client, n.scripts.release, []string{c.lock, c.queue, c.clock, c.gone},
		c.ID, how, c.Proposed, c.LateUntil)
	if err == nil {
		answer, err = cmd.Int64()
	}
	return answer, lost, err
}
