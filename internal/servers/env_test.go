package servers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/mustfail"
)

func TestGivenServers(t *testing.T) {
	r := NewRedis(t, RedisOptions{})
	z := SharedZooKeeper(t)
	e := SharedEtcd(t)
	t.Setenv(EnvRedis, r.Addr()+" , "+r.Addr())
	t.Setenv(EnvZooKeeper, z.Addr())
	t.Setenv(EnvEtcd, e.Addr())
	ctx := locktest.Within(t, 30*time.Second)

	given := NewRedis(t, RedisOptions{})
	all := []*Server{given.Server, NewZooKeeper(t, ZooKeeperOptions{}).Server, NewEtcd(t, EtcdOptions{}).Server}
	for i, want := range []string{r.Addr(), z.Addr(), e.Addr()} {
		s := all[i]
		if s.Addr() != want || !s.Given() || s.PID() != 0 {
			t.Errorf("%s: %s instead of the given %s", s.kind, s.Addr(), want)
		}
		if _, err := s.Requests(ctx); err != nil {
			t.Errorf("%s: Requests: %v", s.kind, err)
		}
		for what, err := range map[string]error{
			"Kill":         s.Kill(),
			"Stop":         s.Stop(),
			"Pause":        s.Pause(),
			"Resume":       s.Resume(),
			"Restart":      s.Restart(ctx),
			"RestartEmpty": s.RestartEmpty(ctx),
		} {
			if !errors.Is(err, ErrNotOurs) {
				t.Errorf("%s: %s: %v", s.kind, what, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: Close: %v", s.kind, err)
		}
	}
	if set := NewRedisSet(t, 2, RedisOptions{}); !set[0].Given() || !set[1].Given() {
		t.Error("two were given and not used")
	}
	if set := NewRedisSet(t, 3, RedisOptions{}); set[0].Given() {
		t.Error("two were given where three are needed")
	}
	if NewRedis(t, RedisOptions{Password: "x"}).Given() {
		t.Error("a plain server was used where one with a password was asked for")
	}
	mustDo(t, r, "PING")
}

func TestMissingPrograms(t *testing.T) {
	for _, env := range []string{EnvRedis, EnvZooKeeper, EnvEtcd} {
		t.Setenv(env, "")
	}
	t.Setenv("PATH", t.TempDir())
	ctx := context.Background()
	_, noRedis := StartRedis(ctx, RedisOptions{})
	_, noZooKeeper := StartZooKeeper(ctx, ZooKeeperOptions{})
	_, noEtcd := StartEtcd(ctx, EtcdOptions{Old: true})
	for _, err := range []error{noRedis, noZooKeeper, noEtcd} {
		if !errors.Is(err, ErrMissing) {
			t.Errorf("without the program: %v", err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, `run "make setup"`) || strings.Contains(text, "\n") {
			t.Errorf("this does not say in one line what to run: %q", text)
		}
	}
	if testing.Short() {
		return
	}
	if said, _ := mustfail.Run(t, func(t testing.TB) { NewRedis(t, RedisOptions{}) }); said != noRedis.Error() {
		t.Errorf("a test without the program says %q", said)
	}
}
