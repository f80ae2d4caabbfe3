//go:build js && wasm

// Command demo is the page's program: it offers the story to the page's script as the global object
// "story".
package main

import (
	"encoding/json"
	"net/url"
	"syscall/js"
	"time"

	"github.com/seed80cd6120/locker/demo/story"
)

func main() {
	s, err := story.New(ttl())
	if err != nil {
		panic(err)
	}
	object := js.Global().Get("Object").New()
	for name, act := range map[string]func(client int){
		"acquire": s.Acquire, "write": s.Write, "release": s.Release, "pause": s.Pause,
	} {
		object.Set(name, js.FuncOf(func(_ js.Value, args []js.Value) any {
			act(args[0].Int())
			return nil
		}))
	}
	object.Set("failOver", js.FuncOf(func(js.Value, []js.Value) any {
		if err := s.FailOver(); err != nil {
			panic(err)
		}
		return nil
	}))
	object.Set("state", js.FuncOf(func(js.Value, []js.Value) any {
		state, err := s.State()
		if err != nil {
			panic(err)
		}
		text, err := json.Marshal(state)
		if err != nil {
			panic(err)
		}
		return string(text)
	}))
	js.Global().Set("story", object)
	select {}
}

// ttl returns what the page's address says, or 6 seconds.
func ttl() time.Duration {
	address, err := url.Parse(js.Global().Get("location").Get("href").String())
	if err == nil {
		if d, err := time.ParseDuration(address.Query().Get("ttl")); err == nil && d > 0 {
			return d
		}
	}
	return 6 * time.Second
}
