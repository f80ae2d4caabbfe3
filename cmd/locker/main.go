//go:build unix

// Command locker takes named locks for programs that are not written in Go.
//
//	locker run backup -- ./backup.sh
//	locker run -n --url redis://db1 migrate -- ./migrate.sh
//	locker inspect backup
//
// See README.md in this folder, and locker --help.
package main

import (
	"context"
	"os"

	goredis "github.com/redis/go-redis/v9"

	_ "github.com/seed80cd6120/locker/etcd"
	_ "github.com/seed80cd6120/locker/file"
	"github.com/seed80cd6120/locker/internal/cli"
	"github.com/seed80cd6120/locker/internal/cli/doctor"
	_ "github.com/seed80cd6120/locker/redis"
	_ "github.com/seed80cd6120/locker/redlock"
	_ "github.com/seed80cd6120/locker/zookeeper"
)

func main() {
	goredis.SetLogger(silent{}) // what matters is in the errors
	os.Exit(cli.Main(os.Args, doctor.Checks))
}

// silent drops what the client of Redis has to say.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
