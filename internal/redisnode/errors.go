package redisnode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
)

// transient are the first words of errors of a server that will answer otherwise when it has
// started, has been failed over to, or has ended what it does.
var transient = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
	"BUSY", "NOREPLICAS", "NOSCRIPT",
}

// refusals are the first words of errors that no repetition mends.
var refusals = []string{"NOPERM", "NOAUTH", "WRONGPASS", "WRONGTYPE"}

// Word returns the first word of the error that the server answered, "" if err is none. Servers
// before version 7 put the errors of a script's commands inside another.
func Word(err error) string {
	var answer goredis.Error
	if err == nil || !errors.As(err, &answer) {
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

// Transient reports whether it makes sense to wait until err goes away by itself.
func Transient(err error) bool {
	if w := Word(err); w != "" {
		return slices.Contains(transient, w)
	}
	return !errors.Is(err, goredis.ErrClosed) && !untrusted(err) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// Ineffective reports whether err says that the request has had no effect and will have none:
// the server said so, or it was never sent.
func Ineffective(err error) bool {
	if errors.As(err, new(unconnected)) {
		return false
	}
	var dial *net.OpError
	return Word(err) != "" && !begun(err) || errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted) ||
		errors.Is(err, goredis.ErrClosed) || untrusted(err)
}

// begun reports whether err ended a script that may have written something.
func begun(err error) bool { return strings.Contains(err.Error(), "user_script") }

// explain wraps an error that no repetition mends in [driver.ErrRefused]. It must not be nil.
func explain(err error) error {
	w := Word(err)
	if !slices.Contains(refusals, w) && !untrusted(err) {
		return err
	}
	if w == "NOAUTH" && !strings.HasPrefix(err.Error(), w) {
		err = fmt.Errorf("NOAUTH, no password was given: %w", err)
	}
	return fmt.Errorf("%w: %w", driver.ErrRefused, err)
}

// untrusted reports whether TLS refused to go on.
func untrusted(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		header       tls.RecordHeaderError
		alert        tls.AlertError
		unknown      x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	return errors.As(err, &verification) || errors.As(err, &header) || errors.As(err, &alert) ||
		errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid)
}

// broken reports whether the connection was found closed, as happens to pooled connections whose
// server was restarted.
func broken(err error) bool {
	var op *net.OpError
	return !timedOut(err) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &op) && op.Op != "dial")
}

func timedOut(err error) bool {
	var timeout net.Error
	return err != nil && errors.As(err, &timeout) && timeout.Timeout()
}
