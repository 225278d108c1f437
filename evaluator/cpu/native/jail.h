/*
 * What a process with a candidate in it may do: the paths that it may open
 * (Landlock) and the system calls that it may make (seccomp).
 *
 * Calls that an honest kernel or its libraries make are allowed. Acts on
 * others, and what would outlive the process, end it. All other calls do not
 * exist: they answer ENOSYS, as an old kernel would.
 */
#ifndef EVOTUNE_JAIL_H
#define EVOTUNE_JAIL_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__aarch64__)
#define HAVE_SANDBOX 1
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#endif

/* Rights of Landlock: to execute, to read a file, to read a folder. */
#define LANDLOCK_READ (1 | 4 | 8)
/* What a file, and not a folder, can be asked for: also to write, to truncate
 * and to control a device. */
#define LANDLOCK_FILE (1 | 2 | 4 | 1 << 14 | 1 << 15)

static int landlock_rule(int set, const char *path, uint64_t access)
{
	struct { uint64_t access; int32_t parent; } __attribute__((packed)) beneath;
	struct stat about;
	const int at = open(path, O_PATH | O_CLOEXEC);
	if (at < 0)
		return 0; /* what is not there is not opened */
	if (fstat(at, &about) == 0 && !S_ISDIR(about.st_mode))
		access &= LANDLOCK_FILE;
	beneath.access = access;
	beneath.parent = at;
	const int failed = syscall(445 /* landlock_add_rule */, set, 1, &beneath, 0) ? errno : 0;
	close(at);
	return failed;
}

/* Leaves this process, and what it executes, nothing but the paths of a list
 * "r/lib:w/tmp/x": r to read and execute, w to change as well. The files in its own folder
 * of /proc can be read. Returns 0 or an error. */
static int lock_paths(char *list)
{
	const int version = (int)syscall(444 /* landlock_create_ruleset */, 0, 0, 1);
	if (version < 1)
		return ENOSYS;
	struct { uint64_t files, network, scopes; } rules = {0};
	/* Newer versions know more rights: to link across folders, to truncate, to
	 * control devices; to bind and connect; to reach sockets and to signal
	 * processes that are not locked in with this one. */
	rules.files = ((uint64_t)1 << (version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13)) - 1;
	rules.network = version >= 4 ? 3 : 0;
	rules.scopes = version >= 6 ? 3 : 0;
	const int set = (int)syscall(444, &rules, version >= 6 ? 24 : version >= 4 ? 16 : 8, 0);
	if (set < 0)
		return errno;
	int failed = landlock_rule(set, "/proc/self", 4);
	for (char *rest = 0, *entry = strtok_r(list, ":", &rest); entry && !failed; entry = strtok_r(0, ":", &rest))
		failed = landlock_rule(set, entry + 1, entry[0] == 'w' ? rules.files : LANDLOCK_READ);
	if (!failed && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		failed = errno;
	if (!failed && syscall(446 /* landlock_restrict_self */, set, 0))
		failed = errno;
	close(set);
	return failed;
}

#ifdef HAVE_SANDBOX

/* Answers that a call was refused, and ends the process. */
static void refused(int signal, siginfo_t *info, void *context);

#define NR offsetof(struct seccomp_data, nr)
#define ARG(n) (offsetof(struct seccomp_data, args) + 8 * (n)) /* low half, little endian */
#define LOAD_WORD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), (yes), (no))
#define IF_BITS(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)(bits), (yes), (no))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define TRAP RETURN(end)
#define REFUSE(error) RETURN(SECCOMP_RET_ERRNO | (error))
#define ALLOW RETURN(SECCOMP_RET_ALLOW)
/* PASS allows a call, DENY ends the process. */
#define PASS(call) IF(call, 0, 1), ALLOW
#define DENY(call) IF(call, 0, 1), TRAP
/* Calls whose argument decides. Every way through a block returns. */
/* Signals to itself, but for those of whoever takes its end or its stop for somebody else's. */
#define PASS_SIGNAL(call, n) IF(call, 0, 7), LOAD_WORD(ARG(0)), IF(self, 0, 3), LOAD_WORD(ARG(n)), \
	IF(SIGKILL, 1, 0), IF(SIGSTOP, 0, 1), TRAP, ALLOW
#define PASS_UNLESS_BITS(call, n, bits) IF(call, 0, 4), LOAD_WORD(ARG(n)), IF_BITS(bits, 0, 1), TRAP, ALLOW
#define PASS_IF(call, n, value) IF(call, 0, 4), LOAD_WORD(ARG(n)), IF(value, 1, 0), TRAP, ALLOW

/* No clock of another process, which would tell what evotune does: of a thread Linux gives a process its own alone. */
#define PASS_CLOCK(call) IF(call, 0, 7), LOAD_WORD(ARG(0)), IF_BITS(0x80000000, 0, 4), IF_BITS(4, 3, 0), \
	IF(~self << 3 | 2, 2, 0), IF(~0u << 3 | 2 /* its own, too */, 1, 0), REFUSE(EINVAL), ALLOW

#define OPEN_TO_WRITE (1 /* O_WRONLY */ | 2 /* O_RDWR */ | 0100 /* O_CREAT */ | 01000 /* O_TRUNC */)
#define THREAD 0x00010000 /* CLONE_THREAD */
/* The flags of C libraries' threads. With VFORK one would wait where it takes no signals. */
#define OF_THREADS (THREAD | 0x00000f00 /* VM, FS, FILES, SIGHAND */ | 0x00040000 /* SYSVSEM */ | 0x00080000 /* SETTLS */ | \
	0x00100000 /* PARENT_SETTID */ | 0x00200000 /* CHILD_CLEARTID */ | 0x00400000 /* DETACHED */)
