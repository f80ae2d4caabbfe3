package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
)

// What a Redis answers that does not do what it is asked for.

// refusal is one such answer.
type refusal struct {
	word string
	// not are the setups that would fail over, or fall apart.
	not   []string
	begin func(x *Exam) (end func())
}

var refusalKinds = []refusal{
	{"NOREPLICAS", nil, func(x *Exam) func() {
		x.config("min-replicas-to-write", "5")
		return func() { x.config("min-replicas-to-write", "0") }
	}},
	{"MISCONF", nil, misconf},
	{"READONLY", []string{"redis-sentinel", "redis-cluster"}, func(x *Exam) func() {
		all := x.masters()
		x.all("REPLICAOF", "127.0.0.1", "1") // nobody there
		return func() {
			for _, r := range all {
				x.redis(r, "REPLICAOF", "NO", "ONE")
			}
		}
	}},
	{"BUSY", []string{"redis-sentinel", "redis-cluster"}, busy},
	{"LOADING", []string{"redis-sentinel", "redis-cluster"}, loading},
}

// The servers answer, but not what was asked for.
func refusals(x *Exam) {
	x.Access.TTL = time.Minute // no lock ends by itself while the servers refuse
	if x.Backend.Family == redlockFamily {
		x.patience = x.Access.TTL // a node that refuses for longer than the others forgets after its TTL what was released
	}
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(a, b)
	for _, r := range refusalKinds {
		if slices.Contains(r.not, x.Backend.Name) {
			continue
		}
		held, other := x.Acquired(a, x.Lock(), 10*time.Second), x.Acquired(a, x.Lock(), 10*time.Second)
		end := sync.OnceFunc(r.begin(x))
		defer end() // also if the row begins again
		x.Explains(r.word, a.client, false, r.word)
		x.keepsReleasing(r.word, held, r.word)
		end()
		x.Warm(a)
		x.AtOnce(b, held.name, undone)
		x.StillHolds(other, "who holds another lock")
		x.Released(other)
		x.AtOnce(b, other.name, undone)
	}
}

// undone is how long what a server has refused to undo may stay once it does so again: the next try comes within a second.
const undone = 10 * time.Second

// keepsReleasing asserts that a release is refused, by the end of its ctx, with an error that names one of the words. The lock's
// release goes on in the background.
func (x *Exam) keepsReleasing(what string, h *Holding, words ...string) {
	x.Helper()
	start, _, err := x.patiently("release", words, h.Release)
	x.truthful(what+": release", start, err, words)
}

// truthful asserts that a call, which began then, was refused with an error of ours that names one of the words, and that says
// nothing of the lock.
func (x *Exam) truthful(call string, began time.Time, err error, words []string) {
	x.Helper()
	if err == nil {
		x.Errorf("%s succeeded", call)
		return
	}
	if !named(err, words) {
		x.unlessLate(began, "%s: %v, want an error that names %q", call, err, words)
	}
	var known *locker.Error
	if !errors.As(err, &known) || errors.Is(err, locker.ErrNotAcquired) || errors.Is(err, locker.ErrLost) {
		x.Errorf("%s: %v is not about what happened", call, err)
	}
}

// Explains asserts that both ways to take a lock are refused, by the end of their ctx, with an error that names one
// of the words. With hopeless it has to be told at once: no waiting mends it.
func (x *Exam) Explains(what string, c conformance.Client, hopeless bool, words ...string) {
	x.Helper()
	x.explains(what, c, x.Lock, hopeless, words...)
}

// explains is Explains for locks of these names.
func (x *Exam) explains(what string, c conformance.Client, name func() string, hopeless bool, words ...string) {
	x.Helper()
	for op, take := range ways(c) {
		var h conformance.Holding
		start, within, err := x.patiently(op, words, func(ctx context.Context) (err error) { h, err = take(ctx, name()); return err })
		if hopeless {
			x.InTime(what+", which no waiting mends: "+op, start, within*3/4)
		}
		x.truthful(what+": "+op, start, err, words)
		if err == nil {
			_ = h.Release(x.Ctx)
		}
	}
}

