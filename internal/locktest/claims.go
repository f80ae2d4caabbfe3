package locktest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Claim makes an exclusive claim, as the core does.
func Claim(name string, ttl time.Duration, wait bool) *driver.Claim {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return &driver.Claim{
		Name: name, ID: hex.EncodeToString(id[:]), Owner: "test", Weight: driver.All, Limit: driver.All,
		TTL: ttl, Wait: wait, Lost: func(error) {},
	}
}

// Take acquires the claim's name; it ends the test if it cannot.
func Take(t testing.TB, d driver.Driver, c *driver.Claim) driver.Grant {
	t.Helper()
	ctx, cancel := patient()
	defer cancel()
	g, err := d.Acquire(ctx, c)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return g
}

// Taken asks for the claim's name without waiting; it ends the test unless others have it.
func Taken(t testing.TB, d driver.Driver, c *driver.Claim) {
	t.Helper()
	c.Wait = false
	ctx, cancel := patient()
	defer cancel()
	if g, err := d.Acquire(ctx, c); !errors.Is(err, driver.ErrTaken) {
		t.Fatalf("try: %+v, %v, want %v", g, err, driver.ErrTaken)
	}
}

// Free releases the claim; it ends the test if that fails.
func Free(t testing.TB, d driver.Driver, c *driver.Claim) {
	t.Helper()
	ctx, cancel := patient()
	defer cancel()
	if err := d.Release(ctx, c); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// Renewed returns what Renew reports of the claim.
func Renewed(t testing.TB, d driver.Driver, c *driver.Claim) (until driver.Instant, err error) {
	t.Helper()
	ctx, cancel := patient()
	defer cancel()
	err = errors.New("not reported")
	d.Renew(ctx, []*driver.Claim{c}, func(_ *driver.Claim, u driver.Instant, e error) { until, err = u, e })
	return until, err
}

// BeginClaim acquires the claim's name in a goroutine; it returns at once.
func BeginClaim(ctx context.Context, d driver.Driver, c *driver.Claim) *Acquisition[driver.Grant] {
	a := begin(func() (driver.Grant, error) { return d.Acquire(ctx, c) })
	a.Claim = c
	return a
}
