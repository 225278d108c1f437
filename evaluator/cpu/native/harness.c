/*
 * The process that a candidate runs in. It maps the buffers that evotune
 * prepared, locks itself in, loads the candidate and launches it when told to.
 * It never sees the reference, judges nothing, and nothing it says is believed
 * that evotune cannot check: outputs are read by evotune out of the shared
 * buffers, and times are held against the processor time that the kernel
 * accounted to this process.
 *
 * Usage: harness NONCE ARENA_BYTES INPUTS_BYTES MEMORY_BYTES CPU_SECONDS OPTIONS [PATHS]
 * Descriptors: 2 text for people, 3 a sequenced packet socket to evotune,
 * 4 the shared outputs, 5 the shared inputs, which cannot be written through it,
 * 6 the shared object to load, 7 a pipe with the turns, and END behind the last. What
 * lies there nobody can read ahead and leave. A turn says which set a launch has, and
 * where in what was drawn for an input its own begins.
 * OPTIONS holds letters: s = filter of system calls, l = limits, h = buffers on
 * the heap, for a sanitizer, g = no access to pages without a buffer, and those of
 * filter_calls. PATHS, where Landlock works, is the list of lock_paths. A tool
 * such as valgrind is locked in before it runs the harness, since it does not know
 * the calls for that:
 *
 * Usage: harness exec PATHS TOOL [ARGUMENT]...
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "jail.h"

enum { CONTROL = 3, ARENA = 4, INPUTS = 5, OBJECT = 6, TURNS = 7 };
#define END UINT32_MAX
enum { SET_BITS = 15, WINDOW_STEP = 64 };
enum { MAX_DIMS = 32, MAX_SCALARS = 32, MAX_BUFFERS = 32, MAX_LAUNCHES = 1 << 15 };
enum { COMMAND_MAGIC = 0x43545645, ANSWER_MAGIC = 0x41545645 };
enum { LOAD = 1, SHAPE, RUN, QUIT };
enum { READY = 1, LOADED, SHAPED, DONE, DENIED, FAILED, WROTE };
enum { ROLE_IN = 0, ROLE_OUT = 1, ROLE_INOUT = 2 };
enum { FLAG_JUNK = 1 };

struct command {
	uint32_t magic, kind;
	uint64_t nonce, seq;
	uint32_t dims, scalars, buffers;
	uint32_t step; /* how many turns are taken at once */
	uint32_t flags, junk;
};

struct buffer {
	uint64_t offset, bytes, stride; /* from one set to the next */
	uint64_t role;
	uint64_t windows; /* how many places it may begin at, WINDOW_STEP bytes from one to the next */
};

struct answer {
	uint32_t magic, kind;
	uint64_t nonce, seq, elapsed, value;
	uint32_t error, launches;
	char text[80];
};

typedef void call_function(const int64_t *dims, void *const *buffers, const double *scalars);

static uint64_t nonce;
static uint64_t sequence;
static char *arena, *inputs;
static size_t arena_bytes, inputs_bytes;
static int on_heap, guarded;

static int64_t dims[MAX_DIMS];
static double scalars[MAX_SCALARS];
static struct buffer buffers[MAX_BUFFERS];
static uint32_t buffer_count;
static void *pointers[MAX_LAUNCHES * MAX_BUFFERS]; /* of each turn, one after the other */
static uint32_t sets;
static uint32_t turns[MAX_LAUNCHES + 1];
static uint32_t under_way; /* the turn of the launch */

static union {
	struct command head;
	char bytes[sizeof(struct command) + MAX_BUFFERS * sizeof(struct buffer) + (MAX_DIMS + MAX_SCALARS) * 8];
} packet;

#ifdef REACH

static uintptr_t object_base;

/* Called where a block of a candidate begins that was compiled for it: a byte for each
 * address of its object lies behind the buffers, the first last. */
void __sanitizer_cov_trace_pc(void)
{
	const uintptr_t at = (uintptr_t)__builtin_return_address(0) - object_base;
	if (object_base && at < arena_bytes)
		arena[arena_bytes - 1 - at] = 1;
}

#endif

static void answer(uint32_t kind, uint64_t elapsed, uint64_t value, uint32_t launches,
                   uint32_t error, const char *text)
{
	struct answer a;
	memset(&a, 0, sizeof a);
	a.magic = ANSWER_MAGIC;
	a.kind = kind;
	a.nonce = nonce;
	a.seq = sequence;
	a.elapsed = elapsed;
	a.value = value;
	a.launches = launches;
	a.error = error;
	if (text)
		strncpy(a.text, text, sizeof a.text - 1);
	if (send(CONTROL, &a, sizeof a, MSG_NOSIGNAL) != (ssize_t)sizeof a)
		_exit(71);
}

