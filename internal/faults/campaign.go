package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/history"
)

// Campaign is some processes that work while faults happen at random.
type Campaign struct {
	Seed       uint64
	Processes  int
	Goroutines int           // of each process, beside the one that holds for long
	Names      int           // beside those that are held for long
	Length     time.Duration // of the schedule of faults
	// Want is how many acquisitions there have to be. Work goes on without faults until
	// there are, for up to twice the Length.
	Want int
}

// NewCampaign returns the campaign that t is to run: a short one, in which there have to be so many acquisitions, or if Full
// a long one, with full of them.
func NewCampaign(t testing.TB, short, full int) Campaign {
	t.Helper()
	c := Campaign{Seed: seed(t), Processes: 8, Goroutines: 2, Names: 4, Length: 6 * time.Second, Want: short}
	if Full {
		c.Length, c.Want, c.Names = 75*time.Second, full, 8
	}
	t.Logf("LOCKER_FAULTS_SEED=%d", c.Seed)
	return c
}

// seed is random unless LOCKER_FAULTS_SEED says which.
func seed(t testing.TB) uint64 {
	text := os.Getenv("LOCKER_FAULTS_SEED")
	if text == "" {
		return rand.Uint64() % 1_000_000
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("LOCKER_FAULTS_SEED: %v", err)
	}
	return n
}

// Run runs the campaign on s.
func (c Campaign) Run(t testing.TB, s *Servers) {
	t.Helper()
	Examine(t, s, c.run)
}

// slow is how many names are held for long. Faults that strike locks strike every name
// alike.
const slow = 2

// schedule is what will be done to s.
func (c Campaign) schedule(s *Servers) []Step {
	return schedule(c.Seed, c.Length, s.Backend.TTL, c.Processes, len(s.All), slow+c.Names, s.serverFaults())
}

// campaign is one that is under way.
type campaign struct {
	Campaign
	x      *Exam
	names  []string
	access []Access
	nets   []*Network

	mu    sync.Mutex
	procs []*Process
	spent Tally // of processes that were killed, as far as they told
}

func (c Campaign) run(x *Exam) {
	x.Logf("seed %d", c.Seed)
	k := &campaign{Campaign: c, x: x, procs: make([]*Process, c.Processes)}
	for range slow + c.Names {
		k.names = append(k.names, x.Lock())
	}
	var up sync.WaitGroup
	for i := range c.Processes {
		net, access := x.network()
		k.nets, k.access = append(k.nets, net), append(k.access, access)
		up.Go(func() { k.start(i, access) })
	}
	up.Wait()
	steps := c.schedule(&x.Servers)
	start := time.Now()
	var lanes sync.WaitGroup
	byLane, faults := make(map[string][]Step), make(map[string]int)
	for _, s := range steps {
		byLane[s.lane()] = append(byLane[s.lane()], s)
		faults[s.Fault]++
	}
	for _, lane := range byLane {
		lanes.Go(func() {
			for _, s := range lane {
				time.Sleep(time.Until(start.Add(s.At)))
				if err := k.do(s); err != nil {
					x.Errorf("%v: %v", s, err)
					return
				}
			}
		})
	}
	lanes.Wait()
	for _, n := range k.nets {
		n.Heal()
	}
	if x.Failed() {
		x.FailNow()
	}
	x.Must(x.WaitReady(x.Ctx))
	undisturbed := time.Now()
	time.Sleep(x.Backend.TTL)
	for k.spent.Acquired+x.acquired(k.procs) < c.Want && time.Since(undisturbed) < 10*c.Length+pulse.Slack(undisturbed) {
		time.Sleep(200 * time.Millisecond)
	}
	tally := x.unload(k.procs...)
	tally.add(k.spent)
	x.Logf("%d acquisitions, %d found taken, %d failed, %d lost in %v; %v",
		tally.Acquired, tally.Taken, tally.Failed, tally.Lost, time.Since(start).Round(time.Second), faults)
	if tally.Acquired < c.Want {
		x.Errorf("only %d acquisitions, want %d: this run says little", tally.Acquired, c.Want)
	}
	// Nobody is in the way of a newcomer.
	last := x.player("Z", k.access[0])
	for _, name := range k.names {
		x.Released(x.Acquired(last, name, x.Backend.Death+5*time.Second))
	}
}

