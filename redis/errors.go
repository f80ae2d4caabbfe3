package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// passing are the first words of answers of a server that will be of another mind
// when it has started, has been failed over to, or has ended what it does.
var passing = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
	"BUSY", "NOREPLICAS", "NOSCRIPT",
}

// word is the first word of the answer of a server, "" if err is none. Servers
// before version 7 put the errors of a script's commands inside another.
func word(err error) string {
	if err == nil {
		return ""
	}
	var answer goredis.Error
	if !errors.As(err, &answer) {
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
	}
	return first
}

// refused reports whether err says that the request has had no effect and will
// have none: the server said so, or it never was sent.
func refused(err error) bool {
	if errors.As(err, new(unconnected)) {
		return false
	}
	var dial *net.OpError
	return word(err) != "" || errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted) ||
		errors.Is(err, goredis.ErrClosed) || untrusted(err)
}

// halfway reports whether err ended a script that had begun.
func halfway(err error) bool {
	return word(err) != "" && strings.Contains(err.Error(), "user_script")
}

// mends reports whether it makes sense to wait until err goes away by itself.
func mends(err error) bool {
	if w := word(err); w != "" {
		return slices.Contains(passing, w)
	}
	return !errors.Is(err, goredis.ErrClosed) && !untrusted(err) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
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

// cut reports whether the connection was found closed, as happens to pooled
// connections whose server was restarted.
func cut(err error) bool {
	var op *net.OpError
	return !isTimeout(err) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) && op.Op != "dial")
}

func isTimeout(err error) bool {
	if err == nil {
		return false // as is usual: errors.As would have something allocated first
	}
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
