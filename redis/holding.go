package redis

import (
	"context"
	"iter"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

func at(c *driver.Claim) *redisnode.Claim { return c.State.(*redisnode.Claim) }

// Renew implements [driver.Driver].
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	all := make([]*redisnode.Claim, len(claims))
	for i, c := range claims {
		all[i] = at(c)
	}
	b.node.Renew(ctx, all, func(c *redisnode.Claim, r redisnode.Renewal, err error) {
		switch {
		case err != nil:
			report(c.Claim, 0, err)
		case !r.Held:
			report(c.Claim, 0, driver.ErrGone)
		default:
			report(c.Claim, r.Sent.Add(min(r.Left, c.TTL)), nil)
			if r.Waiting > 0 && c.Wanted != nil {
				c.Wanted()
			}
		}
	})
}

// Release implements [driver.Driver].
func (b *backend) Release(ctx context.Context, c *driver.Claim) error {
	return b.node.Release(ctx, at(c), 0, 0)
}

// Linger implements [driver.Lingerer].
func (b *backend) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	return b.node.Release(ctx, at(c), d, 0)
}

// Abandon implements [driver.Driver].
func (b *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	return b.node.Abandon(ctx, at(c))
}

// Lighten implements [driver.Weigher].
func (b *backend) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	return b.node.Lighten(ctx, at(c), weight)
}

// Look implements [driver.Inspector].
func (b *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	return b.node.Look(ctx, name)
}

// Names implements [driver.Inspector].
func (b *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return b.node.Names(ctx, prefix)
}

// Evict implements [driver.Evictor].
func (b *backend) Evict(ctx context.Context, name, id string) error {
	return b.node.Evict(ctx, name, id)
}
