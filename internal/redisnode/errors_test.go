package redisnode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
)

// answer is an error of the server.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

var _ goredis.Error = answer("")

// What an error says: whether it may go away, whether the request had no effect, whether it will never be
// permitted.
func TestErrors(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, row := range []struct {
		err                             error
		transient, ineffective, refused bool
	}{
		{answer("LOADING Redis is loading"), true, true, false},
		{answer("READONLY You can't write"), true, true, false},
		{answer("ERR max number of clients reached"), true, true, false},
		{answer("ERR Error running script (call to f_1): @user_script:1: -NOREPLICAS Not enough"), true, false, false},
		{answer("NOREPLICAS Not enough good replicas script: 1, on @user_script:3."), true, false, false},
		{answer("NOPERM this user"), false, true, true},
		{answer("ERR The user executing the script can't run this command or subcommand script: 1, on @user_script:1."), false, false, true},
		{answer("ERR Protocol error: unauthenticated multibulk length"), false, true, true},
		{answer("WRONGTYPE Operation"), false, true, true},
		{io.EOF, true, false, false},
		{dial, true, true, false},
		{goredis.ErrClosed, false, true, false},
		{goredis.ErrPoolTimeout, true, true, false},
		{&net.OpError{Op: "dial", Err: context.DeadlineExceeded}, true, true, false},
		{context.DeadlineExceeded, true, false, false},
		{context.Canceled, false, false, false},
		{&tls.CertificateVerificationError{Err: errors.New("x")}, false, true, true},
		{x509.UnknownAuthorityError{}, false, true, true},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, false, true, true},
		{x509.CertificateInvalidError{Cert: &x509.Certificate{}}, false, true, true},
		{tls.RecordHeaderError{Msg: "x"}, false, true, true},
		{tls.AlertError(42), false, true, true},
	} {
		err := fmt.Errorf("wrapped: %w", row.err)
		if Transient(err) != row.transient || ineffective(err) != row.ineffective ||
			errors.Is(explain(err), driver.ErrRefused) != row.refused || !errors.Is(explain(err), row.err) {
			t.Errorf("%v: transient %v, ineffective %v, refused: %v", err, Transient(err), ineffective(err), explain(err))
		}
	}
}
