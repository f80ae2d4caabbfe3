package servers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollEvery is the pause between two tries of poll.
const pollEvery = 5 * time.Millisecond

// tryTimeout bounds one try of poll, so that a server that accepts and then says
// nothing is asked again.
const tryTimeout = 3 * time.Second

type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// final marks an error after which poll need not try again.
func final(err error) error { return finalError{err} }

// poll calls try until it returns nil, or a final error, or ctx ends. The error then
// tells why the last try failed.
func poll(ctx context.Context, try func(context.Context) error) error {
	for {
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
		case <-time.After(pollEvery):
		}
	}
}
