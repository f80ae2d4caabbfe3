// Package child starts processes that do not outlive this one.
package child

import (
	"runtime"
	"sync"
)

// BackgroundFunc is the name of the one function whose goroutine stays for the life of this process, for
// goleak.IgnoreAnyFunction.
const BackgroundFunc = "github.com/seed80cd6120/locker/internal/child.startAll"

// starts are calls for the thread that starts all children.
var starts = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go startAll(c)
	return c
})

// startAll makes the calls on one thread that never ends: Linux takes the end of the starting thread, not of
// the process, for the death of the parent.
func startAll(starts <-chan func()) {
	runtime.LockOSThread()
	for start := range starts {
		start()
	}
}

// Prepare starts what stays for the life of this process.
func Prepare() { starts() }

// Start calls start, which starts a process with [Attributes], and returns its error.
func Start(start func() error) error {
	answer := make(chan error, 1)
	starts() <- func() { answer <- start() }
	return <-answer
}
