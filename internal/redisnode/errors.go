package redisnode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
)

// passes says of errors of a server, by a text in them, whether it will answer otherwise when it has started, has
// been failed over to, or has ended what it does. Where it says no, no repetition mends the error. Servers before
// version 7 put the errors of a script's commands inside another.
var passes = map[string]bool{
	"LOADING ": true, "READONLY ": true, "MASTERDOWN ": true, "CLUSTERDOWN ": true, "TRYAGAIN ": true, "MOVED ": true,
	"ASK ": true, "BUSY ": true, "NOREPLICAS ": true, "NOSCRIPT ": true, "max number of clients": true,
	"a non local key in a cluster node": true, // the slot moves just now

	"NOPERM ": false, "The user executing the script can't": false, "WRONGPASS ": false, "WRONGTYPE ": false,
	"NOAUTH ": false, "unauthenticated multibulk": false, // the same, of a long request
}

// says reports whether the server answered an error with this text in it.
func says(err error, text string) bool {
	answer, ok := errors.AsType[goredis.Error](err)
	return ok && strings.Contains(answer.Error(), text)
}

// Transient reports whether it makes sense to wait until err goes away by itself. A timeout counts as transient; callers check
// their own context first.
func Transient(err error) bool {
	for text, passes := range passes {
		if says(err, text) {
			return passes
		}
	}
	return !says(err, "") && !errors.Is(err, goredis.ErrClosed) && !errors.Is(err, context.Canceled) && !untrusted(err)
}

// explain wraps an error that no repetition mends in [driver.ErrRefused].
func explain(err error) error {
	refused := untrusted(err)
	for text, passes := range passes {
		refused = refused || !passes && says(err, text)
	}
	if says(err, "unauthenticated multibulk") {
		err = fmt.Errorf("NOAUTH, no password was given: %w", err)
	}
	if refused {
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return err
}

// ineffective reports whether err says that the request has had no effect and will have none: the server
// said so, and not in the middle of a script that may have written something, or it was never sent.
func ineffective(err error) bool {
	if says(err, "") {
		return !says(err, "user_script")
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial" || untrusted(err) || errors.Is(err, goredis.ErrPoolTimeout) ||
		errors.Is(err, goredis.ErrPoolExhausted) || errors.Is(err, goredis.ErrClosed)
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

// TimedOut reports whether err says that there was no answer in time.
func TimedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
