package site

import "context"

// storedInMariaDB counts the rows of all tables that locks are kept in.
func (s *Site) storedInMariaDB(ctx context.Context) (n int64, err error) {
	err = s.mariaDB.QueryRowContext(ctx, "select count(*) from information_schema.tables where table_schema = 'locker'").Scan(&n)
	if err == nil && n > 0 {
		err = s.mariaDB.QueryRowContext(ctx,
			"select (select count(*) from locker.claim) + (select count(*) from locker.given_up) + (select count(*) from locker.slot)").Scan(&n)
	}
	return n, err
}
