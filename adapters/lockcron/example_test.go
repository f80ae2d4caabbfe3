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
	report := func(context.Context) error { fmt.Println("run"); return nil }
	for range 2 {
		l, err := store.Locker()
		if err != nil {
			fmt.Println(err)
			return
		}
		defer l.Close(ctx)

		jobs := lockcron.New(l, 30*time.Second, cron.DiscardLogger)
		c := cron.New()
		id, err := c.AddJob("0 3 * * *", jobs.Job(ctx, "report", func(ctx context.Context, lock *locker.Lock) error {
			return report(ctx)
		}))
		if err != nil {
			fmt.Println(err)
			return
		}
		c.Entry(id).WrappedJob.Run() // what c does at three o'clock
	}
	// Output: run
}
