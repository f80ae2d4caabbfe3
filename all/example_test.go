package all_test

import (
	"context"
	"fmt"

	"github.com/seed80cd6120/locker"
	_ "github.com/seed80cd6120/locker/all"
)

// Which server it is can be told by the program's configuration.
func Example() {
	ctx := context.Background()
	l, err := locker.Open(ctx, "redis://localhost:6379/0?ttl=10s")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close(ctx)
	fmt.Println(l)
	// Output: locker(redis)
}
