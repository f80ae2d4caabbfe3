package experiment

import (
	"context"
	"encoding/json"

	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// telling is what a child is told: of the client that it opens, and what it is to do with it.
type telling struct {
	Contender string
	Config    contender.Config
	Lock      string // the name, or what names begin with

	Goroutines int // of RoleThrong, how many want the name

	Shop  string // of RoleBuy, the file
	Check bool   // tokens
	Stall bool   // be the holder that is paused
}

// telling returns what a child is told that opens a client of this cell.
func (c *Cell) telling() telling {
	return telling{Contender: c.Contender.Name, Config: c.config(), Lock: c.LockName(), Goroutines: c.Case.Goroutines}
}

// RegisterRoles makes the children of all experiments known. find is how they come by
// their contender.
func RegisterRoles(find func(string) (contender.Contender, error)) {
	register(find, RoleHold, hold)
	register(find, RoleBuy, buy)
	register(find, RoleThrong, throng)
}

// register makes a child known that opens a client, does what play says, and closes the client.
func register(find func(string) (contender.Contender, error), role string,
	play func(ctx context.Context, client contender.Client, told telling, parent child.Parent) error) {
	child.Register(role, func(ctx context.Context, args []byte, parent child.Parent) error {
		var told telling
		if err := json.Unmarshal(args, &told); err != nil {
			return err
		}
		c, err := find(told.Contender)
		if err != nil {
			return err
		}
		client, err := c.Open(ctx, told.Config)
		if err != nil {
			return err
		}
		defer client.Close()
		return play(ctx, client, told, parent)
	})
}
