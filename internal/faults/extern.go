package faults

import (
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
)

// What follows is for backends in modules of their own, which put themselves to the test there.

// Options are those of every Locker that an Opener makes.
func (a Access) Options() []locker.Option { return a.options() }

// ClientOf makes a client of what a constructor returned. end closes the connections.
func ClientOf(l locker.Locker, err error, end func() error) (conformance.Client, error) {
	return of(l, err, end)
}

// Everything is what a backend of ours offers.
var Everything = everything
