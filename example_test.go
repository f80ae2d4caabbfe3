package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

// Two replicas must not migrate the same schema.
func ExampleDo() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	migrate := func(ctx context.Context) error {
		fmt.Println("migrating")
		return ctx.Err()
	}
	err = locker.Do(ctx, l, "migrate/schema", func(ctx context.Context, lock *locker.Lock) error {
		return migrate(ctx) // ctx ends if the lock is lost
	})
	fmt.Println(err)
	// Output:
	// migrating
	// <nil>
}

// A job that is to run once, wherever: whoever does not get the lock goes on.
func ExampleLocker_tryAcquire() {
	ctx := context.Background()
	store := memory.NewStore()
	replica1, err := store.Locker()
	if err != nil {
		log.Fatal(err)
	}
	defer replica1.Close(ctx)
	replica2, err := store.Locker()
	if err != nil {
		log.Fatal(err)
	}
	defer replica2.Close(ctx)

	for i, l := range []locker.Locker{replica1, replica2} {
		lock, err := l.TryAcquire(ctx, "jobs/nightly")
		if errors.Is(err, locker.ErrNotAcquired) {
			fmt.Println("replica", i+1, "goes on")
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		defer lock.Release(ctx)
		fmt.Println("replica", i+1, "runs the job")
	}
	// Output:
	// replica 1 runs the job
	// replica 2 goes on
}

// fencedRow is what a lock protects: it keeps, beside its state, the greatest token of an
// exclusive holder that it has seen, and refuses lower ones.
type fencedRow struct {
	state string
	fence int64
}

var errStale = errors.New("a later holder has been here")

func (r *fencedRow) Write(ctx context.Context, token int64, state string) error {
	if token < r.fence { // an equal one is the same holder, writing a second time
		return errStale
	}
	r.state, r.fence = state, token
	return ctx.Err()
}

// A store that compares tokens is safe from a holder that was paused for longer
// than its TTL and does not know yet that it has lost the lock.
func ExampleLock_Token() {
	ctx := context.Background()
	store := memory.NewStore()
	l, err := store.Locker()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)
	var orders fencedRow

	late, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	store.Destroy("orders/42") // as if its time had run out on the server
	lock, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	err = orders.Write(lock.Context(), lock.Token(), "paid")
	fmt.Println("paid:", err)
	err = orders.Write(lock.Context(), lock.Token(), "shipped")
	fmt.Println("shipped:", err)
	err = orders.Write(late.Context(), late.Token(), "cancelled")
	fmt.Println("cancelled:", err)
	// Output:
	// paid: <nil>
	// shipped: <nil>
	// cancelled: a later holder has been here
}

// Readers hold the name together; a writer holds it alone.
func ExampleShared() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	for range 2 {
		reader, err := l.Acquire(ctx, "catalogue", locker.Shared())
		if err != nil {
			log.Fatal(err)
		}
		defer reader.Release(ctx)
		fmt.Println("reading", reader.Name())
	}
	_, err = l.TryAcquire(ctx, "catalogue")
	fmt.Println("the writer has to wait:", errors.Is(err, locker.ErrNotAcquired))
	// Output:
	// reading catalogue
	// reading catalogue
	// the writer has to wait: true
}

// No more than three downloads from one host at a time, in all processes together. One that
// is large counts twice.
func ExamplePermits() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	small, err := l.Acquire(ctx, "download/example.org", locker.Permits(1, 3))
	if err != nil {
		log.Fatal(err)
	}
	large, err := l.Acquire(ctx, "download/example.org", locker.Permits(2, 3))
	if err != nil {
		log.Fatal(err)
	}
	defer large.Release(ctx)
	_, err = l.TryAcquire(ctx, "download/example.org", locker.Permits(1, 3))
	fmt.Println("a fourth permit:", !errors.Is(err, locker.ErrNotAcquired))

	small.Release(ctx)
	another, err := l.TryAcquire(ctx, "download/example.org", locker.Permits(1, 3))
	if err != nil {
		log.Fatal(err)
	}
	defer another.Release(ctx)
	fmt.Println("after a release:", another.Name())
	// Output:
	// a fourth permit: false
	// after a release: download/example.org
}

// Write alone, then go on reading what was written, without letting a writer in between.
func ExampleLock_Downgrade() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	lock, err := l.Acquire(ctx, "catalogue")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	if err := lock.Downgrade(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = l.TryAcquire(ctx, "catalogue")
	fmt.Println("a writer:", err)
	reader, err := l.TryAcquire(ctx, "catalogue", locker.Shared())
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Release(ctx)
	fmt.Println("a reader reads", reader.Name())
	// Output:
	// a writer: locker: memory: try "catalogue": not acquired
	// a reader reads catalogue
}

