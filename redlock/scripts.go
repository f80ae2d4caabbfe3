package redlock

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

var (
	//go:embed lua/bid.lua
	bidSource string
	//go:embed lua/confirm.lua
	confirmSource string
	//go:embed lua/renew.lua
	renewSource string
	//go:embed lua/release.lua
	releaseSource string

	bidScript     = newScript(bidSource)
	confirmScript = newScript(confirmSource)
	renewScript   = newScript(renewSource)
	releaseScript = newScript(releaseSource)
)

// script is a script and the name under which servers remember it.
type script struct{ source, sha string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// call is the command that runs the script, room for the arguments included.
func (s *script) call(keys []string, argv ...string) []any {
	args := make([]any, 0, 3+len(keys)+len(argv))
	args = append(args, "evalsha", s.sha, len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	for _, a := range argv {
		args = append(args, a)
	}
	return args
}

// spelledOut is the same call with the script itself, for a server that does not
// know it (yet, or any more).
func (s *script) spelledOut(args []any) []any {
	return append([]any{"eval", s.source}, args[2:]...)
}
