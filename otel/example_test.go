package otel_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
	"github.com/seed80cd6120/locker/otel"
)

// The names of locks are shown by what stands before the first slash.
func Example() {
	observer, err := otel.New(otel.WithName(func(name string) string {
		kind, _, _ := strings.Cut(name, "/")
		return kind
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := memory.New(locker.WithObserver(observer))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close(context.Background())
	lock, err := l.Acquire(context.Background(), "orders/42")
	fmt.Println(lock, err)
	// Output: lock "orders/42" with token 1 <nil>
}