static void __attribute__((noreturn)) fail(const char *what, int error)
{
	answer(FAILED, 0, 0, 0, (uint32_t)error, what);
	_exit(70);
}

#ifdef HAVE_SANDBOX

/* A call that the filter refuses ends the process; the answer names the call,
 * so that people learn why. */
static void refused(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	answer(DENIED, 0, (uint64_t)info->si_syscall, 0, 0, 0);
	_exit(72);
}

#endif

/* Where a buffer lies in a set, or null where there is no memory for it. */
static char *place(const struct buffer *b, uint32_t set)
{
	const size_t bytes = b->role == ROLE_IN ? inputs_bytes : arena_bytes;
	const uint64_t at = b->offset + set * b->stride, all = b->bytes + (b->windows - 1) * WINDOW_STEP;
	if (at > bytes || all > bytes - at)
		return 0;
	return (b->role == ROLE_IN ? inputs : arena) + at;
}

/* How far behind its place a buffer begins in a turn; not at all where nothing was drawn. */
static size_t window(uint32_t buffer, uint32_t turn)
{
	uint32_t own = (turn >> SET_BITS) * (2 * buffer + 1) * UINT32_C(0x9e3779b1);
	own = (own ^ own >> 15) * UINT32_C(0x2c1b3c6d);
	own ^= own >> 12;
	return (size_t)((own * buffers[buffer].windows) >> 32) * WINDOW_STEP;
}

/* Says where a candidate wrote to inputs, in which all begin at their place. Other faults end
 * it as if there were no handler. */
static void faulted(int signal, siginfo_t *info, void *context)
{
	(void)context;
	uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)inputs;
	if (info->si_code == SEGV_ACCERR && at < inputs_bytes) {
		for (uint32_t b = 0; b < buffer_count; b++) {
			const uintptr_t from = (uintptr_t)place(&buffers[b], under_way % (1 << SET_BITS)) - (uintptr_t)inputs;
			if (buffers[b].role == ROLE_IN && at >= from && at < from + buffers[b].bytes + buffers[b].windows * WINDOW_STEP) {
				at -= window(b, under_way);
				break;
			}
		}
		answer(WROTE, 0, at, 0, 0, 0);
		_exit(75);
	}
	struct sigaction none;
	memset(&none, 0, sizeof none);
	none.sa_handler = SIG_DFL;
	sigaction(signal, &none, 0);
	raise(signal);
}

static void limit(int resource, uint64_t value, const char *what)
{
	struct rlimit now, want = {value, value};
	if (getrlimit(resource, &now))
		fail(what, errno);
	if (now.rlim_max != RLIM_INFINITY && now.rlim_max < want.rlim_max)
		want.rlim_max = want.rlim_cur = now.rlim_max;
	if (setrlimit(resource, &want))
		fail(what, errno);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* How long reading the clock takes, which is in every time that it is read around. */
static int64_t clock_cost(void)
{
	int64_t least = INT64_MAX, last = now();
	for (int n = 0; n < 16; n++) {
		const int64_t next = now();
		if (next - last < least)
			least = next - last;
		last = next;
	}
	return least > 0 ? least : 0;
}

/* Fills the stack below this frame, where the candidate's frames will lie, so
 * that what it reads without having written it is not zero by chance. */
static void __attribute__((noinline)) junk_stack(int byte)
{
	char area[1 << 20];
	memset(area, byte, sizeof area);
	__asm__ volatile("" : : "r"(area) : "memory");
}

/* Takes away the access to all pages without a part of a buffer of the first set. */
static void guard(void)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	if (mprotect(arena, arena_bytes, PROT_NONE) || mprotect(inputs, inputs_bytes, PROT_NONE))
		fail("guarding the buffers", errno);
	for (uint32_t b = 0; b < buffer_count; b++) {
		const uintptr_t at = (uintptr_t)place(&buffers[b], 0);
		const uintptr_t from = at / page * page, to = (at + buffers[b].bytes + page - 1) / page * page;
		const int access = buffers[b].role == ROLE_IN ? PROT_READ : PROT_READ | PROT_WRITE;
		if (!at || mprotect((void *)from, to - from, access))
			fail("guarding the buffers", errno);
	}
}

