package redisnode

import (
	"log/slog"
	"strings"
)

// CheckEviction has the operator warned, once, of a server that throws keys away when its memory is full.
// It asks nothing if nobody would hear the warning.
func (n *Node) CheckEviction() {
	n.eviction.Do(func() {
		log := n.opts.Logger
		if !log.Enabled(n.life, slog.LevelWarn) {
			return
		}
		n.working.Go(func() {
			info, _ := n.client.Info(n.life, "memory").Result() // the user may not ask, or the server is away
			_, policy, _ := strings.Cut(info, "\nmaxmemory_policy:")
			policy, _, _ = strings.Cut(policy, "\r")
			if policy != "" && policy != "noeviction" && !strings.Contains(info, "\nmaxmemory:0\r") {
				log.Warn("locker: redis: the server may throw locks away when its memory is full; "+
					"set maxmemory-policy to noeviction", "maxmemory-policy", policy)
			}
		})
	})
}
