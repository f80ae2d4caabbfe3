package lockcertmagic_test

import (
	"context"
	"fmt"
	"os"

	"github.com/caddyserver/certmagic"

	"github.com/seed80cd6120/locker/adapters/lockcertmagic"
	"github.com/seed80cd6120/locker/memory"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	l, err := memory.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close(ctx)

	storage := lockcertmagic.New(&certmagic.FileStorage{Path: dir}, l)
	fmt.Println(storage.Lock(ctx, "issue_cert_example.org"))
	fmt.Println(storage.TryLock(ctx, "issue_cert_example.org"))
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.org"))
	// Output:
	// <nil>
	// false <nil>
	// <nil>
}