// patience is the time for an answer, and mostPatience that on a machine on which a client did not get one in the first.
const patience, mostPatience = 2 * time.Second, 16 * time.Second

// patiently makes a call, and asserts that it returned by the end of its ctx; again with twice the time while the ctx ends before
// there is an error that names one of the words. It returns when the last call began, its time, and its error.
func (x *Exam) patiently(what string, words []string, call func(context.Context) error) (start time.Time, d time.Duration, err error) {
	x.Helper()
	for d = patience; ; d *= 2 {
		start = time.Now()
		err = call(x.Within(d))
		if !errors.Is(err, context.DeadlineExceeded) || named(err, words) || d >= mostPatience {
			x.Soon(what, start, d)
			return start, d, err
		}
	}
}

// named reports whether an error names one of the words, if there are any.
func named(err error, words []string) bool {
	return len(words) == 0 || slices.ContainsFunc(words, func(word string) bool { return strings.Contains(err.Error(), word) })
}

// misconf: the servers cannot write to their disk. A directory stands where the file has
// to go.
func misconf(x *Exam) func() {
	x.config("save", "3600 1000000")
	var inTheWay []string
	for _, r := range x.masters() {
		dir := filepath.Join(fmt.Sprint(x.redis(r, "CONFIG", "GET", "dir").([]any)[1]), "dump.rdb")
		_ = os.Remove(dir) // a replica's master has one
		x.Must(os.MkdirAll(filepath.Join(dir, "x"), 0o700))
		inTheWay = append(inTheWay, dir)
		x.Until("saving has failed", 20*time.Second, func() bool {
			_, _ = r.Do(x.Within(5*time.Second), "BGSAVE")
			v, err := r.Do(x.Within(5*time.Second), "INFO", "persistence")
			text, _ := v.(string)
			return err == nil && strings.Contains(text, "rdb_last_bgsave_status:err")
		})
	}
	return func() {
		x.config("save", "")
		for _, dir := range inTheWay {
			x.Must(os.RemoveAll(dir))
		}
	}
}

// busy: the servers run a script that does not end.
func busy(x *Exam) func() {
	x.config("busy-reply-threshold", "10")
	var scripts sync.WaitGroup
	for _, r := range x.masters() {
		scripts.Go(func() {
			c := goredis.NewClient(&goredis.Options{Addr: r.Addr(), ReadTimeout: time.Minute, MaxRetries: -1, MaintNotificationsConfig: noNotifications()})
			defer c.Close()
			_ = c.Eval(x.Ctx, "while true do end", nil).Err()
		})
		x.Until("the server is busy", 10*time.Second, func() bool {
			_, err := r.Do(x.Within(time.Second), "GET", "x")
			return err != nil && strings.Contains(err.Error(), "BUSY")
		})
	}
	all := x.masters
	if x.Replicated != nil { // a busy server does not tell its role
		all = func() []*servers.Redis { return x.Redis[:1] }
	}
	return func() {
		for _, r := range all() {
			x.redis(r, "SCRIPT", "KILL")
		}
		scripts.Wait()
	}
}

// loading: the servers have been restarted and take their time to read their data, a minute.
func loading(x *Exam) func() {
	all := x.masters()
	for _, r := range all {
		x.redis(r, "EVAL", "for i = 1, 60000 do redis.call('SET', 'data' .. i, i) end", "0")
		x.redis(r, "SAVE")
		x.Must(r.Kill())
		r.SetArgs("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
		x.Must(r.RestartNoWait(x.Within(time.Minute)))
	}
	return func() {
		for _, r := range all {
			x.redis(r, "CONFIG", "SET", "key-load-delay", "0")
		}
		for _, r := range all {
			x.Must(r.WaitReady(x.Within(time.Minute)))
		}
	}
}
