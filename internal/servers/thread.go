package servers

import (
	"os"
	"runtime"
	"sync"
)

// BackgroundFunc is the name of the one function whose goroutine stays for the life of
// the process, for goleak.IgnoreAnyFunction.
const BackgroundFunc = "github.com/seed80cd6120/locker/internal/servers.startAll"

type startRequest struct {
	bin    string
	argv   []string
	attr   *os.ProcAttr
	answer chan<- startAnswer
}

type startAnswer struct {
	p   *os.Process
	err error
}

var starts = sync.OnceValue(func() chan<- startRequest {
	c := make(chan startRequest)
	go startAll(c)
	return c
})

// startAll starts every child from one thread that never ends: Linux takes the
// end of the starting thread, not of the process, for the death of the parent.
func startAll(requests <-chan startRequest) {
	runtime.LockOSThread()
	for r := range requests {
		p, err := os.StartProcess(r.bin, r.argv, r.attr)
		r.answer <- startAnswer{p, err}
	}
}

func startOnThread(bin string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	answer := make(chan startAnswer, 1)
	starts() <- startRequest{bin, argv, attr, answer}
	a := <-answer
	return a.p, a.err
}
