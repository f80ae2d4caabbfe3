package redis

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// batch is how many holdings one script looks at. It keeps the server from
	// others for about a tenth of a millisecond.
	batch = 64
	// burst is how many scripts are sent in one go.
	burst = 32
)

// Renew asks for many holdings in one script, and sends many scripts in one
// go. In a Cluster the holdings of one script are of one bucket, and each node is
// asked by itself, so that one that hangs does not keep the others waiting.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	if len(claims) == 0 {
		return
	}
	var mu sync.Mutex
	var gone []*driver.Claim
	tell := func(c *driver.Claim, until driver.Instant, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == driver.ErrGone {
			gone = append(gone, c)
		}
		report(c, until, err)
	}
	var wg sync.WaitGroup
	for _, batches := range b.batches(ctx, claims) {
		wg.Go(func() {
			for len(batches) > 0 {
				n := min(burst, len(batches))
				b.renew(ctx, batches[:n], tell)
				batches = batches[n:]
			}
		})
	}
	wg.Wait()
	b.passOn(ctx, gone)
}

// batches divides the claims into batches, and these by the node to ask.
func (b *backend) batches(ctx context.Context, claims []*driver.Claim) map[string][][]*driver.Claim {
	if !b.layout.sharded {
		return map[string][][]*driver.Claim{"": split(nil, claims)}
	}
	buckets := make(map[*bucket][]*driver.Claim)
	for _, c := range claims {
		t := c.State.(*ticket)
		buckets[t.bucket] = append(buckets[t.bucket], c)
	}
	all := make(map[string][][]*driver.Claim)
	for bucket, claims := range buckets {
		node := ""
		if master, err := b.client.(cluster).MasterForKey(ctx, bucket.clock); err == nil {
			node = master.Options().Addr
		}
		all[node] = split(all[node], claims)
	}
	return all
}

func split(batches [][]*driver.Claim, claims []*driver.Claim) [][]*driver.Claim {
	for len(claims) > batch {
		batches = append(batches, claims[:batch])
		claims = claims[batch:]
	}
	return append(batches, claims)
}

// renew sends the batches in one go.
func (b *backend) renew(ctx context.Context, batches [][]*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	sent := b.clock.Now()
	cmds := b.send(ctx, batches, false)
	for i, claims := range batches {
		if unknown(cmds[i].Err()) {
			cmds[i] = b.send(ctx, batches[i:i+1], true)[0]
		}
		if word(cmds[i].Err()) == "TRYAGAIN" && len(claims) > 1 {
			// The slot is being moved. What is on one key still works.
			for _, c := range claims {
				b.renew(ctx, [][]*driver.Claim{{c}}, report)
			}
			continue
		}
		digest(claims, sent, cmds[i], report)
	}
}

func (b *backend) send(ctx context.Context, batches [][]*driver.Claim, byText bool) []once {
	cmds := make([]once, len(batches))
	for i, claims := range batches {
		words := make(args, 0, 3+3*len(claims))
		words = append(words, nil, nil, strconv.Itoa(len(claims)))
		for _, c := range claims {
			words = append(words, c.State.(*ticket).lock)
		}
		for _, c := range claims {
			t := c.State.(*ticket)
			words = append(words, t.id, t.ttl)
		}
		cmds[i] = b.scripts.renew.call(ctx, words, byText)
	}
	if len(cmds) == 1 {
		_ = b.client.Process(ctx, cmds[0])
		return cmds
	}
	pipe := b.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return cmds
}

// digest reports what the server said of one batch.
func digest(claims []*driver.Claim, sent driver.Instant, cmd once, report func(*driver.Claim, driver.Instant, error)) {
	var left []int64
	err := cmd.Err()
	if err == nil {
		values, _ := cmd.Val().([]any)
		left, _ = numbers(values)
	}
	for i, c := range claims {
		switch {
		case err != nil:
			report(c, 0, err)
		case i >= len(left):
		case left[i] >= 0:
			report(c, sent.Add(time.Duration(left[i])*time.Millisecond), nil)
		default:
			report(c, 0, driver.ErrGone)
		}
	}
}

// passOn sees to it that those who wait for a name that its holder has lost, because
// somebody deleted the key, do not have to find out by themselves. If it fails they
// will.
func (b *backend) passOn(ctx context.Context, gone []*driver.Claim) {
	for claims := range slices.Chunk(gone, batch) {
		pipe := b.client.Pipeline()
		cmds := make([]once, len(claims))
		for i, c := range claims {
			cmds[i] = b.scripts.abandon.call(ctx, c.State.(*ticket).abandonArgs(), false)
			_ = pipe.Process(ctx, cmds[i])
			b.listener.forget(c.ID)
		}
		_, _ = pipe.Exec(ctx)
		for i, c := range claims {
			if unknown(cmds[i].Err()) {
				_, _ = b.scripts.abandon.run(ctx, b.client, c.State.(*ticket).abandonArgs())
			}
		}
	}
}