static void shape(const struct command *c, const char *payload, size_t size)
{
	if (c->dims > MAX_DIMS || c->scalars > MAX_SCALARS || c->buffers > MAX_BUFFERS ||
	    size != c->dims * 8 + c->scalars * 8 + c->buffers * sizeof(struct buffer))
		fail("a shape of the wrong size", EPROTO);
	memcpy(dims, payload, c->dims * 8);
	payload += c->dims * 8;
	memcpy(scalars, payload, c->scalars * 8);
	payload += c->scalars * 8;
	memcpy(buffers, payload, c->buffers * sizeof(struct buffer));
	buffer_count = c->buffers;
	for (uint32_t b = 0; b < buffer_count; b++)
		if (buffers[b].windows < 1 || buffers[b].windows > UINT32_MAX)
			fail("an input that begins nowhere", EPROTO);
	for (sets = 0; sets < MAX_LAUNCHES; sets++)
		for (uint32_t b = 0; b < buffer_count; b++)
			if (!place(&buffers[b], sets))
				goto placed;
placed:
	if (guarded)
		guard();
	answer(SHAPED, 0, 0, 0, 0, 0);
}

/* Buffers of exactly their size on the heap, where a sanitizer sees the first
 * byte beyond them. */
static void launch_on_heap(call_function *call, void *const *at)
{
	void *copies[MAX_BUFFERS];
	for (uint32_t b = 0; b < buffer_count; b++) {
		if (posix_memalign(&copies[b], 64, buffers[b].bytes))
			fail("no memory for a buffer", ENOMEM);
		/* An output stays uninitialised: reading it is a fault. */
		if (buffers[b].role != ROLE_OUT)
			memcpy(copies[b], at[b], buffers[b].bytes);
	}
	call(dims, copies, scalars);
	for (uint32_t b = 0; b < buffer_count; b++) {
		if (buffers[b].role != ROLE_IN)
			memcpy(at[b], copies[b], buffers[b].bytes);
		free(copies[b]);
	}
}

/* Takes at most so many turns, and says how many there were. END is the last. */
static uint32_t take_turns(uint32_t most)
{
	ssize_t got;
	do
		got = read(TURNS, turns, most * sizeof *turns);
	while (got < 0 && errno == EINTR);
	if (got <= 0 || (size_t)got % sizeof *turns)
		fail("reading the turns", got < 0 ? errno : EPROTO);
	const uint32_t count = (uint32_t)((size_t)got / sizeof *turns);
	for (uint32_t n = 0; n < count; n++) {
		if (turns[n] == END && n + 1 == count)
			break;
		const uint32_t set = turns[n] % (1 << SET_BITS);
		if (set >= sets)
			fail("a buffer outside the arena", EPROTO);
		for (uint32_t b = 0; b < buffer_count; b++)
			pointers[n * buffer_count + b] = place(&buffers[b], set) + window(b, turns[n]);
	}
	return count;
}

static void run(call_function *call, const struct command *c, size_t size)
{
	if (c->step < 1 || c->step > MAX_LAUNCHES || size != 0)
		fail("a run of the wrong size", EPROTO);
	if (!on_heap && c->flags & FLAG_JUNK)
		junk_stack((int)c->junk);
	const int64_t tick = clock_cost(), begin = now();
	uint64_t elapsed = 0;
	uint32_t launches = 0;
	for (int more = 1; more;) {
		uint32_t count = take_turns(c->step);
		if (turns[count - 1] == END)
			more = 0, count--;
		const int64_t start = now();
		for (uint32_t n = 0; n < count; n++) {
			under_way = turns[n];
			if (on_heap)
				launch_on_heap(call, pointers + n * buffer_count);
			else
				call(dims, pointers + n * buffer_count, scalars);
		}
		const int64_t end = now();
		/* A clock that runs backwards has been tampered with: no time is what
		 * evotune believes least. */
		elapsed += end - start > tick ? (uint64_t)(end - start - tick) : 0;
		launches += count;
	}
	answer(DONE, on_heap ? 0 : elapsed, (uint64_t)(now() - begin), launches, 0, 0);
}

/* MAP_POPULATE fills the page tables. Where a virtual machine's own are shadowed by its
 * host, the first read of a page and the first write cost microseconds all the same: they
 * are made here, so that they are in no launch's time. Adding nothing keeps what is there. */