#ifdef __x86_64__
#define RSEQ 334
#else
#define RSEQ 293
#endif

/* Installs the filter. What it allows besides is said by letters:
 * h  A sanitizer's build may open pipes, with which it asks whether memory can be
 *    read, and make code, as valgrind does.
 * v  Under valgrind no handler can answer for a refused call: the kernel ends it.
 * c  Valgrind ends its threads with tkill, whose target no filter can tell from
 *    others. It may where Landlock confines signals. */
#ifndef __clang__
__attribute__((noinline, optimize("O0"))) /* gcc's passes over the stores to the array take a second, and find nothing */
#endif
static int filter_calls(int control, const char *letters)
{
	const int valgrind = strchr(letters, 'v') != 0;
	const uint32_t self = (uint32_t)getpid(), parent = (uint32_t)getppid();
	const uint32_t end = valgrind ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_TRAP;
	const uint32_t tkill = valgrind && strchr(letters, 'c') ? SECCOMP_RET_ALLOW : end;
	const uint32_t pipes = strchr(letters, 'h') ? SECCOMP_RET_ALLOW : end, code = pipes;
	struct sock_filter filter[] = {
		LOAD_WORD(offsetof(struct seccomp_data, arch)),
#ifdef __x86_64__
		IF(AUDIT_ARCH_X86_64, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD_WORD(NR),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), RETURN(SECCOMP_RET_KILL_PROCESS),
		PASS_UNLESS_BITS(SYS_open, 1, OPEN_TO_WRITE),
		PASS(SYS_stat), PASS(SYS_lstat), PASS(SYS_access), PASS(SYS_readlink), PASS(SYS_poll),
		PASS(SYS_time), PASS(SYS_arch_prctl), PASS(SYS_getdents), PASS(SYS_getpgrp),
		DENY(SYS_fork), DENY(SYS_vfork), DENY(SYS_creat),
		DENY(SYS_unlink), DENY(SYS_rename), DENY(SYS_link), DENY(SYS_symlink),
		DENY(SYS_mkdir), DENY(SYS_rmdir), DENY(SYS_mknod), DENY(SYS_chmod), DENY(SYS_chown),
		DENY(SYS_lchown), DENY(SYS_utime), DENY(SYS_utimes), DENY(SYS_futimesat),
		DENY(SYS_alarm), DENY(SYS_inotify_init), IF(SYS_pipe, 0, 1), RETURN(pipes),
#else
		IF(AUDIT_ARCH_AARCH64, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD_WORD(NR),
#endif
		/* The harness's own socket. */
		IF(SYS_sendto, 0, 4), LOAD_WORD(ARG(0)), IF(control, 1, 0), REFUSE(ENOTSOCK), ALLOW,
		IF(SYS_recvfrom, 0, 4), LOAD_WORD(ARG(0)), IF(control, 1, 0), REFUSE(ENOTSOCK), ALLOW,
		/* Clocks and waiting. */
		PASS_CLOCK(SYS_clock_gettime), PASS_CLOCK(SYS_clock_getres), PASS(SYS_gettimeofday), PASS(SYS_times),
		PASS_CLOCK(SYS_clock_nanosleep), PASS(SYS_nanosleep), PASS(SYS_getrusage), PASS(SYS_ppoll),
		/* Memory: what was not read from a file is not executed. */
		IF(SYS_mmap, 0, 7), LOAD_WORD(ARG(2)), IF_BITS(4 /* PROT_EXEC */, 0, 4), IF_BITS(2 /* PROT_WRITE */, 2, 0),
		LOAD_WORD(ARG(3)), IF_BITS(0x20 /* MAP_ANONYMOUS */, 0, 1), RETURN(code), ALLOW,
		IF(SYS_mprotect, 0, 4), LOAD_WORD(ARG(2)), IF_BITS(4, 0, 1), RETURN(code), ALLOW,
		PASS(SYS_munmap), PASS(SYS_mremap), PASS(SYS_brk), PASS(SYS_mincore),
		/* Advice by which memory is taken from all who share it, or moved: REMOVE, COLD, PAGEOUT, COLLAPSE. */
		IF(SYS_madvise, 0, 7), LOAD_WORD(ARG(2)), IF(9, 4, 0), IF(20, 3, 0), IF(21, 2, 0), IF(25, 1, 0), ALLOW, REFUSE(EINVAL),
		/* Threads. */
		IF(SYS_clone3, 0, 1), REFUSE(ENOSYS), /* its flags lie in memory, where no filter sees them */
		IF(SYS_clone, 0, 5), LOAD_WORD(ARG(0)), IF_BITS(THREAD, 0, 1), IF_BITS(~OF_THREADS, 0, 1), TRAP, ALLOW,
		PASS(SYS_futex), PASS(SYS_sched_yield), PASS(SYS_exit), PASS(SYS_exit_group),
		PASS(SYS_set_robust_list), PASS(SYS_set_tid_address), PASS(RSEQ), PASS(SYS_membarrier),
		PASS(SYS_sched_getaffinity), PASS(SYS_sched_getparam), PASS(SYS_sched_getscheduler),
		PASS(SYS_sched_get_priority_max), PASS(SYS_sched_get_priority_min), PASS(SYS_getcpu), PASS(SYS_getpriority),
		IF(SYS_sched_setaffinity, 0, 7), LOAD_WORD(ARG(0)), IF(0, 3, 0), IF(self, 2, 0), IF(parent, 0, 2),
		TRAP, ALLOW, REFUSE(EPERM),
		/* Signals, but for that of a refused call. */
		IF(SYS_rt_sigaction, 0, 4), LOAD_WORD(ARG(0)), IF(SIGSYS, 0, 1), REFUSE(EPERM), ALLOW,
		PASS(SYS_rt_sigprocmask), PASS(SYS_rt_sigreturn), PASS(SYS_rt_sigsuspend), PASS(SYS_rt_sigpending),
		PASS(SYS_rt_sigtimedwait), PASS(SYS_sigaltstack), PASS(SYS_restart_syscall),
		PASS_SIGNAL(SYS_kill, 1), PASS_SIGNAL(SYS_tgkill, 2),
		/* Files to read, where Landlock lets it. */
		PASS_UNLESS_BITS(SYS_openat, 2, OPEN_TO_WRITE),
		PASS(SYS_read), PASS(SYS_readv), PASS(SYS_pread64), PASS(SYS_write), PASS(SYS_writev), PASS(SYS_close),
		PASS(SYS_fstat), PASS(SYS_newfstatat), PASS(SYS_statx), PASS(SYS_lseek), PASS(SYS_faccessat),
		PASS(439 /* faccessat2 */), PASS(SYS_readlinkat), PASS(SYS_getcwd), PASS(SYS_getdents64), PASS(436 /* close_range */),
		/* A descriptor's owner gets signals. */
		IF(SYS_fcntl, 0, 17), LOAD_WORD(ARG(1)), IF(F_DUPFD, 14, 0), IF(F_GETFD, 13, 0), IF(F_SETFD, 12, 0),
		IF(F_GETFL, 11, 0), IF(F_DUPFD_CLOEXEC, 10, 0), IF(F_SETFL, 6, 0), IF(F_SETOWN, 7, 0), IF(F_SETSIG, 6, 0),
		IF(F_SETOWN_EX, 5, 0), IF(F_SETLEASE, 4, 0), IF(F_NOTIFY, 3, 0), REFUSE(EINVAL),
		LOAD_WORD(ARG(2)), IF_BITS(O_ASYNC, 0, 1), TRAP, ALLOW,
		IF(SYS_ioctl, 0, 9), LOAD_WORD(ARG(1)), IF(0x5401 /* TCGETS */, 6, 0), IF(0x5413 /* TIOCGWINSZ */, 5, 0),
		IF(0x8901 /* FIOSETOWN */, 3, 0), IF(0x8902 /* SIOCSPGRP */, 2, 0), IF(0x5452 /* FIOASYNC */, 1, 0),
		REFUSE(ENOTTY), TRAP, ALLOW,
		/* What the machine is. */
		PASS(SYS_getpid), PASS(SYS_gettid), PASS(SYS_getppid), PASS(SYS_getpgid), PASS(SYS_getsid),
		PASS(SYS_getuid), PASS(SYS_geteuid), PASS(SYS_getgid), PASS(SYS_getegid),
		PASS(SYS_uname), PASS(SYS_sysinfo), PASS(SYS_getrandom), PASS(SYS_getrlimit), PASS(SYS_capget),
		/* Its own limits can be read. */
		IF(SYS_prlimit64, 0, 9), LOAD_WORD(ARG(0)), IF(0, 1, 0), IF(self, 0, 4),
		LOAD_WORD(ARG(2)), IF(0, 0, 2), LOAD_WORD(ARG(2) + 4), IF(0, 1, 0), TRAP, ALLOW,
		IF(SYS_prctl, 0, 6), LOAD_WORD(ARG(0)), IF(PR_SET_NAME, 3, 0), IF(PR_GET_NAME, 2, 0),
		IF(0x53564d41 /* PR_SET_VMA, a name for memory */, 1, 0), TRAP, ALLOW,
		PASS_IF(SYS_personality, 0, 0xffffffff /* which only asks */),

		/* Acts on other processes. */
		DENY(SYS_execve), DENY(SYS_execveat),
		DENY(SYS_ptrace), DENY(SYS_process_vm_readv), DENY(SYS_process_vm_writev), DENY(SYS_kcmp),
		IF(SYS_tkill, 0, 1), RETURN(tkill), DENY(SYS_rt_sigqueueinfo), DENY(SYS_rt_tgsigqueueinfo),
		DENY(424 /* pidfd_send_signal */), DENY(434 /* pidfd_open */), DENY(438 /* pidfd_getfd */),
		DENY(440 /* process_madvise */), DENY(448 /* process_mrelease */),
		DENY(SYS_setsid), DENY(SYS_setpgid), DENY(SYS_unshare), DENY(SYS_setns),
		DENY(SYS_setpriority), DENY(SYS_ioprio_set), DENY(SYS_sched_setscheduler), DENY(SYS_sched_setparam),
		DENY(SYS_sched_setattr), DENY(SYS_migrate_pages), DENY(SYS_move_pages),
		/* Signals that come later. */
		DENY(SYS_timer_create), DENY(SYS_setitimer),
		/* Files, devices and the network. */
		DENY(SYS_unlinkat), DENY(SYS_renameat), DENY(SYS_renameat2), DENY(SYS_linkat),
		DENY(SYS_symlinkat), DENY(SYS_mkdirat), DENY(SYS_mknodat), DENY(SYS_truncate), DENY(SYS_ftruncate), DENY(SYS_fallocate),
		DENY(SYS_fchmodat), DENY(SYS_fchmod), DENY(SYS_fchownat), DENY(SYS_fchown), DENY(SYS_utimensat),
		DENY(SYS_setxattr), DENY(SYS_fsetxattr), DENY(SYS_lsetxattr),
		DENY(SYS_socket), DENY(SYS_socketpair), DENY(SYS_connect), DENY(SYS_bind),
		DENY(SYS_memfd_create), DENY(SYS_inotify_init1), DENY(SYS_fanotify_init), DENY(SYS_name_to_handle_at), DENY(SYS_open_by_handle_at),
		DENY(425 /* io_uring_setup */), IF(SYS_pipe2, 0, 1), RETURN(pipes),
		DENY(SYS_mount), DENY(SYS_umount2), DENY(SYS_pivot_root), DENY(SYS_chroot),
		DENY(SYS_shmget), DENY(SYS_semget), DENY(SYS_msgget), DENY(SYS_mq_open),
		/* The machine, its clock, and the limits. */
		DENY(SYS_setrlimit), DENY(SYS_mlockall),
		DENY(SYS_clock_settime), DENY(SYS_settimeofday), DENY(SYS_adjtimex), DENY(SYS_clock_adjtime),
		DENY(SYS_reboot), DENY(SYS_kexec_load), DENY(SYS_init_module), DENY(SYS_finit_module),
		DENY(SYS_delete_module), DENY(SYS_swapon), DENY(SYS_swapoff), DENY(SYS_sethostname), DENY(SYS_syslog),
		DENY(SYS_bpf), DENY(SYS_perf_event_open), DENY(SYS_userfaultfd),
		DENY(SYS_add_key), DENY(SYS_keyctl), DENY(SYS_request_key),
		DENY(SYS_setuid), DENY(SYS_setgid), DENY(SYS_setresuid), DENY(SYS_setresgid), DENY(SYS_setgroups), DENY(SYS_capset),
		REFUSE(ENOSYS),
	};
	struct sock_fprog program = {
		.len = sizeof filter / sizeof filter[0],
		.filter = filter,
	};
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_sigaction = refused;
	action.sa_flags = SA_SIGINFO;
	if (sigaction(SIGSYS, &action, 0))
		return errno;
	/* Root without capabilities is somebody like anyone. */
	struct { uint32_t version; int pid; } header = {0x20080522, 0};
	struct { uint32_t effective, permitted, inheritable; } none[2];
	memset(none, 0, sizeof none);
	if (syscall(SYS_capset, &header, none))
		return errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return errno;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
		return errno;
	return 0;
}

#endif
#endif
