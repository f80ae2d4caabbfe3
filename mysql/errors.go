package mysql

import (
	"crypto/tls"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

// Numbers of errors that the server answers, by what follows from them.
var (
	// absent: no such schema, table or procedure; it may be found only after the commit.
	absent = []uint16{1049, 1146, 1305}

	// conflicts are over: a deadlock, a wait for a row that took too long, a row that was changed meanwhile. The
	// transaction was rolled back, or is when its connection is closed.
	conflicts = []uint16{1213, 1205, 1020}

	// transient: the server will answer otherwise when it has started, has been promoted, or has ended what it does.
	transient = []uint16{
		1040, 1041, 1043, 1047, 1053, 1158, 1159, 1160, 1161, 1180, 1203, 1226, 1317, 1927, 1969, 3024, // connections, shutdown, kill
		1290, 1792, 1836, // read only
		1021, 1030, 1114, // storage
	}

	// refusals are those that no repetition mends: login, schema, permission, the user with whose rights procedures
	// run, the format of the binary log.
	refusals = []uint16{1044, 1045, 1049, 1142, 1143, 1227, 1251, 1370, 1449, 1524, 1665, 1698, 1820, 1862, 3118, 3159, 3879, 3955, 4151}

	// denials name the user: a login or a permission that is refused, limits of a user.
	denials = []uint16{1044, 1045, 1142, 1143, 1203, 1226, 1370, 1698, 3118, 3879, 3955}

	// interruptions end one statement: KILL QUERY, and limits on its time.
	interruptions = []uint16{1317, 1969, 3024}

	// before: the statement has had no effect, and will have none.
	before = slices.Concat(conflicts, refusals, []uint16{1040, 1203, 1226, 1290, 1792, 1836, 1644})
)

// code returns the number of the error that the server answered, 0 if err is none.
func code(err error) uint16 {
	var answer *mysql.MySQLError
	if errors.As(err, &answer) {
		return answer.Number
	}
	return 0
}

func among(codes []uint16, err error) bool { return slices.Contains(codes, code(err)) }

// undefined reports whether err says that the schema, or a procedure in it, is not there.
func undefined(err error) bool { return among(absent, err) }

// broken reports whether err says that the connection was found broken.
func broken(err error) bool {
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, io.EOF)
}

// Transient reports whether it makes sense to wait until err goes away by itself.
func (*server) Transient(err error) bool {
	if code(err) != 0 {
		return among(transient, err) || among(conflicts, err)
	}
	return !errors.Is(err, driver.ErrRefused) && !closed(err)
}

// closed reports whether err says that the pool was closed. database/sql does not export this error.
func closed(err error) bool { return strings.Contains(err.Error(), "sql: database is closed") }

// ineffective reports whether err says that the statement that was sent has had no effect and will have none.
func ineffective(err error) bool {
	return among(before, err) || errors.Is(err, sqldriver.ErrBadConn)
}

// explain wraps an error that no repetition mends in [driver.ErrRefused]. Its text does not name the user.
func explain(err error) error {
	var (
		answer       *mysql.MySQLError
		verification *tls.CertificateVerificationError
		header       tls.RecordHeaderError
		address      *net.AddrError
	)
	if among(denials, err) && errors.As(err, &answer) {
		err = sqlqueue.Reword(err, strings.ReplaceAll(err.Error(), answer.Error(), fmt.Sprintf("the server denies access (%d)", answer.Number)))
	}
	switch {
	case errors.Is(err, driver.ErrRefused):
		return err
	case among(refusals, err), errors.As(err, &verification), errors.As(err, &header), errors.As(err, &address),
		errors.Is(err, mysql.ErrNoTLS), errors.Is(err, mysql.ErrOldPassword), errors.Is(err, mysql.ErrNativePassword),
		errors.Is(err, mysql.ErrCleartextPassword), errors.Is(err, mysql.ErrUnknownPlugin), errors.Is(err, mysql.ErrOldProtocol):
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return err
}
