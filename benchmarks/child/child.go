// Package child runs parts of the comparison in processes of their own, so that these
// can be killed. A child is this same program, started again with its role in the
// environment; it ends when its parent does, because its standard input does.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed80cd6120/locker/internal/child"
)

const (
	envRole = "LOCKER_COMPARE_ROLE"
	envArgs = "LOCKER_COMPARE_ARGS"
)

// Role is what a child does. Its ctx ends when the parent closes the input.
type Role func(ctx context.Context, args []byte, parent Parent) error

// Parent is the other side of a child.
type Parent struct {
	Heard <-chan string // what it says, line by line
}

// Say tells the parent a line.
func (Parent) Say(line string) { fmt.Println(line) }

// Await returns when the parent says line, and an error if it says something else or ends.
func (p Parent) Await(line string) error {
	if heard := <-p.Heard; heard != line {
		return fmt.Errorf("was told %q instead of %q", heard, line)
	}
	return nil
}

var roles = map[string]Role{}

// Register makes a role known. It is called before Main.
func Register(name string, r Role) { roles[name] = r }

// Main plays the role that the environment asks for and does not return then. The
// program (and TestMain, where tests start children) calls it first.
func Main() {
	name := os.Getenv(envRole)
	if name == "" {
		return
	}
	role := roles[name]
	if role == nil {
		fmt.Fprintf(os.Stderr, "no role %q\n", name)
		os.Exit(2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	heard := make(chan string, 16)
	go func() {
		defer cancel()
		defer close(heard)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			heard <- in.Text()
		}
	}()
	if err := role(ctx, []byte(os.Getenv(envArgs)), Parent{heard}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is a child that plays a role, or another program.
type Process struct {
	*child.Process
	lines chan string
}

// Start starts a child in a role. args are given to it as JSON.
func Start(role string, args any) (*Process, error) {
	encoded, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envRole+"="+role, envArgs+"="+string(encoded))
	return Open(cmd)
}

// Open starts another program, which talks in lines as a child does.
func Open(cmd *exec.Cmd) (*Process, error) {
	c, err := child.Open(cmd)
	if err != nil {
		return nil, fmt.Errorf("start a child: %w", err)
	}
	p := &Process{c, make(chan string, 64)}
	go func() {
		s := bufio.NewScanner(c)
		s.Buffer(nil, 1<<26)
		for s.Scan() {
			p.lines <- s.Text()
		}
		<-c.Ended()
		close(p.lines)
	}()
	return p, nil
}

// Say sends the child a line.
func (p *Process) Say(line string) error {
	_, err := io.WriteString(p, line+"\n")
	return err
}

// Hear waits for a line from the child.
func (p *Process) Hear(ctx context.Context) (string, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", fmt.Errorf("the child ended (%v): %s", p.Err(), strings.TrimSpace(p.Said()))
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Close ends the conversation, upon which a child ends, stopped or not; one that takes longer than two seconds is killed.
func (p *Process) Close() error {
	err := p.Process.Close()
	go func() { // nobody listens any more
		for range p.lines {
		}
	}()
	return errors.Join(err, p.End(syscall.SIGCONT, 2*time.Second))
}

// Group is several children.
type Group []*Process

// StartGroup starts a child for each of args, and returns them when all have said "ready".
func StartGroup[T any](ctx context.Context, role string, args []T) (g Group, err error) {
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	for _, a := range args {
		p, err := Start(role, a)
		if err != nil {
			return g, err
		}
		g = append(g, p)
	}
	for _, p := range g {
		line, err := p.Hear(ctx)
		if err == nil && line != "ready" {
			err = fmt.Errorf("a process said %q", line)
		}
		if err != nil {
			return g, err
		}
	}
	return g, nil
}

// Say sends all of them a line.
func (g Group) Say(line string) (err error) {
	for _, p := range g {
		err = errors.Join(err, p.Say(line))
	}
	return err
}

// Close ends all of them at once.
func (g Group) Close() {
	var wg sync.WaitGroup
	for _, p := range g {
		wg.Go(func() { _ = p.Close() })
	}
	wg.Wait()
}
