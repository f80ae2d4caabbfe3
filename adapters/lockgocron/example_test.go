package lockgocron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/adapters/lockgocron"
	"github.com/seed80cd6120/locker/memory"
)

// Two replicas have the same job, one of them runs it.
func ExampleJob() {
	ctx := context.Background()
	store := memory.NewStore()
	ran := make(chan struct{}, 2)
	report := func(context.Context) error { ran <- struct{}{}; return nil }
	for range 2 {
		l, err := store.Locker()
		if err != nil {
			fmt.Println(err)
			return
		}
		defer l.Close(ctx)
		scheduler, err := gocron.NewScheduler()
		if err != nil {
			fmt.Println(err)
			return
		}
		defer scheduler.Shutdown()

		task, once := lockgocron.Job(l, "report", 50*time.Minute, func(ctx context.Context, lock *locker.Lock) error {
			return report(ctx)
		})
		_, err = scheduler.NewJob(gocron.DurationJob(time.Hour), task, once, gocron.WithStartAt(gocron.WithStartImmediately()))
		if err != nil {
			fmt.Println(err)
			return
		}
		scheduler.Start()
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

// One replica runs all jobs.
func ExampleNewElector() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close(ctx)
	elector := lockgocron.NewElector(l, "scheduler")
	defer elector.Close(ctx)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer scheduler.Shutdown()

	ran := make(chan struct{}, 1)
	_, err = scheduler.NewJob(gocron.DurationJob(50*time.Millisecond), elector.Task(func(ctx context.Context, lock *locker.Lock) error {
		select {
		case ran <- struct{}{}:
		default:
		}
		return nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	<-ran
	fmt.Println("this replica leads:", elector.IsLeader(ctx) == nil)
	// Output: this replica leads: true
}
