package redlock

import (
	"errors"
	"time"
)

// seekFirst is when it is first looked for what a plain bid may have left that came after
// what undoes it; then after twice as long each time, until nothing can come any more. So
// what comes late does not stay for longer than it was late.
const seekFirst = 250 * time.Millisecond

// seek is the search at one node. A bid by the script needs none: it sees the mark.
type seek struct {
	n     *node
	c     *claim
	pause time.Duration
}

// seek begins it, if need be.
func (b *backend) seek(c *claim, i int) {
	if !c.plain {
		return
	}
	if _, unclear := c.stateAt(i); unclear {
		s := &seek{n: b.nodes[i], c: c, pause: b.seekFirst}
		s.later(i)
	}
}

func (s *seek) later(i int) {
	if s.pause < forget {
		time.AfterFunc(s.pause, func() { s.n.submit(&request{job: s, i: i}) })
		s.pause *= 2
	}
}

func (s *seek) command(int) (*script, []any) {
	return releaseScript, releaseScript.call([]string{s.c.lock, s.c.wait}, s.c.head)
}

// answered: it comes once, so when it has been found the search is over.
func (s *seek) answered(i int, v any, err error, _ bool) {
	if !errors.Is(err, errClosed) && v != int64(1) {
		s.later(i)
	}
}
