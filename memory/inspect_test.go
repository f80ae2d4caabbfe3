package memory

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := over(&Link{store: NewStore()})
		start := time.Now()
		a, b := claim("x", 2, 3), exclusive()
		g := <-take(t, d, a)
		time.Sleep(time.Second)
		take(t, d, b)
		time.Sleep(time.Second)
		found, err := d.Look(t.Context(), "x")
		must(t, err)
		for i := range found {
			found[i].Since = found[i].Since.Round(0)
		}
		start = start.Round(0)
		if want := []driver.Position{
			{Name: "x", ID: a.ID, Owner: "worker 7", Weight: 2, Limit: 3, Held: true, Token: g.Token, Since: start, Left: 8 * time.Second},
			{Name: "x", ID: b.ID, Owner: "worker 7", Weight: driver.All, Limit: driver.All, Since: start.Add(time.Second)},
		}; !slices.Equal(found, want) {
			t.Errorf("%+v\nwant %+v", found, want)
		}
		if found, err := d.Look(t.Context(), "y"); len(found) != 0 || err != nil {
			t.Errorf("%v, %v", found, err)
		}
	})
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := &Link{store: NewStore()}
		d := over(link)
		for _, name := range []string{"a/1", "a/2", "b", "a"} {
			take(t, d, claim(name, 1, 1))
			take(t, d, claim(name, 1, 1))
		}
		names := func(ctx context.Context, prefix string) (found []string, last error) {
			for name, err := range d.Names(ctx, prefix) {
				if last = err; err == nil {
					found = append(found, name)
				}
			}
			slices.Sort(found)
			return found, last
		}
		for prefix, want := range map[string][]string{"a/": {"a/1", "a/2"}, "": {"a", "a/1", "a/2", "b"}, "c": nil} {
			if found, err := names(t.Context(), prefix); !slices.Equal(found, want) || err != nil {
				t.Errorf("%q: %q, %v", prefix, found, err)
			}
		}
		for range d.Names(t.Context(), "") {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if found, err := names(ctx, ""); found != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("ctx ended: %q, %v", found, err)
		}
		away := errors.New("away")
		link.Cut(away)
		if found, err := names(t.Context(), ""); found != nil || !errors.Is(err, away) {
			t.Errorf("link cut: %q, %v", found, err)
		}
		link.Mute()
		if found, err := names(t.Context(), ""); found != nil || !errors.Is(err, errNoAnswer) {
			t.Errorf("link muted: %q, %v", found, err)
		}
	})
}

func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		link := &Link{store: s}
		d, operator := over(link), over(&Link{store: s})
		lost := 0
		a, b, c := exclusive(), exclusive(), exclusive()
		a.Lost = func(error) { lost++ }
		<-take(t, d, a)
		gotB, gotC := take(t, d, b), take(t, d, c)

		must(t, operator.Evict(t.Context(), "x", b.ID)) // it queues anew, behind c
		synctest.Wait()
		if q := look(s, "x"); len(q) != 3 || q[1].ID != c.ID || q[2].ID != b.ID {
			t.Errorf("%+v", q)
		}
		gone(t, operator.Evict(t.Context(), "y", a.ID))
		must(t, operator.Evict(t.Context(), "x", a.ID))
		<-gotC
		gone(t, operator.Evict(t.Context(), "x", a.ID))
		gone(t, d.Release(t.Context(), a))
		if lost != 1 {
			t.Errorf("told %d times of the loss", lost)
		}
		must(t, d.Release(t.Context(), c))
		<-gotB
	})
}

// Who cannot be reached when its claim is evicted is told as soon as it can be.
func TestEvictOverBrokenLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		operator := over(&Link{store: s})
		for what, breakIt := range map[string]func(*Link){"frozen": (*Link).Freeze, "muted": (*Link).Mute} {
			link := &Link{store: s}
			d := over(link)
			lost := 0
			a, b := exclusive(), exclusive()
			a.Lost = func(error) { lost++ }
			<-take(t, d, a)
			got := take(t, d, b)
			breakIt(link)
			must(t, operator.Evict(t.Context(), "x", b.ID))
			must(t, operator.Evict(t.Context(), "x", a.ID))
			synctest.Wait()
			if lost != 0 || len(got) != 0 {
				t.Errorf("%s: told over a broken link", what)
			}
			link.Heal()
			if <-got; lost != 1 {
				t.Errorf("%s: told %d times of the loss", what, lost)
			}
			must(t, d.Release(t.Context(), b))
		}
	})
}
