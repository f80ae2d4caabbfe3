package locker

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/seed80cd6120/locker/driver"
)

// Position is one holder or waiter of a name, as Inspect shows it.
type Position = driver.Position

// Inspect returns the holders and the waiters of name in the order of the queue. It is a
// picture of a moment that may be over already: never decide by it whether to act.
func Inspect(ctx context.Context, l Locker, name string) ([]Position, error) {
	c, err := coreOf(l, "inspect", name)
	if err != nil {
		return nil, err
	}
	return ask(ctx, c, "inspect", name, c.traits.Inspect, func(ctx context.Context) ([]Position, error) {
		return c.inspector.Look(ctx, name)
	})
}

// Names returns the names that begin with prefix and are held or waited for, each once, in any
// order. It ends after the first error.
func Names(ctx context.Context, l Locker, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		c, err := coreOf(l, "names", "")
		if err == nil {
			err = c.names(ctx, prefix, yield)
		}
		if err != nil {
			yield("", err)
		}
	}
}

// names hands the names on as the driver finds them, which runs aside: whoever asks does not
// wait for it longer than ctx.
func (c *core) names(ctx context.Context, prefix string, yield func(string, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan string)
	over := make(chan error, 1)
	go func() {
		_, err := ask(ctx, c, "names", "", c.traits.Inspect, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, safely(func() error {
				for name, err := range c.inspector.Names(ctx, prefix) {
					if err != nil {
						return err
					}
					select {
					case found <- name:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return nil
			})
		})
		over <- err
	}()
	for {
		select {
		case name := <-found:
			if !yield(name, nil) {
				return nil
			}
		case err := <-over:
			return err
		}
	}
}

// Evict takes the name from the holder, or the place in the queue from the waiter, that
// Inspect has shown, and from nobody who came since: then it returns ErrNotFound. To whom the
// holder has handed the lock over since, by WithHandOver, counts as the holder. The holder's
// context ends, with cause ErrLost, within a second; the waiter queues anew, at the end.
func Evict(ctx context.Context, l Locker, p Position) error {
	c, err := coreOf(l, "evict", p.Name)
	if err != nil {
		return err
	}
	_, err = ask(ctx, c, "evict", p.Name, c.traits.Evict, func(ctx context.Context) (struct{}, error) {
		err := c.evictor.Evict(ctx, p.Name, p.ID)
		if errors.Is(err, driver.ErrGone) {
			err = fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		return struct{}{}, err
	})
	return err
}

// coreOf returns what is below l.
func coreOf(l Locker, op, name string) (*core, error) {
	for {
		switch x := l.(type) {
		case *core:
			return x, nil
		case interface{ Unwrap() Locker }:
			l = x.Unwrap()
		default:
			return nil, &Error{Op: op, Backend: fmt.Sprintf("%T", l), Name: name, Err: ErrUnsupported}
		}
	}
}

// ask makes a call of the driver that concerns no claim of this Locker.
func ask[T any](ctx context.Context, c *core, op, name string, supported bool, f func(context.Context) (T, error)) (result T, err error) {
	switch {
	case !supported:
		err = ErrUnsupported
	case op != "names" && (name == "" || len(name) > MaxName):
		err = fmt.Errorf("%w: %d bytes, want 1 to %d", ErrInvalidName, len(name), MaxName)
	default:
		err = c.enter(ctx)
	}
	if err != nil {
		return result, c.fail(op, name, err)
	}
	defer c.done()
	result, err = call(ctx, c, f)
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		err = ended(ctx, err)
	case c.isClosing():
		err = ErrClosed
	}
	return result, c.fail(op, name, err)
}
