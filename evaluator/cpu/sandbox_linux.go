package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// deniedCalls names the system calls that native/harness.c refuses, by what a
// candidate would do with them. Files that only some architectures have add
// theirs.
var deniedCalls = map[uint64]struct{ name, act string }{
	unix.SYS_CLONE:             {"clone", startProcessAct},
	unix.SYS_EXECVE:            {"execve", "become another program"},
	unix.SYS_EXECVEAT:          {"execveat", "become another program"},
	unix.SYS_PTRACE:            {"ptrace", otherProcessAct},
	unix.SYS_PROCESS_VM_READV:  {"process_vm_readv", otherProcessAct},
	unix.SYS_PROCESS_VM_WRITEV: {"process_vm_writev", otherProcessAct},
	unix.SYS_KILL:              {"kill", "send a signal to other processes"},
	unix.SYS_TKILL:             {"tkill", "send a signal to other processes"},
	unix.SYS_TGKILL:            {"tgkill", "send a signal to other processes"},
	unix.SYS_SETSID:            {"setsid", "leave its process group"},
	unix.SYS_SETPGID:           {"setpgid", "leave its process group"},
	unix.SYS_PRCTL:             {"prctl", "outlive evotune"},
	unix.SYS_OPENAT:            {"openat", writeFileAct},
	unix.SYS_UNLINKAT:          {"unlinkat", "remove a file"},
	unix.SYS_RENAMEAT:          {"renameat", "rename a file"},
	unix.SYS_RENAMEAT2:         {"renameat2", "rename a file"},
	unix.SYS_MKDIRAT:           {"mkdirat", writeFileAct},
	unix.SYS_TRUNCATE:          {"truncate", writeFileAct},
	unix.SYS_SOCKET:            {"socket", "use the network"},
	unix.SYS_CONNECT:           {"connect", "use the network"},
	unix.SYS_BIND:              {"bind", "use the network"},
	unix.SYS_SHMGET:            {"shmget", "keep memory beyond its end"},
	unix.SYS_SETRLIMIT:         {"setrlimit", "change its limits"},
	unix.SYS_PRLIMIT64:         {"prlimit", "change its limits"},
	unix.SYS_CLOCK_SETTIME:     {"clock_settime", "set the clock"},
	unix.SYS_SETTIMEOFDAY:      {"settimeofday", "set the clock"},
	unix.SYS_ADJTIMEX:          {"adjtimex", "set the clock"},
	unix.SYS_CLOCK_ADJTIME:     {"clock_adjtime", "set the clock"},
}

const (
	startProcessAct = "start a process, which could be left running"
	otherProcessAct = "reach into another process"
	writeFileAct    = "write a file"
)

// deniedReason says what a candidate did when the sandbox ended it.
func deniedReason(call uint64) string {
	if c, ok := deniedCalls[call]; ok {
		return fmt.Sprintf("tried to %s (%s is refused to candidates)", c.act, c.name)
	}
	return fmt.Sprintf("made a system call that is refused to candidates (number %d)", call)
}
