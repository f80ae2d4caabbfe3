package redis

import (
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

func TestSmoke(t *testing.T) {
	r := servers.SharedRedis(t)
	ctx := within(t, 10*time.Second)
	a, b := open(t, connect(t, r.Addr())), open(t, connect(t, r.Addr()))
	name := freshName(t)
	l, err := a.Acquire(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(l.Token(), time.Now().UnixMicro())
	if _, err := b.TryAcquire(ctx, name); err == nil {
		t.Fatal("taken twice")
	} else {
		t.Log(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		l2, err := b.Acquire(ctx, name)
		if err != nil {
			t.Error(err)
			return
		}
		t.Log(l2.Token())
		t.Log(l2.Release(ctx))
	})
	time.Sleep(300 * time.Millisecond)
	v, err := r.Do(ctx, "KEYS", "*")
	t.Log(v, err)
	t0 := time.Now()
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	t.Log(time.Since(t0))
	v, err = r.Do(ctx, "KEYS", "*")
	t.Log(v, err)
}
