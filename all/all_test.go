package all

import (
	"context"
	"testing"

	"github.com/seed80cd6120/locker"
)

// Every scheme that the core names as one of this module is there, and needs no server to be refused.
func TestSchemes(t *testing.T) {
	ctx := context.Background()
	for _, url := range []string{
		"memory://", "memory://x",
		"redis://h", "rediss://:p@h/1", "redis+sentinel://a,b:1/m?db=1", "rediss+sentinel://a/m", "redis+cluster://a,b", "rediss+cluster://a",
		"redlock://a,b,c", "redlocks://a,b,c?fencing=false&node-timeout=1s&prefix=x", "etcd://a,b", "etcds://a?prefix=x",
	} {
		l, err := locker.Open(ctx, url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := l.Close(ctx); err != nil {
			t.Errorf("%s: close: %v", url, err)
		}
	}
}
