package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// TestSilenceIsShort: a request that is lost without a word, as when a leader dies that
// it was on its way to, is soon given up where answers come fast as a rule.
func TestSilenceIsShort(t *testing.T) {
	t.Parallel()
	b, _, err := open(dial(t, servers.SharedEtcd(t).Addr()), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if err := b.Release(t.Context(), take(t, b, t.Name())); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	err = b.call(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if took := time.Since(begun); !errors.Is(err, errSilence) || took > 1500*time.Millisecond {
		t.Errorf("%v after %v", err, took)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSlowServer: answers that suddenly take longer than any before come through.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	p := front(t, servers.SharedEtcd(t).Addr())
	l := newLocker(t, dial(t, p.Addr()))
	for range 30 {
		cycle(t, l, "warm", nil)
	}
	p.Delay(0, time.Second)
	cycle(t, l, t.Name(), nil)
}

func TestPatience(t *testing.T) {
	p := patience{least: 500 * time.Millisecond, most: 2 * time.Second}
	want := func(what string, d time.Duration) {
		t.Helper()
		if got := p.now(); got != d {
			t.Errorf("%s: %v, want %v", what, got, d)
		}
	}
	p.tried(time.Now())
	want("nothing known", p.most)
	p.answered(time.Millisecond)
	want("fast answers", p.least)
	begun := time.Now()
	for range 5 { // of one moment
		p.tried(begun)
	}
	want("a silence", 750*time.Millisecond)
	for range 10 {
		p.tried(time.Now())
	}
	want("silence upon silence", p.most)
	for range 100 {
		p.answered(time.Millisecond)
	}
	if got := p.now(); got > p.least+time.Millisecond {
		t.Errorf("fast answers again: %v", got)
	}
	p.answered(70 * time.Millisecond)
	want("a slow one", 1400*time.Millisecond)
	p.answered(time.Minute)
	want("a very slow one", p.most)
}

// TestUnderway: a request ends soon after its caller's context, or its patience, has ended;
// what was given up is not used again, and nobody else notices.
func TestUnderway(t *testing.T) {
	t.Parallel()
	type key struct{}
	var u underway
	later := time.Now().Add(time.Minute)
	other, otherContext := u.begin(t.Context(), later)
	for _, how := range []string{"caller", "patience"} {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, how))
		defer cancel()
		until := later
		if how == "patience" {
			until = time.Now().Add(50 * time.Millisecond)
		}
		r, inner := u.begin(ctx, until)
		if inner.Value(key{}) != how {
			t.Errorf("%s: the values of the caller's context are not seen", how)
		}
		child, end := context.WithCancel(inner)
		defer end()
		if how == "caller" {
			cancel()
		}
		select {
		case <-child.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the request goes on", how)
		}
		if !u.end(r) {
			t.Errorf("%s: not said to be given up", how)
		}
		again, inner := u.begin(t.Context(), later)
		if again == r || inner.Err() != nil {
			t.Errorf("%s: what was given up is used again", how)
		}
		if u.end(again) {
			t.Errorf("%s: the next request is given up, too", how)
		}
	}
	if otherContext.Err() != nil || u.end(other) {
		t.Error("a request beside them is given up")
	}
	if len(u.all) > 0 {
		t.Error("a request is left")
	}
}
