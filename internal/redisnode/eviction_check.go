package redisnode

import (
	"log/slog"
	"strings"
)

// CheckEviction has the operator warned, once, of a server that throws keys away when its memory is
// full. It asks nothing if nobody would hear the warning.
func (n *Node) CheckEviction() {
	n.policy.Do(func() {
		log := n.opts.Logger
		if !log.Enabled(n.life, slog.LevelWarn) {
			return
		}
		n.working.Go(func() {
			info, err := n.client.Info(n.life, "memory").Result()
			if err != nil {
				return // the user may not ask, or the server is away
			}
			policy := field(info, "maxmemory_policy")
			if limit := field(info, "maxmemory"); limit != "0" && policy != "" && policy != "noeviction" {
				log.Warn("locker: redis: the server may throw locks away when its memory is full; "+
					"set maxmemory-policy to noeviction", "maxmemory-policy", policy, "maxmemory", limit)
			}
		})
	})
}

// field returns the value of a line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
