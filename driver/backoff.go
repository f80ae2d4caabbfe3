package driver

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Backoff is the pause before something that has failed is tried again: 10 ms at first, then twice as long each time
// up to a second, of which a random part of up to half is left out, so that those who failed together do not return together.
// The zero Backoff is ready for use.
type Backoff struct{ longest time.Duration }

// Next returns how long the next pause is.
func (b *Backoff) Next() time.Duration {
	b.longest = min(max(2*b.longest, 10*time.Millisecond), time.Second)
	return b.longest/2 + rand.N(b.longest/2)
}

// Sleep pauses; it returns early when ctx ends.
func (b *Backoff) Sleep(ctx context.Context) {
	t := time.NewTimer(b.Next())
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
