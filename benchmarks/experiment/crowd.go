package experiment

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// crowdTally has a crowd of n clients compete as compete does with clients of this process, notes how many requests that took
// if counted is not zero, in a pass of that length, and returns what came of it and the times of whole pairs.
func (c *Cell) crowdTally(ctx context.Context, n int, window, counted time.Duration) (*tally, *measure.Histogram, error) {
	crowd, err := c.OpenCrowd(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	name := c.LockName()
	came, err := crowd.Compete(ctx, name, untimed, window)
	if err != nil {
		return nil, nil, err
	}
	t := &tally{counts: came.Counts, overlaps: came.Overlaps, stuck: came.Stuck, acquire: histogram(came.Acquire), handOver: histogram(came.HandOver)}
	t.rate = float64(sum(came.Counts)) / came.Took.Seconds()
	if counted > 0 {
		var again *contender.CrowdTally
		requests, err := c.Site.Requests(ctx, func() (err error) {
			again, err = crowd.Compete(ctx, name, 0, counted)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		c.Put("requests", float64(requests)/float64(len(again.Acquire)))
		t.overlaps, t.stuck = t.overlaps+again.Overlaps, t.stuck+again.Stuck
	}
	return t, histogram(came.Pair), nil
}

func histogram(all []time.Duration) *measure.Histogram {
	h := measure.NewHistogram()
	for _, d := range all {
		h.Record(d)
	}
	return h
}

func sum(all []int64) (s int64) {
	for _, n := range all {
		s += n
	}
	return s
}
