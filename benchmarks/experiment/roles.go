package experiment

import (
	"context"
	"encoding/json"

	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// opening is what every child is told of the client that it opens.
type opening struct {
	Contender string
	Config    contender.Config
	Lock      string // the name, or what names begin with
}

func (o opening) told() opening { return o }

// opening returns what a child is told that opens a client of this cell.
func (c *Cell) opening() opening { return opening{c.Contender.Name, c.config(), c.LockName()} }

// RegisterRoles makes the children of all experiments known. find is how they come by
// their contender.
func RegisterRoles(find func(string) (contender.Contender, error)) {
	register(find, RoleHold, hold)
	register(find, RoleBuy, buy)
	register(find, RoleThrong, throng)
}

// register makes a child known that opens a client, does what play says, and closes the client.
func register[T interface{ told() opening }](find func(string) (contender.Contender, error), role string,
	play func(ctx context.Context, client contender.Client, told T, parent child.Parent) error) {
	child.Register(role, func(ctx context.Context, args []byte, parent child.Parent) error {
		var told T
		if err := json.Unmarshal(args, &told); err != nil {
			return err
		}
		o := told.told()
		c, err := find(o.Contender)
		if err != nil {
			return err
		}
		client, err := c.Open(ctx, o.Config)
		if err != nil {
			return err
		}
		defer client.Close()
		return play(ctx, client, told, parent)
	})
}
