// Package sidebyside tests whether programs that take a name each in its own way exclude each other.
package sidebyside

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// Patient is after how long nothing will come any more.
const Patient = time.Minute

// disturbed is for how long somebody holds while another tries to.
const disturbed = 300 * time.Millisecond

// Program runs work while it holds the name.
type Program func(ctx context.Context, work func(context.Context) error) error

// Exclude fails the test unless second gets the name after first has let it go, and not before.
func Exclude(t *testing.T, first, second Program) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patient)
	defer cancel()
	var holds atomic.Bool
	begun, end := make(chan struct{}), make(chan struct{})
	ended, done := make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- first(ctx, func(context.Context) error {
			holds.Store(true)
			defer holds.Store(false)
			close(begun)
			<-end
			return nil
		})
	}()
	select {
	case <-begun:
	case err := <-ended:
		t.Fatal("the first did not get the name: ", err)
	}
	go func() {
		done <- second(ctx, func(context.Context) error {
			if holds.Load() {
				return errors.New("both hold")
			}
			return nil
		})
	}()
	select {
	case err := <-done:
		t.Error("the second did not wait: ", err)
		done <- err
	case <-time.After(disturbed):
	}
	close(end)
	if err := errors.Join(<-ended, <-done); err != nil {
		t.Error(err)
	}
}
