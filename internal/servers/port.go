package servers

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// host is where every server listens: this machine only.
const host = "127.0.0.1"

// errPortTaken says that somebody else got to a port first.
var errPortTaken = errors.New("port taken")

// startTries is how often new ports are tried when others got to them first.
const startTries = 5

// retryPorts calls start again, which takes new ports, while ports were taken.
func retryPorts[T any](start func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := start()
		if !errors.Is(err, errPortTaken) || try == startTries {
			return v, err
		}
	}
}

// port is a TCP port of the system's choosing. Where the system can, it stays
// reserved until released: nobody else is given it, also while no server listens.
type port struct {
	number int
	hold   func()
}

func (p *port) addr() string { return net.JoinHostPort(host, strconv.Itoa(p.number)) }

func (p *port) String() string { return strconv.Itoa(p.number) }

func (p *port) release() {
	if p.hold != nil {
		p.hold()
		p.hold = nil
	}
}

func newPorts(n int) ([]*port, error) {
	var ports []*port
	for range n {
		p, err := newPort()
		if err != nil {
			for _, p := range ports {
				p.release()
			}
			return nil, fmt.Errorf("reserve a port: %w", err)
		}
		ports = append(ports, p)
	}
	return ports, nil
}
