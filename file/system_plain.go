//go:build !linux && !darwin && !freebsd && !dragonfly

package file

// networkFileSystem cannot tell.
func networkFileSystem(string) string { return "" }
