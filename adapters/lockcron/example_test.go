package lockcron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/adapters/lockcron"
	"github.com/seed80cd6120/locker/memory"
)

// Two replicas have the same job, one of them runs it.
func Example() {
	ctx := context.Background()
	store := memory.NewStore()
	ran := make(chan int64, 2)
	for range 2 {
		l, err := store.Locker()
		if err != nil {
			fmt.Println(err)
			return
		}
		defer l.Close(ctx)
		jobs := lockcron.New(l, 900*time.Millisecond, cron.DiscardLogger)
		c := cron.New()
		_, err = c.AddJob("@every 1s", jobs.Job(ctx, "report", func(ctx context.Context, lock *locker.Lock) error {
			ran <- lock.Token()
			return nil
		}))
		if err != nil {
			fmt.Println(err)
			return
		}
		c.Start()
		defer func() { <-c.Stop().Done() }()
	}
	<-ran
	select {
	case <-ran:
		fmt.Println("run twice")
	case <-time.After(100 * time.Millisecond):
		fmt.Println("run once")
	}
	// Output: run once
}
