package servers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The pause between two tries of Poll grows from the first to the second: a server is started in a moment, and what takes
// long is not to be asked for as often.
const (
	pollEvery = 5 * time.Millisecond
	pollMost  = 50 * time.Millisecond
)

// tryTimeout bounds one try of Poll, so that a server that accepts and then says
// nothing is asked again.
const tryTimeout = 3 * time.Second

type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// final marks an error after which Poll need not try again.
func final(err error) error { return finalError{err} }

// Poll calls try until it returns nil, or ctx ends. The error then tells why the last try failed.
func Poll(ctx context.Context, try func(context.Context) error) error {
	for pause := pollEvery; ; pause = min(pause*5/4, pollMost) {
		tryCtx, cancel := context.WithTimeout(ctx, tryTimeout)
		err := try(tryCtx)
		cancel()
		if err == nil {
			return nil
		}
		var f finalError
		if errors.As(err, &f) {
			return f.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the last try: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}
