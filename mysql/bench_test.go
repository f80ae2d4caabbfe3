package mysql

import (
	"testing"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
)

func Benchmark(b *testing.B) {
	server := servers.NewMariaDB(b, servers.MariaDBOptions{})
	guarded := servers.NewMariaDB(b, servers.MariaDBOptions{Password: "secret"})
	conformance.Benchmark(b, setup{}.harness(b, server, guarded))
}
