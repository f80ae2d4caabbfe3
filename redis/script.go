package redis

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lua/shared.lua
var sharedLua string

//go:embed lua/now.lua
var nowLua string

//go:embed lua/head.lua
var headLua string

//go:embed lua/tell.lua
var tellLua string

//go:embed lua/take.lua
var takeLua string

//go:embed lua/basic.lua
var basicLua string

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/abandon.lua
var abandonLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/hello.lua
var helloLua string

// scripts are the texts for one kind of server.
type scripts struct{ acquire, release, handOver, abandon, renew, hello *script }

func newScripts(sharded bool) scripts {
	kind := "local SHARDED = false\n"
	if sharded {
		kind = "local SHARDED = true\n"
	}
	parts := strings.NewReplacer("--include now.lua\n", nowLua, "--include tell.lua\n", tellLua, "--include take.lua\n", takeLua)
	more := strings.NewReplacer("--include basic.lua\n", basicLua, "--include shared.lua\n", sharedLua)
	read := func(text string) *script { return newScript(kind + headLua + parts.Replace(more.Replace(text))) }
	s := scripts{
		acquire: read(acquireLua),
		release: read(releaseLua),
		abandon: read(abandonLua),
		renew:   read(renewLua),
		hello:   read(helloLua),
	}
	s.handOver = &script{s.release.text, s.release.sum, true}
	return s
}

// runner is what is asked of the server, but for its words.
type runner interface {
	run(ctx context.Context, client processor, words args) (any, error)
}

// command is one that the server knows by itself. The first of the words is its name.
type command struct{}

func (command) run(ctx context.Context, client processor, words args) (any, error) {
	return send(ctx, client, once{goredis.NewCmd(ctx, words...)})
}

// valued is a command that keeps the answer.
type valued interface {
	goredis.Cmder
	Val() any
}

func send(ctx context.Context, client processor, cmd valued) (any, error) {
	if err := client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// script is a text and the sum by which the server knows it, as arguments.
type script struct {
	text, sum any
	urgent    bool // what it tells others
}

func newScript(text string) *script {
	return &script{text: text, sum: goredis.NewScript(text).Hash()}
}

// once is a command that go-redis sends at most once. By default it repeats
// what may have been carried out; here that decision is made by those who know
// what a repetition does.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

// urgent is one that tells others something; see keptConn.send.
type urgent struct{ once }

// The first words of a request, as arguments.
var eval, evalsha, hdel, rpushx, one, two, three, four any = "eval", "evalsha", "hdel", "rpushx", "1", "2", "3", "4"

// ping is a request by itself.
var ping = args{"ping"}

// args are the words of a request. Of one that runs a script the first two are missing, and
// there is room for them: the number of keys, the keys, what the script is told.
type args []any

func (s *script) call(ctx context.Context, words args, byText bool) once {
	if byText {
		words[0], words[1] = eval, s.text
	} else {
		words[0], words[1] = evalsha, s.sum
	}
	return once{goredis.NewCmd(ctx, words...)}
}

// run runs s. A server that does not know it (any more) is given its text.
func (s *script) run(ctx context.Context, client processor, words args) (any, error) {
	call := s.call(ctx, words, false)
	var cmd valued = call
	if s.urgent {
		cmd = urgent{call}
	}
	v, err := send(ctx, client, cmd)
	if unknown(err) {
		return send(ctx, client, s.call(ctx, slices.Clone(words), true))
	}
	return v, err
}

func unknown(err error) bool { return err != nil && goredis.HasErrorPrefix(err, "NOSCRIPT") }