// lane names what the step is done to; steps of a lane are done one after the other.
func (s Step) lane() string {
	switch s.Fault {
	case expire:
		return "locks"
	case restart, pauseOne, moveLeader, failOver:
		return "servers"
	}
	return fmt.Sprint("process ", s.Target)
}

// start starts the process in place i, through the network that belongs there.
func (k *campaign) start(i int, access Access) {
	p, err := k.x.start(fmt.Sprintf("P%d.", i), access)
	if err != nil {
		k.x.Errorf("%v", err)
		return
	}
	load := Load{
		Seed: k.Seed + uint64(i), Names: k.names[slow:], Slow: k.names[:slow],
		Goroutines: k.Goroutines, TTL: k.x.Backend.TTL, Shares: k.x.Backend.Offers.shares(),
	}
	if _, err := p.do(Order{Op: "load", Load: &load}); err != nil {
		k.x.Errorf("%s: %v", p.Name, err)
	}
	k.mu.Lock()
	k.procs[i] = p
	k.mu.Unlock()
}

func (k *campaign) process(i int) *Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.procs[i]
}

func (k *campaign) do(s Step) error {
	x := k.x
	switch s.Fault {
	case kill:
		p := k.process(s.Target)
		a, err := p.do(Order{Op: "count"})
		if err != nil {
			return err
		}
		k.mu.Lock()
		k.spent.add(a.Tally)
		k.mu.Unlock()
		x.Kill(p)
		k.start(s.Target, k.access[s.Target])
		return nil
	case stop:
		p := k.process(s.Target)
		k.note(s)
		if err := p.Stop(); err != nil {
			return err
		}
		time.Sleep(s.For)
		return p.Continue()
	case cut:
		k.note(s)
		k.nets[s.Target].Cut()
		return nil
	case freeze, freezeUp, freezeDown:
		k.note(s)
		net := k.nets[s.Target]
		map[string]func(){freeze: net.Freeze, freezeUp: net.FreezeUp, freezeDown: net.FreezeDown}[s.Fault]()
		time.Sleep(s.For)
		net.Heal()
		return nil
	case restart:
		k.note(s)
		if err := x.All[s.Target].Kill(); err != nil {
			return err
		}
		return x.All[s.Target].Restart(x.Within(time.Minute))
	case pauseOne:
		pause := func() error {
			if err := x.All[s.Target].Pause(); err != nil {
				return err
			}
			time.Sleep(s.For)
			return x.resume(x.All[s.Target])
		}
		if x.Sentinel == nil {
			k.note(s)
			return pause()
		}
		// A master that is silent for long is failed over, and for a while after it goes on
		// there are two.
		return x.did(s.String(), true, "", func() error {
			return errors.Join(x.Sentinel.FailOverAfter(x.Ctx, time.Second), pause(), x.oneMaster(x.Ctx),
				x.Sentinel.FailOverAfter(x.Ctx, time.Minute))
		})
	case moveLeader:
		k.note(s)
		return x.MoveLeader(x.Within(time.Minute))
	case failOver:
		var rejoin func() error
		return x.did(s.Fault, true, "", func() (err error) {
			if rejoin, err = x.Failover(x.Ctx, k.nets); err != nil {
				return err
			}
			return rejoin()
		})
	case expire:
		name := k.names[s.Target]
		take := x.Expire
		if take == nil {
			take = x.Destroy
		}
		// While servers are away it fails, which is no matter. A stopped server does it when it goes on, which has to be before the
		// fault is recorded as over.
		_ = x.did(s.Fault, true, name, func() error { return take(x.Within(20*time.Second), name) })
		return nil
	}
	return fmt.Errorf("nobody knows how to %s", s.Fault)
}

// note puts a fault that destroys nothing into the history.
func (k *campaign) note(s Step) {
	k.x.rec.Add(history.Event{Kind: history.Fault, Err: s.String()})
}
