package redis

import (
	"context"
	_ "embed"
	"strconv"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lua/shared.lua
var sharedLua string

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

var (
	acquireScript = newScript(sharedLua + acquireLua)
	releaseScript = newScript(sharedLua + releaseLua)
	abandonScript = newScript(sharedLua + abandonLua)
	renewScript   = newScript(renewLua)
	helloScript   = newScript(helloLua)
)

type script struct{ text, sum string }

func newScript(text string) script {
	return script{text: text, sum: goredis.NewScript(text).Hash()}
}

// once is a command that go-redis sends at most once. By default it repeats
// what may have been carried out; here that decision is made by those who know
// what a repetition does.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

// call makes the command that runs s, by its checksum or by its text.
func (s script) call(ctx context.Context, byText bool, keys []string, args []any) once {
	all := make([]any, 0, 3+len(keys)+len(args))
	if byText {
		all = append(all, "eval", s.text)
	} else {
		all = append(all, "evalsha", s.sum)
	}
	all = append(all, strconv.Itoa(len(keys)))
	for _, key := range keys {
		all = append(all, key)
	}
	return once{goredis.NewCmd(ctx, append(all, args...)...)}
}

// run runs s. A server that does not know it (any more) is given its text.
func (s script) run(ctx context.Context, client goredis.UniversalClient, keys []string, args ...any) (any, error) {
	cmd := s.call(ctx, false, keys, args)
	err := client.Process(ctx, cmd)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = s.call(ctx, true, keys, args)
		err = client.Process(ctx, cmd)
	}
	if err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}
