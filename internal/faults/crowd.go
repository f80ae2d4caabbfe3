package faults

import "time"

// crowd has processes take names as fast as they can, without faults, until there are as many acquisitions as wanted or the time is
// over. In half of the processes goroutines pass names on among themselves; the others take locks of all kinds.
func crowd(x *Exam, want int, within time.Duration) {
	var names []string
	for range 32 {
		names = append(names, x.Lock())
	}
	var procs []*Process
	for i := range 4 {
		x.Access.HandOver = time.Duration(i%2) * 5 * time.Millisecond
		p, _ := x.Process("P")
		load := Load{Seed: uint64(i), Names: names, Goroutines: 8, TTL: x.Backend.TTL, Fast: true}
		if i%2 == 0 {
			load.Shares = x.Backend.Offers.shares()
		}
		x.load(p, load)
		procs = append(procs, p)
	}
	for start := time.Now(); time.Since(start) < within && x.acquired(procs) < want; {
		time.Sleep(100 * time.Millisecond)
	}
	x.unload(procs...)
}
