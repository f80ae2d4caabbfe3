package site

import "context"

// questions returns how many statements clients have sent since the server was started, without those by which
// this is asked.
func (s *Site) questions(ctx context.Context) (n int64, err error) {
	var name string
	s.asked++ // the statement counts itself
	err = s.mariaDB.QueryRowContext(ctx, "show global status like 'Questions'").Scan(&name, &n)
	return n - s.asked, err
}

// storedInMariaDB counts the rows of all tables that locks are kept in.
func (s *Site) storedInMariaDB(ctx context.Context) (n int64, err error) {
	err = s.mariaDB.QueryRowContext(ctx, "select count(*) from information_schema.tables where table_schema = 'locker'").Scan(&n)
	if err == nil && n > 0 {
		err = s.mariaDB.QueryRowContext(ctx,
			"select (select count(*) from locker.claim) + (select count(*) from locker.given_up) + (select count(*) from locker.slot)").Scan(&n)
	}
	return n, err
}
