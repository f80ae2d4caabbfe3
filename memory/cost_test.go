package memory

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

func BenchmarkAlone(b *testing.B) {
	l, err := New()
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		lock, err := l.Acquire(ctx, "orders/42")
		if err != nil {
			b.Fatal(err)
		}
		if err := lock.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

var manyLocks = 100_000

// A hundred thousand names are held by one Locker in little memory, the store's part of it
// included, without a goroutine each, and all are renewed in time. How much of a processor that
// takes is logged: the time of the bubble passes at once, so what the process uses
// meanwhile is what it would use in that time.
func TestManyLocksHeld(t *testing.T) {
	many := manyLocks
	for name, opts := range map[string][]locker.AcquireOption{
		"renewed":   nil,
		"WithLease": {locker.WithLease(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewStore()
				l := open(t, s)
				acquire(t, l, "first") // what a Locker sets up with its first lock does not count
				goroutines, before := runtime.NumGoroutine(), heap()
				locks := make([]*locker.Lock, many)
				for i := range locks {
					locks[i] = acquire(t, l, "job/"+strconv.Itoa(i), opts...)
				}
				each := (heap() - before) / int64(many)
				if each >= 1024 {
					t.Errorf("%d bytes of heap for each lock, want less than 1,024", each)
				}
				if n := runtime.NumGoroutine() - goroutines; n > 0 {
					t.Errorf("%d goroutines more", n)
				}
				const idle = 2 * time.Minute
				used := processorTime(t)
				time.Sleep(idle)
				used = processorTime(t) - used
				t.Logf("%d bytes of heap each, %.2f %% of a processor", each, 100*used.Seconds()/idle.Seconds())
				for _, lock := range locks {
					if lock.Context().Err() != nil {
						t.Fatalf("%s: %v", lock.Name(), context.Cause(lock.Context()))
					}
				}
				if n := len(s.Holders()); n != many+1 {
					t.Errorf("the store knows %d holders", n)
				}
			})
		})
	}
}

// The store's part of a held name is under 300 bytes.
func TestBytesOfHeldName(t *testing.T) {
	const many = 100_000
	d := over(&Link{store: NewStore()})
	claims := make([]*driver.Claim, many)
	for i := range claims {
		claims[i] = claim("job/"+strconv.Itoa(i), driver.All, driver.All)
	}
	before := heap()
	for _, c := range claims {
		if _, err := d.Acquire(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / many
	t.Logf("%d bytes of heap each", each)
	if each >= 300 {
		t.Errorf("%d bytes of heap for each name, want less than 300", each)
	}
	runtime.KeepAlive(claims)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
