//go:build race

package memory

func init() { manyLocks = 10_000 } // the race detector makes each ten times as dear
