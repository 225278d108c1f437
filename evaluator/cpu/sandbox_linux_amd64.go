package cpu

import "golang.org/x/sys/unix"

func init() {
	olderCalls = map[uint64]olderCall{
		unix.SYS_FORK: {"fork", unix.SYS_CLONE}, unix.SYS_VFORK: {"vfork", unix.SYS_CLONE},
		unix.SYS_OPEN: {"open", unix.SYS_OPENAT}, unix.SYS_CREAT: {"creat", unix.SYS_OPENAT},
		unix.SYS_UNLINK: {"unlink", unix.SYS_UNLINKAT}, unix.SYS_RMDIR: {"rmdir", unix.SYS_UNLINKAT},
		unix.SYS_RENAME: {"rename", unix.SYS_RENAMEAT}, unix.SYS_MKDIR: {"mkdir", unix.SYS_MKDIRAT},
		unix.SYS_PIPE: {"pipe", unix.SYS_PIPE2}, unix.SYS_ALARM: {"alarm", unix.SYS_SETITIMER},
		unix.SYS_CHMOD: {"chmod", unix.SYS_FCHMODAT}, unix.SYS_CHOWN: {"chown", unix.SYS_FCHOWNAT},
		unix.SYS_UTIME: {"utime", unix.SYS_UTIMENSAT}, unix.SYS_UTIMES: {"utimes", unix.SYS_UTIMENSAT},
	}
}
