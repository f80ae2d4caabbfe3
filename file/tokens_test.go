package file

import (
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/locktest"
)

var must = locktest.Must

// Tokens that many take at the same time, spare ones included, are each given once, and rise for each of them.
func TestTokensAtOnce(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var all []int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			k := &tokens{dir: dir}
			last := int64(0)
			for range 300 {
				token, spare, err := k.take(int32(i))
				if err != nil {
					t.Error(err)
					return
				}
				if token <= last || spare < 0 || spare > int64(i) {
					t.Errorf("token %d after %d, %d spare", token, last, spare)
				}
				last = token + spare
				mu.Lock()
				for n := range spare + 1 {
					all = append(all, token+n)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != len(all) {
		t.Errorf("%d tokens, %d of them different", len(all), n)
	}
	if names, err := readNames(dir); err != nil || len(names) != 1 {
		t.Errorf("left: %q, %v", names, err)
	}
}

// Tokens rise when the clock of the machine was set back, and also when the file was removed.
func TestTokensRise(t *testing.T) {
	k := &tokens{dir: t.TempDir()}
	take := func() int64 {
		t.Helper()
		token, _, err := k.take(0)
		must(t, err)
		return token
	}
	first := take()
	must(t, os.RemoveAll(k.dir))
	second := take()
	if second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	ahead := time.Now().Add(time.Hour).UnixMicro()
	must(t, os.Rename(k.path(second), k.path(ahead)))
	if token := take(); token != ahead+1 {
		t.Errorf("token %d after %d", token, ahead)
	}
	if _, spare, err := k.take(100); spare != 0 || err != nil {
		t.Errorf("%d spare tokens, further ahead of the time: %v", spare, err)
	}
	// Two have made the file at once.
	must(t, os.WriteFile(k.path(0), nil, 0o600))
	k = &tokens{dir: k.dir}
	if token := take(); token != ahead+3 {
		t.Errorf("token %d, want %d", token, ahead+3)
	}
	if names, err := readNames(k.dir); err != nil || len(names) != 1 {
		t.Errorf("left: %q, %v", names, err)
	}
}
