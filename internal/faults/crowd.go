package faults

import "time"

// crowd has processes take names as fast as they can, without faults, until there are as many acquisitions as wanted or the time is
// over. Goroutines pass names on within their process, and half of the processes take locks of all kinds.
func crowd(x *Exam, want int, within time.Duration) {
	var names []string
	for range 4 {
		names = append(names, x.Lock())
	}
	x.Access.HandOver = 5 * time.Millisecond
	var procs []*Process
	for i := range 4 {
		p, _ := x.Process("P")
		load := Load{Seed: uint64(i), Names: names, Goroutines: 16, TTL: x.Backend.TTL, Fast: true}
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
