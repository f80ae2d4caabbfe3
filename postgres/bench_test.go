package postgres

import (
	"testing"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
)

func Benchmark(b *testing.B) {
	server := servers.NewPostgres(b, servers.PostgresOptions{})
	guarded := servers.NewPostgres(b, servers.PostgresOptions{Password: "secret"})
	conformance.Benchmark(b, setup{}.harness(b, server, guarded, address{statements: server.URL(), listen: server.URL()}))
}
