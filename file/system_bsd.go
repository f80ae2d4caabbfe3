//go:build darwin || freebsd || dragonfly

package file

import "syscall"

// networkFileSystem returns the kind of the file system of dir if it is not local.
func networkFileSystem(dir string) string {
	const local = 0x1000 // MNT_LOCAL
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) == nil && uint64(st.Flags)&local == 0 {
		return "a file system that is not local"
	}
	return ""
}