static void touch(void)
{
	for (size_t at = 0; at < arena_bytes; at += 4096)
		__atomic_fetch_add(&arena[at], 0, __ATOMIC_RELAXED);
	for (size_t at = 0; at < inputs_bytes; at += 4096)
		(void)*(const volatile char *)&inputs[at];
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "exec")) {
		if ((errno = lock_paths(argv[2])) == 0)
			execv(argv[3], argv + 3);
		perror(argv[3]);
		return 74;
	}
	if (argc != 7 && argc != 8)
		return 64;
	nonce = strtoull(argv[1], 0, 16);
	arena_bytes = strtoull(argv[2], 0, 10);
	inputs_bytes = strtoull(argv[3], 0, 10);
	const uint64_t memory = strtoull(argv[4], 0, 10);
	const uint64_t seconds = strtoull(argv[5], 0, 10);
	const char *options = argv[6];
	on_heap = strchr(options, 'h') != 0;
	guarded = strchr(options, 'g') != 0;

	arena = mmap(0, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ARENA, 0);
	inputs = mmap(0, inputs_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, INPUTS, 0);
	if (arena == MAP_FAILED || inputs == MAP_FAILED)
		fail("mapping the buffers", errno);
	touch();
	close(ARENA);
	close(INPUTS);
	/* Sanitizers have handlers of their own; between guard pages a read faults too. */
	if (!on_heap && !guarded) {
		struct sigaction action;
		memset(&action, 0, sizeof action);
		action.sa_sigaction = faulted;
		action.sa_flags = SA_SIGINFO;
		if (sigaction(SIGSEGV, &action, 0))
			fail("watching the inputs", errno);
	}
	limit(RLIMIT_CORE, 0, "limiting core dumps");
	limit(RLIMIT_FSIZE, 0, "limiting files");
	limit(RLIMIT_CPU, seconds, "limiting processor time");
	if (strchr(options, 'l')) {
		limit(RLIMIT_AS, arena_bytes + inputs_bytes + memory, "limiting memory");
		limit(RLIMIT_STACK, 8 << 20, "limiting the stack");
		limit(RLIMIT_NOFILE, 64, "limiting descriptors");
		limit(RLIMIT_MEMLOCK, 0, "limiting locked memory");
	}
	int locked = argc == 8 ? lock_paths(argv[7]) : 0;
	if (locked)
		fail("locking paths", locked);
	locked = ENOSYS;
#ifdef HAVE_SANDBOX
	if (strchr(options, 's'))
		locked = filter_calls(CONTROL, options);
#endif
	answer(READY, 0, 0, 0, (uint32_t)locked, 0);

	call_function *call = 0;
	for (;;) {
		const ssize_t size = recv(CONTROL, &packet, sizeof packet, 0);
		if (size == 0)
			_exit(0); /* evotune has gone */
		if (size < 0) {
			if (errno == EINTR)
				continue;
			_exit(73); /* the candidate closed the socket */
		}
		if ((size_t)size < sizeof packet.head || packet.head.magic != COMMAND_MAGIC ||
		    packet.head.nonce != nonce)
			fail("a command that is not evotune's", EPROTO);
		const char *payload = packet.bytes + sizeof packet.head;
		const size_t rest = (size_t)size - sizeof packet.head;
		sequence = packet.head.seq;
		switch (packet.head.kind) {
		case LOAD: {
			char path[32];
			snprintf(path, sizeof path, "/proc/self/fd/%d", OBJECT);
			void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
			if (!object)
				fail(dlerror(), ENOEXEC);
			void *symbol = dlsym(object, "evotune_call");
			if (!symbol)
				fail(dlerror(), ENOEXEC);
			memcpy(&call, &symbol, sizeof call);
#ifdef REACH
			Dl_info info;
			if (!dladdr(symbol, &info))
				fail("where the candidate lies", ENOEXEC);
			object_base = (uintptr_t)info.dli_fbase;
#endif
			/* Sanitizers read it again for their reports. */
			if (!on_heap)
				close(OBJECT);
			answer(LOADED, 0, 0, 0, 0, 0);
			break;
		}
		case SHAPE:
			shape(&packet.head, payload, rest);
			break;
		case RUN:
			if (!call)
				fail("a run before a candidate was loaded", EPROTO);
			run(call, &packet.head, rest);
			break;
		case QUIT:
			/* exit and not _exit: destructors of the candidate run, and a
			 * sanitizer gives its report. */
			exit(0);
		default:
			fail("an unknown command", EPROTO);
		}
	}
}
