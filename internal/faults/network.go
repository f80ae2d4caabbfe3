package faults

import (
	"errors"

	"github.com/seed80cd6120/locker/internal/proxy"
)

// Network is the way of one user to all servers: a proxy in front of each.
type Network struct {
	Proxies []*proxy.Proxy // in the order of the servers
}

// NewNetwork puts a proxy in front of every server of members, and returns the access to
// them through it. What is in front of a server already stays between the two.
func NewNetwork(a Access, members []string) (*Network, Access, error) {
	n := &Network{}
	via := make(map[string]string)
	for _, addr := range members {
		p, err := proxy.New(a.Through(addr))
		if err != nil {
			return nil, a, errors.Join(err, n.Close())
		}
		n.Proxies = append(n.Proxies, p)
		via[addr] = p.Addr()
	}
	a.Via = via
	return n, a, nil
}

func (n *Network) each(do func(p *proxy.Proxy)) {
	for _, p := range n.Proxies {
		do(p)
	}
}

// What follows is done on the way to every server.

func (n *Network) Freeze()     { n.each((*proxy.Proxy).Freeze) }
func (n *Network) FreezeUp()   { n.each((*proxy.Proxy).FreezeUp) }
func (n *Network) FreezeDown() { n.each((*proxy.Proxy).FreezeDown) }
func (n *Network) Cut()        { n.each((*proxy.Proxy).Cut) }
func (n *Network) Refuse()     { n.each((*proxy.Proxy).Refuse) }
func (n *Network) Heal()       { n.each((*proxy.Proxy).Heal) }

// Close cuts everything.
func (n *Network) Close() error {
	var errs []error
	n.each(func(p *proxy.Proxy) { errs = append(errs, p.Close()) })
	return errors.Join(errs...)
}
