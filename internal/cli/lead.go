//go:build unix

package cli

import (
	"fmt"
	"time"
)

// leadCommand is "locker lead".
type leadCommand struct {
	programFlags
	holdFlags
}

func newLead() command { return &leadCommand{} }

func (c *leadCommand) flags() []flag { return append(c.holdFlags.flags(), c.programFlags.flags()...) }

// campaignPause is the time between the loss of a lead and the next campaign.
const campaignPause = time.Second

// run campaigns for the name and runs the command while leading, again after each loss. When the command
// ends by itself so does leading.
func (c *leadCommand) run(i *invocation) error {
	program, err := c.program()
	if err != nil {
		return err
	}
	opts, err := c.options(i)
	if err != nil {
		return err
	}
	l, closeLocker, err := i.open(opts...)
	if err != nil {
		return err
	}
	defer closeLocker()
	lock, err := acquire(i.ctx, l, c.name, waiting{})
	for ; err == nil; lock, err = l.Acquire(i.ctx, c.name) {
		result, err := i.runUnder(lock, program, &c.holdFlags)
		switch {
		case err != nil:
			return err
		case !result.Lost:
			return exit(result.Status)
		case result.Signal != 0:
			return exit(128 + int(result.Signal))
		}
		if i.ctx.Err() == nil {
			i.say("warning", fmt.Sprintf("%q: the lead was lost: campaigning again", c.name))
		}
		select {
		case <-time.After(campaignPause):
		case <-i.ctx.Done():
		}
	}
	return err
}
