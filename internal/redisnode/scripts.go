package redisnode

import (
	"context"
	_ "embed"
	"fmt"

	goredis "github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/lib.lua
	libLua string
	//go:embed lua/acquire_common.lua
	acquireCommonLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/release_common.lua
	releaseCommonLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/lighten.lua
	lightenLua string
	//go:embed lua/settle.lua
	settleLua string
	//go:embed lua/look.lua
	lookLua string
	//go:embed lua/check_subscription.lua
	checkLua string
)

// scripts are the scripts for one kind of server.
type scripts struct {
	acquire, release, renew, lighten, settle, look, check *script
}

func newScripts(sharded bool) scripts {
	head := fmt.Sprintf("local SHARDED = %t\n", sharded)
	now := head + "local time = redis.call('TIME')\nlocal now = time[1] * 1000000 + time[2]\n"
	return scripts{
		acquire: newScript(now + acquireCommonLua + libLua + acquireLua),
		release: newScript(now + releaseCommonLua + libLua + releaseLua),
		renew:   newScript(now + libLua + renewLua),
		lighten: newScript(now + libLua + lightenLua),
		settle:  newScript(now + libLua + settleLua),
		look:    newScript(now + libLua + lookLua),
		check:   newScript(head + checkLua),
	}
}

// script is a text and the sum by which the server knows it.
type script struct{ text, sum string }

func newScript(text string) *script {
	return &script{text: text, sum: goredis.NewScript(text).Hash()}
}

// once is a command that go-redis sends at most once. By default it repeats what may have been
// carried out; here that is decided by those who know what a repetition does.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

// processor is what is used of a client to send a request.
type processor interface {
	Process(ctx context.Context, cmd goredis.Cmder) error
}

// call returns the command that runs s. args are the number of keys, the keys and the arguments.
func (s *script) call(ctx context.Context, args []any, byText bool) once {
	words := make([]any, 2, 2+len(args))
	words[0], words[1] = "evalsha", s.sum
	if byText {
		words[0], words[1] = "eval", s.text
	}
	return once{goredis.NewCmd(ctx, append(words, args...)...)}
}

// run sends s by client; by its text if the server does not know it.
func (s *script) run(ctx context.Context, client processor, args []any) (any, error) {
	cmd := s.call(ctx, args, false)
	err := client.Process(ctx, cmd)
	if Word(err) == "NOSCRIPT" {
		cmd = s.call(ctx, args, true)
		err = client.Process(ctx, cmd)
	}
	if err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}
