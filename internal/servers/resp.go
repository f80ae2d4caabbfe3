package servers

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// RedisError is an error that a Redis server answered with, such as "READONLY You can't
// write against a read only replica."
type RedisError string

// Error returns the server's words.
func (e RedisError) Error() string { return string(e) }

// respConn is a connection that speaks Redis's protocol, version 2.
type respConn struct {
	net.Conn
	r *bufio.Reader
}

// dialRESP connects, with TLS if conf is not nil. The deadline of ctx is that of all
// that is done with the connection.
func dialRESP(ctx context.Context, addr string, conf *tls.Config) (*respConn, error) {
	conn, err := dial(ctx, addr, conf)
	if err != nil {
		return nil, err
	}
	return &respConn{conn, bufio.NewReader(conn)}, nil
}

// dial connects to a server, with TLS if conf is not nil.
func dial(ctx context.Context, addr string, conf *tls.Config) (net.Conn, error) {
	var d interface {
		DialContext(context.Context, string, string) (net.Conn, error)
	} = &net.Dialer{}
	if conf != nil {
		d = &tls.Dialer{Config: conf}
	}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(tryTimeout)
	}
	return conn, conn.SetDeadline(deadline)
}

func (c *respConn) do(args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *respConn) line() (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// read reads one reply: string, int64, []any, nil or an error.
func (c *respConn) read() (any, error) {
	line, err := c.line()
	if err != nil {
		return nil, err
	}
	if line == "" {
		return nil, errors.New("empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, RedisError(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("not a reply of Redis: %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			v, err := c.read()
			var answered RedisError
			if errors.As(err, &answered) {
				v = answered
			} else if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	}
	return nil, fmt.Errorf("not a reply of Redis: %q", line)
}
