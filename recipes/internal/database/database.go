// Package database opens the databases with which the SQL of the recipes is tested.
package database

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/seed80cd6120/locker/internal/servers"
)

var used atomic.Int32

// Each runs fn as a subtest for SQLite and for PostgreSQL, with a database in which schema has been run.
func Each(t *testing.T, schema string, fn func(t *testing.T, db *sql.DB)) {
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "db")
		run(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(60000)&_txlock=immediate", schema, fn)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		name := fmt.Sprintf("test%d", used.Add(1))
		run(t, "pgx", servers.SharedPostgres(t).URL()+"&search_path="+name, "CREATE SCHEMA "+name+";"+schema, fn)
	})
}

func run(t *testing.T, driver, source, schema string, fn func(t *testing.T, db *sql.DB)) {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(schema); err != nil {
		t.Fatal(err)
	}
	fn(t, db)
}
