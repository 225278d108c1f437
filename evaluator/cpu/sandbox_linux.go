package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// deniedCalls names the system calls that native/harness.c refuses, by what a
// candidate would do with them. Files that only some architectures have add
// theirs.
var deniedCalls = map[uint64]struct{ name, act string }{
	unix.SYS_CLONE:              {"clone", startProcessAct},
	unix.SYS_EXECVE:             {"execve", "become another program"},
	unix.SYS_EXECVEAT:           {"execveat", "become another program"},
	unix.SYS_PTRACE:             {"ptrace", otherProcessAct},
	unix.SYS_PROCESS_VM_READV:   {"process_vm_readv", otherProcessAct},
	unix.SYS_PROCESS_VM_WRITEV:  {"process_vm_writev", otherProcessAct},
	unix.SYS_PIDFD_OPEN:         {"pidfd_open", otherProcessAct},
	unix.SYS_PIDFD_GETFD:        {"pidfd_getfd", otherProcessAct},
	unix.SYS_KILL:               {"kill", signalAct},
	unix.SYS_TKILL:              {"tkill", signalAct},
	unix.SYS_TGKILL:             {"tgkill", signalAct},
	unix.SYS_FCNTL:              {"fcntl", signalAct},
	unix.SYS_IOCTL:              {"ioctl", signalAct},
	unix.SYS_TIMER_CREATE:       {"timer_create", "have a signal sent later"},
	unix.SYS_SETITIMER:          {"setitimer", "have a signal sent later"},
	unix.SYS_SETPRIORITY:        {"setpriority", priorityAct},
	unix.SYS_SCHED_SETSCHEDULER: {"sched_setscheduler", priorityAct},
	unix.SYS_SCHED_SETPARAM:     {"sched_setparam", priorityAct},
	unix.SYS_SCHED_SETATTR:      {"sched_setattr", priorityAct},
	unix.SYS_SCHED_SETAFFINITY:  {"sched_setaffinity", "bind another process to a core"},
	unix.SYS_SETSID:             {"setsid", "leave its process group"},
	unix.SYS_SETPGID:            {"setpgid", "leave its process group"},
	unix.SYS_UNSHARE:            {"unshare", "leave its process group"},
	unix.SYS_PRCTL:              {"prctl", "change what the kernel does with it"},
	unix.SYS_PERSONALITY:        {"personality", "change what the kernel does with it"},
	unix.SYS_MMAP:               {"mmap", makeCodeAct},
	unix.SYS_MPROTECT:           {"mprotect", makeCodeAct},
	unix.SYS_MEMFD_CREATE:       {"memfd_create", makeFileAct},
	unix.SYS_OPENAT:             {"openat", writeFileAct},
	unix.SYS_UNLINKAT:           {"unlinkat", "remove a file"},
	unix.SYS_RENAMEAT:           {"renameat", "rename a file"},
	unix.SYS_RENAMEAT2:          {"renameat2", "rename a file"},
	unix.SYS_MKDIRAT:            {"mkdirat", writeFileAct},
	unix.SYS_TRUNCATE:           {"truncate", writeFileAct},
	unix.SYS_FTRUNCATE:          {"ftruncate", writeFileAct},
	unix.SYS_FCHMODAT:           {"fchmodat", changeFileAct},
	unix.SYS_FCHOWNAT:           {"fchownat", changeFileAct},
	unix.SYS_UTIMENSAT:          {"utimensat", changeFileAct},
	unix.SYS_INOTIFY_INIT1:      {"inotify_init1", "watch files"},
	unix.SYS_PIPE2:              {"pipe2", "open a pipe"},
	unix.SYS_SOCKET:             {"socket", networkAct},
	unix.SYS_SOCKETPAIR:         {"socketpair", networkAct},
	unix.SYS_CONNECT:            {"connect", networkAct},
	unix.SYS_BIND:               {"bind", networkAct},
	unix.SYS_SHMGET:             {"shmget", keepMemoryAct},
	unix.SYS_SEMGET:             {"semget", keepMemoryAct},
	unix.SYS_MSGGET:             {"msgget", keepMemoryAct},
	unix.SYS_MQ_OPEN:            {"mq_open", keepMemoryAct},
	unix.SYS_ADD_KEY:            {"add_key", keepMemoryAct},
	unix.SYS_MLOCKALL:           {"mlockall", "lock memory"},
	unix.SYS_SETRLIMIT:          {"setrlimit", "change its limits"},
	unix.SYS_PRLIMIT64:          {"prlimit", "change limits"},
	unix.SYS_IO_URING_SETUP:     {"io_uring_setup", "make system calls that no filter sees"},
	unix.SYS_USERFAULTFD:        {"userfaultfd", "learn when its memory is read"},
	unix.SYS_PERF_EVENT_OPEN:    {"perf_event_open", "count what others do"},
	unix.SYS_BPF:                {"bpf", "load a program into the kernel"},
	unix.SYS_CLOCK_SETTIME:      {"clock_settime", setClockAct},
	unix.SYS_SETTIMEOFDAY:       {"settimeofday", setClockAct},
	unix.SYS_ADJTIMEX:           {"adjtimex", setClockAct},
	unix.SYS_CLOCK_ADJTIME:      {"clock_adjtime", setClockAct},
}

const (
	startProcessAct = "start a process, which could be left running"
	otherProcessAct = "reach into another process"
	writeFileAct    = "write a file"
	changeFileAct   = "change a file"
	makeFileAct     = "make a file in memory"
	makeCodeAct     = "make code while it runs"
	signalAct       = "send a signal to other processes"
	priorityAct     = "change priorities"
	networkAct      = "use the network"
	keepMemoryAct   = "keep memory beyond its end"
	setClockAct     = "set the clock"
)

// deniedReason says what a candidate did when the sandbox ended it.
func deniedReason(call uint64) string {
	if c, ok := deniedCalls[call]; ok {
		return fmt.Sprintf("tried to %s (%s is refused to candidates)", c.act, c.name)
	}
	return fmt.Sprintf("made a system call that is refused to candidates (number %d)", call)
}
