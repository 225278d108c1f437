/* What a kernel can try against a service that judges it. None harms more than that
 * service where it succeeds: tests run as root, beside others. Each attempt gives 0 where it
 * succeeded, which the service sees as well, and else what the first call that was
 * refused answered, negated. service.h, which the tests write, says where the service is:
 *
 * SERVICE  its folder, with store, token and socket, which nobody but its user reads,
 *          and public, which all read and write
 * SETUID   a program that makes a file, as its owner
 * PORT     where it listens on 127.0.0.1, and in the name of its abstract socket
 * VICTIM   another process of the same user
 * SECRET   how everything begins that no kernel may read
 */
#ifndef ATTEMPTS_H
#define ATTEMPTS_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "service.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* What was read of the service goes into the outputs, and to people. */
static char leaked[64];

static int leak(const char *from, ssize_t bytes)
{
	const char *found = bytes > 0 ? memmem(from, (size_t)bytes, SECRET, strlen(SECRET)) : 0;
	if (!found)
		return 0;
	const size_t rest = (size_t)(from + bytes - found);
	memcpy(leaked, found, rest < sizeof leaked ? rest : sizeof leaked);
	if (write(2, leaked, sizeof leaked) < 0)
		return 1;
	return 1;
}

static long outcome(long result) { return result < 0 ? -errno : 0; }

static long read_at(int folder, const char *path)
{
	static char text[1 << 16];
	const int f = openat(folder, path, O_RDONLY);
	if (f < 0)
		return -errno;
	const ssize_t n = read(f, text, sizeof text);
	close(f);
	return leak(text, n) ? 0 : -ENODATA;
}
static long read_file(const char *path) { return read_at(AT_FDCWD, path); }

static const char *of_process(int pid, const char *name)
{
	static char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	return path;
}

/* The first that succeeds, or the last that does not. */
#define EITHER(first, second) do { const long r_ = (first); if (r_ == 0) return 0; return (second); } while (0)

static long tcp(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int s = socket(AF_INET, SOCK_STREAM, 0);
	return s < 0 ? -errno : outcome(connect(s, (struct sockaddr *)&to, sizeof to));
}
static long unix_socket(const char *name, int abstract)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const size_t n = strlen(name);
	memcpy(to.sun_path + abstract, name, n);
	const int s = socket(AF_UNIX, SOCK_STREAM, 0);
	return s < 0 ? -errno : outcome(connect(s, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1)));
}
static long forks(void)
{
	for (int n = 0; n < 50; n++) {
		const pid_t p = fork();
		if (p < 0)
			return -errno;
		if (p == 0) {
			sleep(60);
			_exit(0);
		}
	}
	return 0;
}
static long flood(const char *folder)
{
	static char block[1 << 20];
	char path[256];
	snprintf(path, sizeof path, "%s/flood", folder ? folder : "/tmp");
	const int f = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
	if (f < 0)
		return -errno;
	for (int n = 0; n < 100; n++)
		if (write(f, block, sizeof block) < 0)
			return -errno;
	return 0;
}
static long memory_of(int pid)
{
	const int f = open(of_process(pid, "mem"), O_RDONLY);
	if (f >= 0) {
		memcpy(leaked, SECRET, strlen(SECRET));
		return 0;
	}
	EITHER(read_file(of_process(pid, "environ")), read_file(of_process(pid, "maps")));
}
static long descriptors(void)
{
	static char text[4096];
	for (int f = 0; f < 1024; f++)
		if (leak(text, pread(f, text, sizeof text, 0)))
			return 0;
	errno = 0;
	for (int f = 8; f < 1024; f++) /* to 7 they are the harness's */
		if (fcntl(f, F_GETFD) >= 0)
			return 0;
	return -EBADF;
}
static long taken(int pid)
{
	const int p = (int)syscall(434 /* pidfd_open */, pid, 0);
	return p < 0 ? -errno : outcome(syscall(438 /* pidfd_getfd */, p, 3, 0));
}
static long memory_read(int pid)
{
	static char text[4096];
	struct iovec here = {text, sizeof text}, there = {(void *)0x400000, sizeof text};
	return outcome(syscall(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0));
}
static long handle(void)
{
	struct { struct file_handle head; char rest[128]; } h = {.head.handle_bytes = 128};
	int mount;
	return outcome(name_to_handle_at(AT_FDCWD, SERVICE "/token", &h.head, &mount, 0));
}
static long by_handle(void)
{
	struct { struct file_handle head; char rest[128]; } h = {.head.handle_bytes = 8};
	return outcome(open_by_handle_at(AT_FDCWD, &h.head, O_RDONLY));
}
static long opened2(void)
{
	uint64_t how[3] = {0};
	const int f = (int)syscall(437 /* openat2 */, AT_FDCWD, SERVICE "/token", how, sizeof how);
	static char text[100];
	return f < 0 ? -errno : leak(text, read(f, text, sizeof text)) ? 0 : -ENODATA;
}
static long passed(void) /* the harness's files, to whoever reads the other end */
{
	char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec one = {&byte, 1};
	struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
	return outcome(sendmsg(3, &m, 0));
}
static long received(void)
{
	char room[64], byte;
	struct iovec one = {&byte, 1};
	struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	return outcome(recvmsg(3, &m, MSG_DONTWAIT));
}
static long limited(int pid)
{
	struct rlimit none = {1, 1};
	return outcome(prlimit(pid, RLIMIT_CPU, &none, 0));
}
static long raised(void)
{
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	return outcome(setrlimit(RLIMIT_FSIZE, &all));
}
static long bound(int pid)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	return outcome(sched_setaffinity(pid, sizeof one, &one));
}
static long executed(void)
{
	const int f = (int)syscall(SYS_memfd_create, "program", 0);
	if (f < 0)
		return -errno;
	char *none[] = {0};
	return outcome(syscall(SYS_execveat, f, "", none, none, AT_EMPTY_PATH));
}
static long other_table(void) /* of 32-bit programs: socket */
{
#ifdef __x86_64__
	int r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(359), "b"(2), "c"(2), "d"(0) : "memory");
	return r < 0 ? r : 0;