// A transfer needs both accounts. Whoever takes several names takes them in the same order,
// whatever the order of the arguments, so that two transfers never wait for each other.
func ExampleAcquireAll() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	locks, err := locker.AcquireAll(ctx, l, []string{"account/7", "account/3"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Release(ctx)
	for _, lock := range locks {
		fmt.Println(lock.Name())
	}
	_, err = locker.TryAcquireAll(ctx, l, []string{"account/1", "account/3"})
	fmt.Println("another transfer has to wait:", errors.Is(err, locker.ErrNotAcquired))
	// Output:
	// account/3
	// account/7
	// another transfer has to wait: true
}

// One replica leads. If it loses the lead it campaigns again.
func ExampleLead() {
	ctx := context.Background()
	store := memory.NewStore()
	l, err := store.Locker()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	term := 0
	err = locker.Lead(ctx, l, "leader", func(ctx context.Context, lock *locker.Lock) error {
		term++
		fmt.Println("leading, term", term)
		if term == 2 {
			return nil // resign
		}
		store.Destroy("leader") // as an operator could
		<-ctx.Done()
		fmt.Println("lost:", errors.Is(context.Cause(ctx), locker.ErrLost))
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// leading, term 1
	// lost: true
	// leading, term 2
	// <nil>
}

// A function that takes the lock it needs may be called by one that has it already. The
// context tells: it comes from the lock.
func ExampleReenter() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	restock := func(ctx context.Context, opts ...locker.AcquireOption) error {
		return locker.Do(ctx, l, "stock/42", func(context.Context, *locker.Lock) error { return nil }, opts...)
	}
	err = locker.Do(ctx, l, "stock/42", func(ctx context.Context, _ *locker.Lock) error {
		fmt.Println("held already:", errors.Is(restock(ctx), locker.ErrHeld))
		return restock(ctx, locker.Reenter())
	})
	fmt.Println("with Reenter:", err)
	// Output:
	// held already: true
	// with Reenter: <nil>
}

// A job is over at once, and the clock of the next replica is a little behind: it must not
// find the name free and run the job again.
func ExampleAtLeast() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	runs := 0
	for range 2 { // two replicas, a moment apart
		lock, err := l.TryAcquire(ctx, "jobs/nightly", locker.AtLeast(time.Minute))
		if errors.Is(err, locker.ErrNotAcquired) {
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		runs++
		lock.Release(ctx) // the name stays taken until the minute is over
	}
	fmt.Println("runs:", runs)
	// Output:
	// runs: 1
}

// Who has the lock, and who waits for it?
func ExampleInspect() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(context.Background())

	lock, err := l.Acquire(ctx, "orders/42", locker.As("checkout"))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	go l.Acquire(ctx, "orders/42", locker.As("refund"))
	<-lock.Wanted() // closed when somebody else is known to wait

	positions, err := locker.Inspect(ctx, l, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range positions {
		fmt.Println(p.Owner, "holds:", p.Held)
	}
	// Output:
	// checkout holds: true
	// refund holds: false
}

// An operator takes a name from a holder that is stuck. The holder is told.
func ExampleEvict() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)
	stuck, err := l.Acquire(ctx, "orders/42", locker.As("checkout"))
	if err != nil {
		log.Fatal(err)
	}

	for name, err := range locker.Names(ctx, l, "orders/") {
		if err != nil {
			log.Fatal(err)
		}
		positions, err := locker.Inspect(ctx, l, name)
		if err != nil {
			log.Fatal(err)
		}
		for _, p := range positions {
			if p.Held && p.Owner == "checkout" {
				fmt.Println("evicted from", name, locker.Evict(ctx, l, p))
			}
		}
	}
	<-stuck.Context().Done()
	fmt.Println(errors.Is(context.Cause(stuck.Context()), locker.ErrLost))
	// Output:
	// evicted from orders/42 <nil>
	// true
}

// Goroutines of one process that want the same name pass it on without asking the server. It
// is easiest to see with shared locks: the second joins the first.
func ExampleWithHandOver() {
	ctx := context.Background()
	store := memory.NewStore()
	l, err := store.Locker(locker.WithHandOver(time.Minute)) // 5 ms are usual
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	for range 3 {
		lock, err := l.Acquire(ctx, "catalogue", locker.Shared())
		if err != nil {
			log.Fatal(err)
		}
		defer lock.Release(ctx)
		fmt.Println("token", lock.Token(), "after requests:", store.Requests())
	}
	// Output:
	// token 1 after requests: 1
	// token 2 after requests: 1
	// token 3 after requests: 1
}

// Work with a deadline of its own ends with whatever comes first: the deadline or the
// lock. Within comes last, so that the context that is used compares the clock itself.
func ExampleLock_Within() {
	ctx := context.Background()
	store := memory.NewStore()
	l, err := store.Locker()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	lock, err := l.Acquire(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	work, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	work = lock.Within(work)
	store.Destroy("report")
	<-work.Done()
	fmt.Println(errors.Is(context.Cause(work), locker.ErrLost))
	// Output:
	// true
}

// The context of a lock says why it ended.
func ExampleLock_Context() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	lock, err := l.Acquire(ctx, "report", locker.WithLease(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	<-lock.Context().Done()
	fmt.Println(errors.Is(context.Cause(lock.Context()), locker.ErrLost))
	fmt.Println(errors.Is(lock.Release(ctx), locker.ErrLost))
	// Output:
	// true
	// true
}
