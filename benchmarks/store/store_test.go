package store

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestSource(t *testing.T) {
	for _, c := range []struct{ address, driver, dsn string }{
		{"postgres://u:p@h:5432/d", "pgx", "postgres://u:p@h:5432/d"},
		{"mysql://u:p@h:3306/d", "mysql", "u:p@tcp(h:3306)/d?clientFoundRows=true"},
		{"/tmp/x.sqlite", "sqlite", "file:/tmp/x.sqlite?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(10000)"},
	} {
		driver, dsn, err := source(c.address)
		if err != nil || driver != c.driver || dsn != c.dsn {
			t.Errorf("%s: %s %s %v", c.address, driver, dsn, err)
		}
	}
	if _, _, err := source("oracle://x"); err == nil {
		t.Error("an unknown database was accepted")
	}
}

func TestBind(t *testing.T) {
	if got := (&Store{driver: "pgx"}).bind("a = ? AND b = ?"); got != "a = $1 AND b = $2" {
		t.Error(got)
	}
	if got := (&Store{driver: "mysql"}).bind("a = ?"); got != "a = ?" {
		t.Error(got)
	}
}

func TestSales(t *testing.T) {
	ctx := t.Context()
	s, err := Open(filepath.Join(t.TempDir(), "shop.sqlite"), "test")
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
	if err := s.Drop(ctx); err != nil {
		t.Error(err)
	}
}
