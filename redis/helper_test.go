package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/proxy"
)

// slack is what a machine that does other things too may add to a time.
const slack = 5 * time.Second

func key(kind, name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("%s:{%02x}:%s:%s", DefaultPrefix, h.Sum32()>>24, kind, name)
}

// clockKey is the key of the clock of the name's bucket.
func clockKey(name string) string {
	return strings.TrimSuffix(key("clock", name), ":"+name)
}

func lockKey(name string) string  { return key("lock", name) }
func queueKey(name string) string { return key("queue", name) }

// opened makes a driver without the core around it.
func opened(t testing.TB, client goredis.UniversalClient, opts ...locker.Option) *backend {
	t.Helper()
	if single, ok := client.(*goredis.Client); ok {
		client = single.WithTimeout(20 * time.Second) // no late answer has a request sent again
	}
	b, _, err := newBackend(client, opts...)
	must(t, err)
	t.Cleanup(func() {
		if err := b.Close(within(t, 30*time.Second)); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// queued waits until n stand in the queue.
func queued(t testing.TB, admin goredis.UniversalClient, name string, n int64) {
	t.Helper()
	eventually.Is(t, fmt.Sprintf("%d in the queue of %s", n, name), func() bool {
		got, _ := admin.LLen(context.Background(), queueKey(name)).Result()
		return got == n
	})
}

// lasting has keys stay for longer than nothingLeft waits.
var lasting = locker.WithTTL(5 * time.Minute)

// nothingLeft waits until the server has no key of the name, which has to be before a TTL of a minute or more would do that.
func nothingLeft(t testing.TB, admin goredis.UniversalClient, name string) {
	t.Helper()
	eventually.Within(t, 30*time.Second, "nothing left of "+name, func() bool {
		n, err := admin.Exists(context.Background(), lockKey(name), queueKey(name)).Result()
		return err == nil && n == 0
	})
}

// swallowed waits until the proxy has lost n replies.
func swallowed(t testing.TB, p *proxy.Proxy, n int) {
	t.Helper()
	eventually.Is(t, fmt.Sprintf("%d replies are lost", n), func() bool { return p.Stats().Swallowed == n })
}

// claimAt gives the claim a state in which the server may know of it, and no request to release it was sent.
func claimAt(b *backend, c *driver.Claim) *driver.Claim {
	at := b.Claim(c)
	at.Touched = true
	c.State = at
	return c
}

// releaseIsGone wants a release to say that the claim does not hold its name. One whose request is sent again cannot tell.
func releaseIsGone(t testing.TB, b *backend, c *driver.Claim) {
	t.Helper()
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		err = b.Release(within(t, 20*time.Second), claimAt(b, c))
	}
	if !errors.Is(err, driver.ErrGone) {
		t.Errorf("release: %v", err)
	}
}

// loaded has the server know the scripts, so that the first request is not another
// than the next.
func loaded(t testing.TB, client goredis.UniversalClient, name string) {
	t.Helper()
	l := open(t, client)
	release(t, acquire(t, l, name))
}

// breakSaving has the server fail to save, by a folder where the file has to go.
func breakSaving(ctx context.Context, admin *goredis.Client) error {
	dir, err := admin.ConfigGet(ctx, "dir").Result()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir["dir"]+"/dump.rdb/x", 0o700); err != nil {
		return err
	}
	admin.BgSave(ctx)
	for ctx.Err() == nil {
		if info, _ := admin.Info(ctx, "persistence").Result(); strings.Contains(info, "rdb_last_bgsave_status:err") {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return ctx.Err()
}

// tries and releases match the requests that ask for a name without waiting, and that release one, by
// how many words they have.
func tries(request []byte) bool    { return bytes.HasPrefix(request, []byte("*12\r\n")) }
func releases(request []byte) bool { return bytes.HasPrefix(request, []byte("*11\r\n")) }

// endsIn has the record of an exclusive holder, and its key, end in d.
func endsIn(t testing.TB, admin goredis.UniversalClient, name string, d time.Duration) {
	t.Helper()
	ctx := context.Background()
	words := strings.SplitN(admin.Get(ctx, lockKey(name)).Val(), " ", 4)
	if len(words) != 4 {
		t.Fatalf("the lock is %q", words)
	}
	words[2] = fmt.Sprint(time.Now().Add(d).UnixMicro())
	must(t, admin.Set(ctx, lockKey(name), strings.Join(words, " "), d).Err())
}
