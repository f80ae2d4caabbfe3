package howto_test

import _ "github.com/seed80cd6120/locker/redis" // as docs/urls.md has it

import (
	"context"
	"errors"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
	"github.com/seed80cd6120/locker/redis"
)

// Lines that pages show without their errors.
//
//lint:file-ignore SA4006 the errors are left out on the pages.

type store struct{ token int64 }

func (s *store) Write(ctx context.Context, token int64, _ string) error {
	if token < s.token {
		return errors.New("late")
	}
	s.token = token
	return ctx.Err()
}

// The first lines of the README, with Redis; nothing is run.
func _(ctx context.Context, client *goredis.Client, orders *store) {
	l, err := redis.New(client)
	lock, err := l.Acquire(ctx, "orders/42")
	defer lock.Release(ctx)
	err = orders.Write(lock.Context(), lock.Token(), "paid")
	_ = err
}

// The kinds of acquisitions in docs/using.md.
func TestKinds(t *testing.T) {
	ctx := t.Context()
	l, err := memory.New()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := l.Acquire(ctx, "catalogue", locker.Shared())
	small, err := l.Acquire(ctx, "download/example.org", locker.Permits(1, 3))
	locks, err := locker.AcquireAll(ctx, l, []string{"account/7", "account/3"})
	if err != nil || reader == nil || small == nil || len(locks) != 2 {
		t.Errorf("%v, %v, %v, %v", reader, small, locks, err)
	}
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
}
