package redlock

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// QuorumError says that no majority of the nodes said yes, and what each of them
// said instead. errors.Is and errors.As look into the errors of all nodes.
type QuorumError struct {
	// Nodes is how many there are, Yes how many said yes and No how many that
	// another has the lock. The others gave no usable answer.
	Nodes, Yes, No int
	// Errs are the errors of the others; each names its node.
	Errs []error
}

// Error puts everything into one line.
func (e *QuorumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d nodes said yes, %d are needed", e.Yes, e.Nodes, e.Nodes/2+1)
	if e.No > 0 {
		fmt.Fprintf(&b, "; %d said that it is another's", e.No)
	}
	for _, err := range e.Errs {
		b.WriteString("; ")
		b.WriteString(err.Error())
	}
	return b.String()
}

// Unwrap gives errors.Is and errors.As the errors of the nodes.
func (e *QuorumError) Unwrap() []error { return e.Errs }

// refusals are how a server's errors begin that say that nothing was done.
// Scripts write nothing before the command that these errors stop.
var refusals = []string{
	"NOAUTH", "WRONGPASS", "NOPERM", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN",
	"READONLY", "OOM", "MISCONF", "NOREPLICAS", "NOSCRIPT",
}

// refused: the server certainly did not carry the request out and will not do so
// later.
func refused(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || untrusted(err) || unauthenticated(err) || errors.Is(err, goredis.ErrClosed) {
		return true
	}
	return hasPrefix(err, refusals)
}

// hopeless: no waiting will mend it.
func hopeless(err error) bool {
	return untrusted(err) || unauthenticated(err) || errors.Is(err, goredis.ErrClosed) ||
		hasPrefix(err, []string{"NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "unknown command", "AUTH"})
}

// unauthenticated: the server wants a password and was given none. It says NOAUTH to
// short commands. To longer ones, as all of ours are, it says that they break the protocol,
// and hangs up.
func unauthenticated(err error) bool {
	return hasPrefix(err, []string{"Protocol error: unauthenticated"})
}

// errNoPassword is what that is called here.
func errNoPassword(err error) error { return fmt.Errorf("NOAUTH, no password was given: %w", err) }

func hasPrefix(err error, prefixes []string) bool {
	for _, p := range prefixes {
		if goredis.HasErrorPrefix(err, p) {
			return true
		}
	}
	return false
}

// untrusted: TLS could not be agreed on.
func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &authority)
}
