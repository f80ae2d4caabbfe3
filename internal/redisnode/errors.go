package redisnode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
)

// passes says of the first words of a server's errors whether it will answer otherwise when it has started,
// has been failed over to, or has ended what it does. Where it says no, no repetition mends the error.
var passes = map[string]bool{
	"LOADING": true, "READONLY": true, "MASTERDOWN": true, "CLUSTERDOWN": true, "TRYAGAIN": true, "MOVED": true,
	"ASK": true, "BUSY": true, "NOREPLICAS": true, "NOSCRIPT": true,
	"NOPERM": false, "NOAUTH": false, "WRONGPASS": false, "WRONGTYPE": false,
}

// word returns the first word of the error that the server answered, "" if err is none. Servers before version
// 7 put the errors of a script's commands inside another.
func word(err error) string {
	answer, ok := errors.AsType[goredis.Error](err)
	if !ok {
		return ""
	}
	text := answer.Error()
	if _, inner, ok := strings.Cut(text, ": -"); ok && strings.HasPrefix(text, "ERR ") {
		text = inner
	}
	first, rest, _ := strings.Cut(text, " ")
	switch {
	case first == "ERR" && strings.HasPrefix(rest, "max number of clients"):
		return "BUSY"
	case strings.Contains(text, "a non local key in a cluster node"):
		return "TRYAGAIN" // the slot moves just now
	case strings.Contains(text, "The user executing the script can't"):
		return "NOPERM"
	case strings.Contains(text, "unauthenticated multibulk"):
		return "NOAUTH" // as the server puts it when the request is long
	}
	return first
}

// Transient reports whether it makes sense to wait until err goes away by itself. That the time was over makes sense to
// wait for, too: whoever has a context of its own looks at that first.
func Transient(err error) bool {
	if w := word(err); w != "" {
		return passes[w]
	}
	return !errors.Is(err, goredis.ErrClosed) && !errors.Is(err, context.Canceled) && !untrusted(err)
}

// ineffective reports whether err says that the request has had no effect and will have none: the server
// said so, and not in the middle of a script that may have written something, or it was never sent.
func ineffective(err error) bool {
	if word(err) != "" {
		return !strings.Contains(err.Error(), "user_script")
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial" || untrusted(err) || errors.Is(err, goredis.ErrPoolTimeout) ||
		errors.Is(err, goredis.ErrPoolExhausted) || errors.Is(err, goredis.ErrClosed)
}

// explain wraps an error that no repetition mends in [driver.ErrRefused].
func explain(err error) error {
	w := word(err)
	passes, known := passes[w]
	if (!known || passes) && !untrusted(err) {
		return err
	}
	if w == "NOAUTH" && !strings.HasPrefix(err.Error(), w) {
		err = fmt.Errorf("NOAUTH, no password was given: %w", err)
	}
	return fmt.Errorf("%w: %w", driver.ErrRefused, err)
}

// untrusted reports whether TLS refused to go on.
func untrusted(err error) bool {
	return is[*tls.CertificateVerificationError](err) || is[tls.RecordHeaderError](err) || is[tls.AlertError](err) ||
		is[x509.UnknownAuthorityError](err) || is[x509.HostnameError](err) || is[x509.CertificateInvalidError](err)
}

// is reports whether an error of this type is in err.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// broken reports whether the connection was found closed, as happens to pooled connections whose server was
// restarted.
func broken(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return !TimedOut(err) && (ok && op.Op != "dial" || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}

// TimedOut reports whether err says that there was no answer in time.
func TimedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
