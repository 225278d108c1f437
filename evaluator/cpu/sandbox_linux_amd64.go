package cpu

import "golang.org/x/sys/unix"

func init() {
	for call, c := range map[uint64]struct{ name, act string }{
		unix.SYS_FORK:   {"fork", startProcessAct},
		unix.SYS_VFORK:  {"vfork", startProcessAct},
		unix.SYS_OPEN:   {"open", writeFileAct},
		unix.SYS_CREAT:  {"creat", writeFileAct},
		unix.SYS_UNLINK: {"unlink", "remove a file"},
		unix.SYS_RENAME: {"rename", "rename a file"},
		unix.SYS_MKDIR:  {"mkdir", writeFileAct},
		unix.SYS_RMDIR:  {"rmdir", "remove a file"},
		unix.SYS_PIPE:   {"pipe", "open a pipe"},
		unix.SYS_ALARM:  {"alarm", "have a signal sent later"},
		unix.SYS_CHMOD:  {"chmod", changeFileAct},
		unix.SYS_CHOWN:  {"chown", changeFileAct},
		unix.SYS_UTIME:  {"utime", changeFileAct},
		unix.SYS_UTIMES: {"utimes", changeFileAct},
	} {
		deniedCalls[call] = c
	}
}
