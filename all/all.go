// Package all imports every backend of this module, so that locker.Open knows the URLs of all of them; postgres and
// mysql are modules of their own. It is meant for tools; a program that knows which server it uses imports the package
// of that alone.
package all

import (
	_ "github.com/seed80cd6120/locker/etcd"
	_ "github.com/seed80cd6120/locker/file"
	_ "github.com/seed80cd6120/locker/memory"
	_ "github.com/seed80cd6120/locker/redis"
	_ "github.com/seed80cd6120/locker/redlock"
	_ "github.com/seed80cd6120/locker/zookeeper"
)
