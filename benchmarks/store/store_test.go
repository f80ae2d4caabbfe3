package store

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestSales(t *testing.T) {
	ctx := t.Context()
	s, err := Open(filepath.Join(t.TempDir(), "shop.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Create(ctx, 2, 5); err != nil {
		t.Fatal(err)
	}
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
	if err := s.Seen(ctx, 1, 12); err != nil {
		t.Fatal(err)
	}
	sell(2, 11, true, false) // a later one has been seen
	sell(2, 11, false, true) // nobody looks
	if err := s.Seen(ctx, 1, 3); err != nil {
		t.Fatal(err)
	}
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
