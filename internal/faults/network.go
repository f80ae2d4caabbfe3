package faults

import "github.com/seed80cd6120/locker/internal/proxy"

// Network is the way of one user to all servers: a proxy in front of each, in the order of the servers.
type Network struct{ proxy.Set }

// NewNetwork puts a proxy in front of every server of members, and returns the access to
// them through it. What is in front of a server already stays between the two.
func NewNetwork(a Access, members []string) (*Network, Access, error) {
	var targets []string
	for _, addr := range members {
		targets = append(targets, a.Through(addr))
	}
	s, err := proxy.NewSet(targets)
	if err != nil {
		return nil, a, err
	}
	a.Via = make(map[string]string)
	for i, p := range s {
		a.Via[members[i]] = p.Addr()
	}
	return &Network{s}, a, nil
}
