//go:build race && linux

package file

func init() { idleShare *= 5 } // the race detector makes everything cost several times as much
