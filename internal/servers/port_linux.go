package servers

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// newPort binds a socket to a port of the system's choosing and keeps it, without
// listening. The system then gives the port to nobody, neither as a listener nor as
// the near end of a connection, but a server that asks for it by number, with
// SO_REUSEADDR as servers do, gets it.
func newPort() (*port, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var name syscall.Sockaddr
	if err == nil {
		name, err = syscall.Getsockname(fd)
	}
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return &port{name.(*syscall.SockaddrInet4).Port, func() { syscall.Close(fd) }}, nil
}

// ownedBy returns nil if the process listens on the port, and otherwise why not.
func (p *port) ownedBy(pid int) error {
	if err := p.knock(); err != nil {
		return err
	}
	inodes, err := listeners(p.number)
	if err != nil {
		return err
	}
	if len(inodes) == 0 {
		return fmt.Errorf("nobody listens on port %d", p.number)
	}
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(fds)
	if err != nil {
		return err
	}
	for _, e := range entries {
		target, err := os.Readlink(fds + "/" + e.Name())
		if err == nil && inodes[target] {
			return nil
		}
	}
	return final(fmt.Errorf("%w: %d belongs to another process than %d", errPortTaken, p.number, pid))
}

// knock returns nil if anybody listens on the port. To look that up in the system's tables
// takes a hundred times as long, which is too much while a server is starting.
func (p *port) knock() (err error) {
	for _, ip := range []string{host, "::1"} {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", net.JoinHostPort(ip, p.String()), time.Second); err == nil {
			return conn.Close()
		}
	}
	return err
}

// listeners finds the sockets that listen on a port, as the names that links in
// /proc/PID/fd carry.
func listeners(number int) (map[string]bool, error) {
	const listening = "0A"
	found := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if errors.Is(err, os.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			// sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
			field := strings.Fields(lines.Text())
			if len(field) < 10 || field[0] == "sl" {
				continue
			}
			if field[3] != listening {
				break // sockets that listen come first, before thousands of others
			}
			_, hexPort, _ := strings.Cut(field[1], ":")
			b, err := hex.DecodeString(hexPort)
			if err == nil && len(b) == 2 && int(b[0])<<8|int(b[1]) == number {
				found["socket:["+field[9]+"]"] = true
			}
		}
		err = lines.Err()
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
