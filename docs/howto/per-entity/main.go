// Command per-entity books on accounts, on each account in one process at a time.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/seed80cd6120/locker"
	_ "github.com/seed80cd6120/locker/file" // for file://; import the packages of the servers that you use
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	l, err := locker.Open(ctx, cmp.Or(os.Getenv("LOCKER_URL"), "file://"))
	if err != nil {
		return err
	}
	defer l.Close(ctx)

	var bank bank
	for _, account := range []string{"7", "3", "7"} {
		if err := book(ctx, l, &bank, account, 10); err != nil {
			return err
		}
	}
	fmt.Println("account 7 has", bank["7"].balance)
	return nil
}

// book adds amount to an account. It gives up after two seconds, of waiting and of work together.
func book(ctx context.Context, l locker.Locker, b *bank, account string, amount int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return locker.Do(ctx, l, "account/"+account, func(ctx context.Context, lock *locker.Lock) error {
		balance := (*b)[account].balance // read what the lock protects only after it is there
		return b.write(ctx, account, balance+amount, lock.Token())
	})
}

// bank stands for your database: it refuses a token lower than the greatest that it has seen.
//
//	UPDATE accounts SET balance = :balance, fence = :token WHERE id = :id AND fence <= :token
type bank map[string]row

type row struct {
	balance int
	fence   int64
}

func (b *bank) write(ctx context.Context, id string, balance int, token int64) error {
	if *b == nil {
		*b = bank{}
	}
	if strings.TrimSpace(id) == "" || token < (*b)[id].fence {
		return errors.New("a later holder has been here")
	}
	(*b)[id] = row{balance, token}
	return ctx.Err()
}
