package redisnode

import (
	"context"
	"embed"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// errorGrace is how long a request whose context has ended may still say what it was held up by.
	errorGrace = 20 * time.Millisecond
	// attempts is how often a request is sent at most.
	attempts = 4
)

//go:embed lua/*.lua
var texts embed.FS

// script is a text and the sum by which the server knows it.
type script struct{ text, sum string }

// scripts are those of a node.
type scripts struct {
	acquire, release, renew, look script
}

func newScripts() scripts {
	return scripts{
		acquire: load("short", "lib", "acquire"),
		release: load("short", "lib", "release"),
		renew:   load("lib", "renew"), look: load("lib", "look"),
	}
}

// load returns the script that files make up.
func load(names ...string) script {
	text := ""
	for _, name := range append([]string{"start"}, names...) {
		part, _ := texts.ReadFile("lua/" + name + ".lua")
		text += string(part)
	}
	return script{text, goredis.NewScript(text).Hash()}
}

// once is a command that go-redis sends at most once. By default it repeats what may have been carried
// out; here that is decided by those who know what a repetition does.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

// run sends a script, in place if it may be, and returns what send does.
func (n *Node) run(ctx context.Context, s script, keys []string, args ...any) (answer *goredis.Cmd, lost bool, err error) {
	return n.send(ctx, n.inPlace(ctx, keys[0]), s, keys, args...)
}

// send sends a script, by its text if the server does not know it, and returns the answer. It returns soon after ctx has
// ended. lost says that the request, or an earlier sending of it, had no answer and may still have an effect. Whoever
// sends a script must be able to bear that it is carried out more than once. It is sent in place by client, and if that is
// nil or fails aside: with more patience, and in a Cluster by a client that follows redirections.
func (n *Node) send(ctx context.Context, client goredis.UniversalClient, s script, keys []string, args ...any) (answer *goredis.Cmd, lost bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	words := []any{"evalsha", s.sum, len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	words = append(words, args...)
	for range attempts {
		cmd := once{goredis.NewCmd(ctx, words...)}
		if client != nil {
			err = n.timed(func() error { return client.Process(&inTime{Context: ctx}, cmd) })
		} else {
			err = n.aside(ctx, func() error { return n.timed(func() error { return n.client.Process(ctx, cmd) }) })
		}
		if err == nil {
			return cmd.Cmd, lost, nil
		}
		unanswered := !ineffective(err)
		lost = lost || unanswered
		broken := unanswered && !says(err, "") && !TimedOut(err) // as pooled connections are whose server was restarted
		switch {
		case ctx.Err() != nil || client == nil && !broken && !says(err, "NOSCRIPT "):
			return nil, lost, explain(err)
		case says(err, "NOSCRIPT "):
			words[0], words[1] = "eval", s.text
		default:
			client = nil
		}
	}
	return nil, lost, explain(err)
}

// numbers returns the answer of a script that answers so many numbers.
func numbers(answer *goredis.Cmd, n int) ([]int64, error) {
	list, err := answer.Int64Slice()
	if err == nil && len(list) != n {
		err = fmt.Errorf("the server answered %v to the script", list)
	}
	return list, err
}

// aside makes a call on a goroutine of its own, which is left behind when ctx ends: go-redis does not end a call
// when its context does.
func (n *Node) aside(ctx context.Context, call func() error) error {
	result := make(chan error, 1)
	n.working.Go(func() { result <- guarded(call) })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return err
	case <-time.After(errorGrace):
		return fmt.Errorf("no answer in time: %w", ctx.Err())
	}
}

// timed makes a call and notes whether the server was quick to answer.
func (n *Node) timed(call func() error) error {
	began := time.Now()
	err := guarded(call)
	n.quick.Store(err == nil && time.Since(began) < quickAnswer)
	return err
}

// guarded makes a call. It makes an error of a panic, which a hook or a dialer of the caller's may raise.
func guarded(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the client: %v", p)
		}
	}()
	return call()
}
