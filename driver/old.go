package driver

import "context"

// Relayer goes away: the core no longer uses it when the new core is there.
type Relayer interface {
	Driver
	Relay(ctx context.Context, c, next *Claim, joined func()) error
}

// Ends goes away, too.
func Ends(ctx context.Context) (one, other <-chan struct{}) {
	if c, ok := ctx.(interface {
		Ends() (one, other <-chan struct{})
	}); ok {
		return c.Ends()
	}
	return ctx.Done(), nil
}
