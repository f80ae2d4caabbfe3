package history

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/seed80cd6120/locker/internal/stamp"
)

// Kind says what happened.
type Kind string

const (
	Called    Kind = "called"   // Acquire or TryAcquire is about to be called
	Granted   Kind = "granted"  // it has returned a lock
	Refused   Kind = "refused"  // it has returned an error
	Alive     Kind = "alive"    // the context had not ended, seen after T
	Lost      Kind = "lost"     // the context has ended by itself
	Release   Kind = "release"  // Release is about to be called
	Released  Kind = "released" // it has returned
	Shares    Kind = "shares"   // Downgrade is about to be called
	HasShared Kind = "shared"   // it has returned without an error
	Died      Kind = "died"     // the process is about to be killed
	Fault     Kind = "fault"    // something is about to be done to the system
)

// Event is one line of a file.
type Event struct {
	T    int64  `json:"t"`
	Kind Kind   `json:"k"`
	Proc string `json:"p"`
	Op   int    `json:"op,omitempty"` // the acquisition it belongs to, unique in its process
	Name string `json:"name,omitempty"`
	// Token is that of a holding. For Fault: nothing else may have been taken away; any may if it is 0.
	Token int64 `json:"token,omitempty"`
	// Share, for Called, is how much of the name is asked for.
	Share
	// Alive, for Lost and Release, is the last moment before T at which the context was
	// seen alive, 0 if it never was.
	Alive int64 `json:"alive,omitempty"`
	// Err is the error of Refused and Released, or what was done, for Fault.
	Err string `json:"err,omitempty"`
	// Destroys, for Fault: holdings of Name (of every name, if it is empty) that existed
	// may have been taken away at the server, between T and Until.
	Destroys bool  `json:"destroys,omitempty"`
	Until    int64 `json:"until,omitempty"`
}

// Recorder writes the events of one process to a file. Its methods may be called from
// several goroutines.
type Recorder struct {
	proc string

	mu   sync.Mutex
	file *os.File
	op   int
	err  error
}

// NewRecorder appends to the file at path in the name of proc, which no other
// recorder of the run uses.
func NewRecorder(path, proc string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record history: %w", err)
	}
	return &Recorder{proc: proc, file: f}, nil
}

// NewOp returns the number of a new acquisition.
func (r *Recorder) NewOp() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.op++
	return r.op
}

// Add writes e. The process is filled in unless e is about another, and so is the time
// if it is 0.
func (r *Recorder) Add(e Event) {
	if e.T == 0 {
		e.T = stamp.Now()
	}
	if e.Proc == "" {
		e.Proc = r.proc
	}
	line, err := json.Marshal(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// Close closes the file and returns the first error of the whole recording.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.file.Close(); r.err == nil {
		r.err = err
	}
	return r.err
}