#else
	return -ENOSYS;
#endif
}
static long x32(void) /* getpid in the table of x32 */
{
	return outcome(syscall(0x40000000 + 39));
}
static long listed(const char *folder)
{
	const int f = open(folder, O_RDONLY | O_DIRECTORY);
	static char text[4096];
	return f < 0 ? -errno : outcome(syscall(SYS_getdents64, f, text, sizeof text));
}
static long message(void) { return outcome(syscall(SYS_msgget, 0x7e57ed20, 01600)); }
static long clock_of(int pid) /* processor time of another process */
{
	struct timespec t;
	return outcome(clock_gettime((clockid_t)(~(unsigned)pid << 3 | 2), &t));
}
static int nothing(void *p) { return p != 0; }
static long thread_waits(void) /* where it takes no signals until another thread ends */
{
	static char stack[1 << 16] __attribute__((aligned(64)));
	return outcome(clone(nothing, stack + sizeof stack,
	                     CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_VFORK, 0));
}
static long typed(void) /* into the terminal of whoever started the service */
{
	for (int f = 0; f < 3; f++)
		if (ioctl(f, TIOCSTI, "\n") == 0)
			return 0;
	return -errno;
}

/* The twelve, and further ones. */
#define ATTEMPTS(X)                                                                     \
	X(network, tcp())                                                                      \
	X(files_read, read_file(SERVICE "/public"))                                            \
	X(files_write, outcome(open(SERVICE "/made", O_CREAT | O_WRONLY, 0600)))               \
	X(store, read_file(SERVICE "/store"))                                                  \
	X(token, read_file(SERVICE "/token"))                                                  \
	X(unix_socket, unix_socket(SERVICE "/socket", 0))                                      \
	X(trace, outcome(ptrace(PTRACE_SEIZE, VICTIM, 0, 0)))                                  \
	X(kill, outcome(kill(VICTIM, SIGKILL)))                                                \
	X(fork_flood, forks())                                                                 \
	X(disk_flood, flood(getenv("TMPDIR")))                                                 \
	X(memory_file, memory_of(VICTIM))                                                      \
	X(setuid_exec, outcome(execl(SETUID, "setuid", SERVICE "/made", (char *)0)))           \
	X(descriptors, descriptors())                                                          \
	X(store_write, outcome(open(SERVICE "/store", O_WRONLY)))                              \
	X(store_truncate, outcome(truncate(SERVICE "/store", 0)))                              \
	X(store_remove, outcome(unlink(SERVICE "/store")))                                     \
	X(token_move, outcome(rename(SERVICE "/token", "/tmp/evotune-token")))                 \
	X(token_link, outcome(link(SERVICE "/token", "/tmp/evotune-token")))                   \
	X(token_mode, outcome(chmod(SERVICE "/token", 0666)))                                  \
	X(token_climb, read_file("/usr/lib/../.." SERVICE "/token"))                           \
	X(token_root, read_file("/proc/self/root" SERVICE "/token"))                           \
	X(token_root_of, read_file("/proc/1/root" SERVICE "/token"))                           \
	X(token_openat2, opened2())                                                            \
	X(token_handle, handle())                                                              \
	X(token_by_handle, by_handle())                                                        \
	X(folder, listed(SERVICE))                                                             \
	X(processes, listed("/proc"))                                                          \
	X(abstract_socket, unix_socket("evotune-contain-" TEXT(PORT), 1))                      \
	X(socket_pair, outcome(socketpair(AF_UNIX, SOCK_DGRAM, 0, (int[2]){0, 0})))            \
	X(socket_netlink, outcome(socket(AF_NETLINK, SOCK_RAW, 0)))                            \
	X(socket_vsock, outcome(socket(40 /* AF_VSOCK */, SOCK_STREAM, 0)))                    \
	X(socket_packet, outcome(socket(AF_PACKET, SOCK_RAW, 0)))                              \
	X(socket_crypto, outcome(socket(38 /* AF_ALG */, SOCK_SEQPACKET, 0)))                  \
	X(socket_32_bit, other_table())                                                        \
	X(socket_passes, passed())                                                             \
	X(socket_receives, received())                                                         \
	X(table_x32, x32())                                                                    \
	X(ring, outcome(syscall(425 /* io_uring_setup */, 4, leaked)))                         \
	X(execute_memory, executed())                                                          \
	X(faults, outcome(syscall(SYS_userfaultfd, O_CLOEXEC)))                                \
	X(trace_judge, outcome(ptrace(PTRACE_SEIZE, getppid(), 0, 0)))                         \
	X(memory_judge, memory_of(getppid()))                                                  \
	X(memory_read, memory_read(VICTIM))                                                    \
	X(memory_read_judge, memory_read(getppid()))                                           \
	X(clock_of_judge, clock_of(getppid()))                                                 \
	X(files_of_judge, read_file(of_process(getppid(), "fd/3")))                            \
	X(files_taken, taken(getppid()))                                                       \
	X(compared, outcome(syscall(SYS_kcmp, getpid(), getppid(), 2, 0, 0)))                  \
	X(kill_judge, outcome(kill(getppid(), SIGUSR1)))                                       \
	X(kill_group, outcome(kill(0, 0)))                                                     \
	X(kill_self, outcome(kill(getpid(), SIGKILL)))                                         \
	X(stop_self, outcome(syscall(SYS_tgkill, getpid(), getpid(), SIGSTOP)))                \
	X(thread_waits, thread_waits())                                                        \
	X(kill_all, outcome(kill(-1, 0)))                                                      \
	X(kill_thread, outcome(syscall(SYS_tgkill, getppid(), getppid(), SIGUSR1)))            \
	X(signal_queue, outcome(syscall(SYS_rt_sigqueueinfo, VICTIM, SIGUSR1, leaked)))        \
	X(signal_owner, outcome(fcntl(3, F_SETOWN, getppid())))                                \
	X(limits_of_judge, limited(getppid()))                                                 \
	X(limits_of_other, limited(VICTIM))                                                    \
	X(limits_raised, raised())                                                             \
	X(affinity_of_other, bound(VICTIM))                                                    \
	X(priority_of_other, outcome(setpriority(PRIO_PROCESS, VICTIM, 10)))                   \
	X(priority_of_disk, outcome(syscall(SYS_ioprio_set, 1, VICTIM, 7)))                    \
	X(pages_of_other, outcome(syscall(SYS_migrate_pages, VICTIM, 0, 0, 0)))                \
	X(shared_file, flood("/dev/shm"))                                                      \
	X(shared_memory, outcome(shmget(0x7e57ed21, 4096, IPC_CREAT | 0600)))                  \
	X(messages, message())                                                                 \
	X(queue, outcome(syscall(SYS_mq_open, "evotune-contain", O_CREAT | O_RDWR, 0600, 0)))  \
	X(keys, outcome(syscall(SYS_add_key, "user", "evotune", "x", 1, -4)))                  \
	X(keys_read, outcome(syscall(SYS_keyctl, 0, -3, 0)))                                   \
	X(watch, outcome(syscall(SYS_inotify_init1, 0)))                                       \
	X(watch_all, outcome(syscall(SYS_fanotify_init, 0, 0)))                                \
	X(kernel_program, outcome(syscall(SYS_bpf, 0, leaked, sizeof leaked)))                 \
	X(counters, outcome(syscall(SYS_perf_event_open, leaked, VICTIM, -1, -1, 0)))          \
	X(kernel_log, outcome(syscall(SYS_syslog, 3, leaked, sizeof leaked)))                  \
	X(mounted, outcome(syscall(SYS_mount, "none", SERVICE, "tmpfs", 0, 0)))                \
	X(mounted_new, outcome(syscall(430 /* fsopen */, "tmpfs", 0)))                         \
	X(mounted_tree, outcome(syscall(428 /* open_tree */, AT_FDCWD, "/", 1)))               \
	X(root_changed, outcome(chroot("/")))                                                  \
	X(namespace, outcome(unshare(CLONE_NEWUSER)))                                          \
	X(namespace_joined, outcome(setns(3, 0)))                                              \
	X(user, outcome(setuid(0)))                                                            \
	X(capabilities, outcome(syscall(SYS_capset, leaked, leaked)))                          \
	X(dumpable, outcome(prctl(PR_SET_DUMPABLE, 1)))                                        \
	X(terminal, typed())                                                                   \
	X(layout, outcome(syscall(SYS_personality, 0x0040000)))                                \
	X(locked, outcome(syscall(SYS_mlockall, MCL_CURRENT)))                                 \
	X(own_environment, read_file("/proc/self/environ"))                                    \
	X(own_arguments, read_file("/proc/self/cmdline"))

#define NUMBER(name, call) ATTEMPT_##name,
enum { ATTEMPTS(NUMBER) ATTEMPT_count };

static long attempt(int which)
{
#define CASE(name, call) case ATTEMPT_##name: return call;
	errno = 0;
	switch (which) { ATTEMPTS(CASE) }
	return -1000;
}
#endif
