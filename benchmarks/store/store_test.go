package store

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/internal/locktest"
)

var must = locktest.Must

func TestSales(t *testing.T) {
	ctx := t.Context()
	s, err := Open(filepath.Join(t.TempDir(), "shop.sqlite"))
	must(t, err)
	defer s.Close()
	must(t, s.Create(ctx, 2, 5))
	if v, err := s.Version(ctx); err != nil || !strings.HasPrefix(v, "SQLite 3.") {
		t.Errorf("version %q, %v", v, err)
	}
	sell := func(left int, token int64, check, want bool) {
		t.Helper()
		sold, err := s.Sell(ctx, 1, left, token, check)
		if err != nil || sold != want {
			t.Errorf("sold: %v, %v; want %v", sold, err, want)
		}
	}
	sell(4, 10, true, true)
	sell(3, 10, true, true) // the same holder goes on
	must(t, s.Seen(ctx, 1, 12))
	sell(2, 11, true, false) // a later one has been seen
	sell(2, 11, false, true) // nobody looks
	must(t, s.Seen(ctx, 1, 3))
	sell(1, 11, true, false) // a smaller one does not take its place
	sell(1, 12, true, true)
	if n, err := s.Stock(ctx, 1); err != nil || n != 1 {
		t.Errorf("stock %d, %v", n, err)
	}
	if n, err := s.Stock(ctx, 0); err != nil || n != 5 {
		t.Errorf("stock of the other %d, %v", n, err)
	}
	if n, err := s.Sales(ctx); err != nil || n != 4 {
		t.Errorf("sales %d, %v", n, err)
	}
}
