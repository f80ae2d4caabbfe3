package file

import (
	"context"
	"crypto/sha256"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Look reads the tickets of name. Those that are still looking for their place, or only try, are not shown.
func (d *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	all, err := d.list(d.queue(name))
	if err != nil {
		return nil, err
	}
	var found []driver.Position
	for _, e := range all {
		there, err := d.read(&e)
		if err != nil {
			return nil, err
		}
		if there && (e.record.Held || e.record.Waits || !e.known) {
			found = append(found, d.position(name, e))
		}
	}
	return found, ctx.Err()
}

// position returns what Inspect shows of e. What is not understood counts as a holder.
func (d *backend) position(name string, e entry) driver.Position {
	r := e.record
	p := driver.Position{
		Name: name, ID: e.id, Owner: string(r.Owner), Weight: e.weight, Limit: e.limit,
		Held: r.Held || !e.known, Token: r.Token,
	}
	if e.known {
		p.Since = time.Unix(0, r.Since)
		p.Left = max(0, time.Duration(r.Until-now()))
	}
	return p
}

// Names reads the first ticket of each queue: the name stands in it.
func (d *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := d.names(ctx, prefix, func(name string, err error) bool { return yield(name, err) && err == nil })
		if err != nil {
			yield("", err)
		}
	}
}

// names calls yield for each name, and for each queue that cannot be read, until that returns false.
func (d *backend) names(ctx context.Context, prefix string, yield func(string, error) bool) error {
	f, err := os.Open(d.queues())
	if err != nil {
		return failed(ignoreMissing(err))
	}
	defer f.Close()
	for {
		queues, err := f.Readdirnames(1000)
		for _, queue := range queues {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if len(queue) != 2*sha256.Size {
				continue
			}
			name, err := d.nameOf(filepath.Join(d.queues(), queue))
			if (err != nil || name != "" && strings.HasPrefix(name, prefix)) && !yield(name, err) {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return failed(err)
		}
	}
}

// nameOf returns the name whose queue is in dir, empty if nobody stands there: then dir is removed.
func (d *backend) nameOf(dir string) (name string, err error) {
	all, err := d.list(dir)
	for _, e := range all {
		there, err := d.read(&e)
		if err != nil {
			return "", err
		}
		if there && name == "" {
			name = string(e.record.Name)
		}
	}
	if name == "" {
		_ = os.Remove(dir) // fails unless it is empty
	}
	return name, err
}

// Evict removes the ticket of the claim with that ID.
func (d *backend) Evict(_ context.Context, name, id string) error {
	dir := d.queue(name)
	all, err := d.list(dir)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.id != id {
			continue
		}
		there, err := d.read(&e)
		if err != nil {
			return err
		}
		if !there {
			break
		}
		err = os.Remove(e.path)
		if os.IsNotExist(err) {
			break
		}
		_ = os.Remove(dir)
		return failed(err)
	}
	return driver.ErrGone
}
