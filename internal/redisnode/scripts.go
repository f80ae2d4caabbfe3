package redisnode

import (
	"context"
	"embed"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var texts embed.FS

// scripts are the scripts for one kind of server.
type scripts struct {
	acquire, release, renew, lighten, look, listening script
}

func newScripts(sharded bool) scripts {
	return scripts{
		acquire: load(sharded, "short", "acquire_short", "lib", "acquire"),
		release: load(sharded, "short", "release_short", "lib", "release"),
		renew:   load(sharded, "lib", "renew"), lighten: load(sharded, "lib", "lighten"), look: load(sharded, "lib", "look"),
		listening: load(sharded, "listening"),
	}
}

// load returns the script that files make up.
func load(sharded bool, names ...string) script {
	text := "local PUBLISH, LISTENERS = 'PUBLISH', 'NUMSUB'\n"
	if sharded {
		text = "local PUBLISH, LISTENERS = 'SPUBLISH', 'SHARDNUMSUB'\n"
	}
	text += "local time = redis.call('TIME')\nlocal now = time[1] * 1000000 + time[2]\n"
	for _, name := range names {
		part, _ := texts.ReadFile("lua/" + name + ".lua")
		text += string(part)
	}
	return script{text, goredis.NewScript(text).Hash()}
}

// script is a text and the sum by which the server knows it.
type script struct{ text, sum string }

// once is a command that go-redis sends at most once. By default it repeats what may have been carried
// out; here that is decided by those who know what a repetition does.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

// call returns the command that runs s, by its text or its sum. args are the number of keys, the keys and
// the arguments.
func (s script) call(ctx context.Context, args []any, byText bool) once {
	words := []any{"evalsha", s.sum}
	if byText {
		words = []any{"eval", s.text}
	}
	return once{goredis.NewCmd(ctx, append(words, args...)...)}
}

// run sends s by client; by its text if the server does not know it.
func (s script) run(ctx context.Context, client goredis.UniversalClient, args []any) (any, error) {
	cmd := s.call(ctx, args, false)
	err := client.Process(ctx, cmd)
	if Word(err) == "NOSCRIPT" {
		cmd = s.call(ctx, args, true)
		err = client.Process(ctx, cmd)
	}
	return cmd.Val(), err
}
