// Command etcd is the etcd server itself, built from its published module. It is
// a module of its own because etcd's server needs very many others.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
