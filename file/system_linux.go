package file

import (
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// now returns the time on a clock that all processes of the machine share, that nobody sets, and that goes on while the
// machine sleeps, in nanoseconds since it was started.
func now() int64 {
	const clockBoottime = 7
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return time.Now().UnixNano() // on no kernel that Go runs on
	}
	return ts.Nano()
}

// bootID returns what is different after each start of the machine.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// remote are the file systems that are not known to keep what flock and inotify promise, by their numbers in statfs.
var remote = map[uint32]string{
	0x6969:     "NFS",
	0xff534d42: "CIFS",
	0x517b:     "SMB",
	0xfe534d42: "SMB",
	0x65735546: "FUSE",
	0x01021997: "9p",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x73757245: "Coda",
	0x564c:     "NCP",
	0x00c36400: "Ceph",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
}

// networkFileSystem returns the kind of the file system of dir if it is not local.
func networkFileSystem(dir string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return ""
	}
	return remote[uint32(st.Type)]
}
