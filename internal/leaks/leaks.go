// Package leaks holds the tests of a package to leaving no goroutine behind.
package leaks

import (
	"log"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker/internal/servers"
)

// patience is how long goroutines may take that end by themselves: a client library that says goodbye to a server that
// is gone, say.
const patience = 10 * time.Second

// Main runs the tests of a package, stops all servers, and ends the process: with status 1 if goroutines are left.
func Main(m *testing.M) {
	code := m.Run()
	if err := servers.StopAll(); err != nil {
		log.Print(err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := Find(); err != nil {
			log.Print(err)
			code = 1
		}
	}
	os.Exit(code)
}

// Find returns an error that shows the goroutines that have not ended after patience.
func Find(opts ...goleak.Option) error {
	end := time.Now().Add(patience)
	for {
		err := goleak.Find(opts...)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
