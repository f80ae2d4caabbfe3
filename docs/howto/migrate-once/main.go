// Command migrate-once migrates a schema before the service starts, in one replica only.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/seed80cd6120/locker"
	_ "github.com/seed80cd6120/locker/file" // for file://; import the packages of the servers that you use
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the service starts")
}

func run(ctx context.Context) error {
	l, err := locker.Open(ctx, cmp.Or(os.Getenv("LOCKER_URL"), "file://"))
	if err != nil {
		return err
	}
	defer l.Close(ctx)

	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // longer than a migration takes
	defer cancel()
	return locker.Do(ctx, l, "migrate/schema", func(ctx context.Context, lock *locker.Lock) error {
		return migrate(ctx, "schema-version")
	})
}

// migrate stands for your migration tool. Like that it looks, under the lock, at what is done already.
func migrate(ctx context.Context, file string) error {
	version, err := os.ReadFile(file)
	switch {
	case err == nil && string(version) == "2":
		fmt.Println("nothing to migrate")
		return nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx) // the lock is lost: another replica may migrate now
	}
	fmt.Println("migrating to version 2")
	return os.WriteFile(file, []byte("2"), 0o600)
}
