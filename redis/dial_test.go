package redis

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
)

// go-redis tries to connect again and again before it says why it cannot: for half a second,
// with Sentinels for two and a half. Who has less time is told all the same.
func TestWhyNotConnected(t *testing.T) {
	t.Parallel()
	distrust := func(context.Context, string, string) (net.Conn, error) {
		return nil, x509.UnknownAuthorityError{}
	}
	single := options("127.0.0.1:1")
	single.Dialer = distrust
	sentinel := failoverOptions([]string{"127.0.0.1:1", "127.0.0.1:2"}, nil)
	sentinel.Dialer = distrust
	for name, c := range map[string]struct {
		client *goredis.Client
		within time.Duration
	}{
		"single":   {goredis.NewClient(single), 250 * time.Millisecond},
		"sentinel": {goredis.NewFailoverClient(sentinel), 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := New(closing(t, c.client))
			if err != nil {
				t.Fatal(err)
			}
			// What may have arrived is undone as long as Close is allowed to take.
			defer func() { _ = l.Close(within(t, 10*time.Millisecond)) }()
			for op, take := range map[string]func(context.Context, string, ...locker.AcquireOption) (*locker.Lock, error){
				"acquire": l.Acquire, "try": l.TryAcquire,
			} {
				_, err := take(within(t, c.within), freshName(t))
				names(t, op, err, "certificate")
				if !errors.As(err, new(x509.UnknownAuthorityError)) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", op, err)
				}
			}
		})
	}
}

// What could not be sent for want of a connection is known to have had no effect, but
// not what was not answered while another connection could not be made.
func TestUnconnectedIsNotRefused(t *testing.T) {
	why := x509.UnknownAuthorityError{}
	if refused(unconnected{why}) || !refused(why) {
		t.Errorf("refused: %t, what was the reason: %t", refused(unconnected{why}), refused(why))
	}
}
