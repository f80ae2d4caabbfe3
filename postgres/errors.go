package postgres

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

// transient are SQLSTATEs, or their classes, of a server that will answer otherwise when it has
// started, has been promoted, or has ended what it does.
var transient = []string{
	"08", "53", "57", "58", // connection, resources, operator, system
	"25006", "0A000", // a standby: read only, and unlogged tables cannot be read
	"40001", "40P01", "55P03", // serialisation, deadlock, lock timeout
}

// conflicts are over when they are told: the transaction was rolled back.
var conflicts = []string{"40001", "40P01"} // serialisation, deadlock

// refusals are those that no repetition mends.
var refusals = []string{"28", "3D000", "42", "3F000", "55000"} // login, database, permission and definition, isolation

func among(codes []string, c string) bool {
	return len(c) == 5 && (slices.Contains(codes, c) || slices.Contains(codes, c[:2]))
}

// Transient reports whether it makes sense to wait until err goes away by itself.
func (*server) Transient(err error) bool {
	if c := code(err); c != "" {
		return among(transient, c)
	}
	return !errors.Is(err, driver.ErrRefused) && !errors.Is(err, puddle.ErrClosedPool)
}

// ineffective reports whether err says that the statement has had no effect and will have none: the
// server said so, or it was never sent. An error that ends the session may come after the commit.
func ineffective(err error) bool {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.SeverityUnlocalized == "ERROR" && answer.Code != "40003"
	}
	return pgconn.SafeToRetry(err)
}

// withoutUser returns the error of a try to connect with a text that does not name the user, as those of the client library and of
// the server do.
func withoutUser(err error) error {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return err
	}
	cause := connect.Unwrap()
	each := []error{cause}
	if hosts, ok := cause.(interface{ Unwrap() []error }); ok {
		each = hosts.Unwrap()
	}
	text := cause.Error()
	for _, one := range each {
		var answer *pgconn.PgError
		if errors.As(one, &answer) && (among([]string{"28"}, answer.Code) || strings.Contains(answer.Message, connect.Config.User)) {
			text = strings.ReplaceAll(text, answer.Error(), fmt.Sprintf("the server refuses the connection (%s)", answer.Code))
		}
	}
	return sqlqueue.Reword(err, text)
}

// explain wraps an error that no repetition mends in [driver.ErrRefused].
func explain(err error) error {
	var (
		verification *tls.CertificateVerificationError
		header       tls.RecordHeaderError
	)
	if errors.Is(err, driver.ErrRefused) {
		return err
	}
	if among(refusals, code(err)) || errors.As(err, &verification) || errors.As(err, &header) {
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return err
}
