package cpu

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"
)

// denied lists the system calls that native/harness.c refuses, by what a candidate
// would do with them. Files that only some architectures have add theirs to
// olderCalls.
var denied = []struct {
	act   string
	calls map[uint64]string
}{
	{"start a process, which could be left running, or a thread that lets nothing stop the others", map[uint64]string{unix.SYS_CLONE: "clone"}},
	{"become another program", map[uint64]string{unix.SYS_EXECVE: "execve", unix.SYS_EXECVEAT: "execveat"}},
	{"reach into another process", map[uint64]string{
		unix.SYS_PTRACE: "ptrace", unix.SYS_PROCESS_VM_READV: "process_vm_readv", unix.SYS_PROCESS_VM_WRITEV: "process_vm_writev",
		unix.SYS_PIDFD_OPEN: "pidfd_open", unix.SYS_PIDFD_GETFD: "pidfd_getfd", unix.SYS_KCMP: "kcmp",
	}},
	{"send a signal to other processes, or one that ends or stops its own", map[uint64]string{
		unix.SYS_KILL: "kill", unix.SYS_TKILL: "tkill", unix.SYS_TGKILL: "tgkill", unix.SYS_FCNTL: "fcntl", unix.SYS_IOCTL: "ioctl",
		unix.SYS_RT_SIGQUEUEINFO: "rt_sigqueueinfo", unix.SYS_RT_TGSIGQUEUEINFO: "rt_tgsigqueueinfo", unix.SYS_PIDFD_SEND_SIGNAL: "pidfd_send_signal",
	}},
	{"have a signal sent later", map[uint64]string{unix.SYS_TIMER_CREATE: "timer_create", unix.SYS_SETITIMER: "setitimer"}},
	{"change priorities", map[uint64]string{
		unix.SYS_SETPRIORITY: "setpriority", unix.SYS_SCHED_SETSCHEDULER: "sched_setscheduler", unix.SYS_SCHED_SETPARAM: "sched_setparam",
		unix.SYS_SCHED_SETATTR: "sched_setattr", unix.SYS_IOPRIO_SET: "ioprio_set",
	}},
	{"move the memory of another process", map[uint64]string{unix.SYS_MIGRATE_PAGES: "migrate_pages", unix.SYS_MOVE_PAGES: "move_pages"}},
	{"bind another process to a core", map[uint64]string{unix.SYS_SCHED_SETAFFINITY: "sched_setaffinity"}},
	{"leave its process group", map[uint64]string{unix.SYS_SETSID: "setsid", unix.SYS_SETPGID: "setpgid", unix.SYS_UNSHARE: "unshare", unix.SYS_SETNS: "setns"}},
	{"become another user", map[uint64]string{
		unix.SYS_SETUID: "setuid", unix.SYS_SETGID: "setgid", unix.SYS_SETRESUID: "setresuid", unix.SYS_SETRESGID: "setresgid",
		unix.SYS_SETGROUPS: "setgroups", unix.SYS_CAPSET: "capset",
	}},
	{"change what is mounted", map[uint64]string{
		unix.SYS_MOUNT: "mount", unix.SYS_UMOUNT2: "umount", unix.SYS_PIVOT_ROOT: "pivot_root", unix.SYS_CHROOT: "chroot",
	}},
	{"change what the kernel does with it", map[uint64]string{unix.SYS_PRCTL: "prctl", unix.SYS_PERSONALITY: "personality"}},
	{"make code while it runs", map[uint64]string{unix.SYS_MMAP: "mmap", unix.SYS_MPROTECT: "mprotect"}},
	{"make a file in memory", map[uint64]string{unix.SYS_MEMFD_CREATE: "memfd_create"}},
	{"write a file", map[uint64]string{
		unix.SYS_OPENAT: "openat", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_TRUNCATE: "truncate", unix.SYS_FTRUNCATE: "ftruncate",
	}},
	{"remove a file", map[uint64]string{unix.SYS_UNLINKAT: "unlinkat"}},
	{"rename a file", map[uint64]string{unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2"}},
	{"change a file", map[uint64]string{unix.SYS_FCHMODAT: "fchmodat", unix.SYS_FCHOWNAT: "fchownat", unix.SYS_UTIMENSAT: "utimensat"}},
	{"watch files", map[uint64]string{unix.SYS_INOTIFY_INIT1: "inotify_init1", unix.SYS_FANOTIFY_INIT: "fanotify_init"}},
	{"open a file by its handle", map[uint64]string{unix.SYS_NAME_TO_HANDLE_AT: "name_to_handle_at", unix.SYS_OPEN_BY_HANDLE_AT: "open_by_handle_at"}},
	{"open a pipe", map[uint64]string{unix.SYS_PIPE2: "pipe2"}},
	{"use the network", map[uint64]string{
		unix.SYS_SOCKET: "socket", unix.SYS_SOCKETPAIR: "socketpair", unix.SYS_CONNECT: "connect", unix.SYS_BIND: "bind",
	}},
	{"keep memory beyond its end", map[uint64]string{
		unix.SYS_SHMGET: "shmget", unix.SYS_SEMGET: "semget", unix.SYS_MSGGET: "msgget", unix.SYS_MQ_OPEN: "mq_open", unix.SYS_ADD_KEY: "add_key",
		unix.SYS_KEYCTL: "keyctl", unix.SYS_REQUEST_KEY: "request_key",
	}},
	{"lock memory", map[uint64]string{unix.SYS_MLOCKALL: "mlockall"}},
	{"change its limits", map[uint64]string{unix.SYS_SETRLIMIT: "setrlimit"}},
	{"change limits", map[uint64]string{unix.SYS_PRLIMIT64: "prlimit"}},
	{"make system calls that no filter sees", map[uint64]string{unix.SYS_IO_URING_SETUP: "io_uring_setup"}},
	{"learn when its memory is read", map[uint64]string{unix.SYS_USERFAULTFD: "userfaultfd"}},
	{"count what others do", map[uint64]string{unix.SYS_PERF_EVENT_OPEN: "perf_event_open"}},
	{"load a program into the kernel", map[uint64]string{unix.SYS_BPF: "bpf"}},
	{"read the kernel's log", map[uint64]string{unix.SYS_SYSLOG: "syslog"}},
	{"set the clock", map[uint64]string{
		unix.SYS_CLOCK_SETTIME: "clock_settime", unix.SYS_SETTIMEOFDAY: "settimeofday", unix.SYS_ADJTIMEX: "adjtimex",
		unix.SYS_CLOCK_ADJTIME: "clock_adjtime",
	}},
}

// An olderCall does what another one does, and is known by its own name.
type olderCall struct {
	name string
	does uint64
}

var olderCalls = map[uint64]olderCall{}

// deniedReason says what a candidate did when the sandbox ended it.
func deniedReason(call uint64) string {
	older := olderCalls[call]
	for _, d := range denied {
		for number, name := range d.calls {
			if number == call || number == older.does && older.name != "" {
				return fmt.Sprintf("tried to %s (%s is refused to candidates)", d.act, cmp.Or(older.name, name))
			}
		}
	}
	return fmt.Sprintf("made a system call that is refused to candidates (number %d)", call)
}
