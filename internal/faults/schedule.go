package faults

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Step is one fault of a campaign.
type Step struct {
	At     time.Duration // from the start
	Fault  string
	Target int           // which process, server or name
	For    time.Duration // how long it lasts, where it lasts
}

func (s Step) String() string {
	text := fmt.Sprintf("%8v %s", s.At.Round(time.Millisecond), s.Fault)
	if s.Fault != moveLeader && s.Fault != failOver { // whoever that is
		text += fmt.Sprintf(" %d", s.Target)
	}
	if s.For > 0 {
		text += fmt.Sprintf(" for %v", s.For.Round(time.Millisecond))
	}
	return text
}

// The faults of campaigns. Those of the first group are done to processes and their
// networks, of the second to servers, of the third to locks.
const (
	kill       = "kill process"
	stop       = "stop process"
	cut        = "cut network of process"
	freeze     = "freeze network of process"
	freezeUp   = "freeze requests of process"
	freezeDown = "freeze replies of process"

	restart    = "kill and restart server"
	pauseOne   = "stop server"
	moveLeader = "move leader"
	failOver   = "fail over"

	expire = "expire lock"
)

var userFaults = []string{kill, stop, cut, freeze, freezeUp, freezeDown}

// serverFaults are those that s allows.
func (s *Servers) serverFaults() []string {
	faults := []string{pauseOne}
	if s.Keeps && s.Failover == nil {
		faults = append(faults, restart)
	}
	if s.MoveLeader != nil {
		faults = append(faults, moveLeader)
	}
	if s.Failover != nil {
		faults = append(faults, failOver)
	}
	return faults
}

// schedule draws the faults of a campaign. The same arguments give the same schedule.
// What is done to one process, or to the servers, never overlaps.
func schedule(seed uint64, length, ttl time.Duration, processes, all, names int, onServers []string) []Step {
	rng := rand.New(rand.NewPCG(seed, 0))
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(rng.Int64N(int64(to-from))) }
	var steps []Step
	for p := range processes {
		for at := between(0, ttl); at < length; {
			s := Step{At: at, Fault: userFaults[rng.IntN(len(userFaults))], Target: p}
			switch s.Fault {
			case kill:
				at += 2 * time.Second // until there is another
			case cut:
			default:
				s.For = between(ttl/10, 2*ttl)
			}
			steps = append(steps, s)
			at += s.For + between(ttl, 4*ttl)
		}
	}
	for at := between(0, ttl); at < length; {
		s := Step{At: at, Fault: onServers[rng.IntN(len(onServers))], Target: rng.IntN(all)}
		if s.Fault == pauseOne {
			s.For = between(ttl/10, 3*ttl/2)
		}
		steps = append(steps, s)
		at += s.For + between(2*ttl, 4*ttl)
	}
	for at := between(0, ttl); at < length; at += between(ttl/2, 2*ttl) {
		steps = append(steps, Step{At: at, Fault: expire, Target: rng.IntN(names)})
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return steps
}
