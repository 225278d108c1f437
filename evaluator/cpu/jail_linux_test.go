package cpu

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/internal/longtest"
)

// actsSource tries the system call whose number it finds in its buffer, each
// harmless in itself, and puts -errno there, or 0 when it was not refused.
const actsSource = `
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
enum { CONTROL = 3 };
static long opened(const char *name, int flags) { long f = open(name, flags, 0600); if (f >= 0) close(f); return f; }
static void *nothing(void *p) { return p; }
static long thread(void) { pthread_t t; int e = pthread_create(&t, 0, nothing, 0); if (e) { errno = e; return -1; } return pthread_join(t, 0); }
static long mapped(int protection) { void *p = mmap(0, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); return p == MAP_FAILED ? -1 : munmap(p, 4096); }
static long tried(int act)
{
	int on = 1, owner = getppid();
	struct f_owner_ex ex = {F_OWNER_PID, getppid()};
	struct timespec t, nap = {0, 1000};
	struct itimerval never = {{0, 0}, {0, 0}};
	struct rlimit limit = {1 << 20, 1 << 20};
	cpu_set_t set;
	pid_t child;
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	switch (act) {
	case 1: return kill(getppid(), 0);
	case 2: return syscall(SYS_tgkill, getppid(), getppid(), 0);
	case 3: return fcntl(CONTROL, F_SETOWN, getppid());
	case 4: return fcntl(CONTROL, F_SETOWN_EX, &ex);
	case 5: return fcntl(CONTROL, F_SETSIG, SIGURG);
	case 6: return fcntl(CONTROL, F_SETFL, O_ASYNC);
	case 7: return ioctl(CONTROL, 0x8901 /* FIOSETOWN */, &owner);
	case 8: return ioctl(CONTROL, 0x5452 /* FIOASYNC */, &on);
	case 9: return setpriority(PRIO_PROCESS, getppid(), getpriority(PRIO_PROCESS, getppid()));
	case 10: return sched_setaffinity(getppid(), sizeof set, &set);
	case 11: return socket(AF_INET, SOCK_DGRAM, 0);
	case 12: child = fork(); if (child == 0) _exit(0); return child;
	case 13: return shmget(0x7e57ed05, 4096, IPC_CREAT | 0600);
	case 14: return opened("/tmp/evotune-jail-test", O_CREAT | O_WRONLY);
	/* New limits at an address whose low half is zero. */
	case 15: return syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, (void *)0x100000000, 0);
	case 16: return prctl(PR_SET_DUMPABLE, 1);
	case 17: return setitimer(ITIMER_VIRTUAL, &never, 0);
	case 18: return mapped(PROT_READ | PROT_WRITE | PROT_EXEC);
	case 19: return syscall(SYS_tkill, getpid(), 0);
	case 20: return execl("/bin/true", "true", (char *)0);

	case 51: return syscall(499);
	case 52: return opened("/etc/passwd", O_RDONLY);
	case 53: { char name[64] = "/proc/", *p = name + 6; int n = getppid(), k = 1; while (k * 10 <= n) k *= 10; for (; k; k /= 10) *p++ = (char)('0' + n / k % 10); *p++ = '/'; *p++ = 'm'; *p++ = 'e'; *p++ = 'm'; *p = 0; return opened(name, O_RDONLY); }
	case 54: return opened("/tmp", O_RDONLY | O_DIRECTORY);
	case 55: return opened(SECRET, O_RDONLY);
	case 56: return sendto(2, "x", 1, 0, 0, 0);
	case 57: signal(SIGSYS, SIG_IGN); return signal(SIGSYS, SIG_IGN) == SIG_ERR ? -1 : 0;

	case 81: return thread();
	case 82: return clock_gettime(CLOCK_MONOTONIC, &t) | clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) | nanosleep(&nap, 0);
	case 83: return sched_getaffinity(0, sizeof set, &set) | sched_setaffinity(0, sizeof set, &set);
	case 84: { void *p = malloc(64 << 20); *(volatile char *)p = 1; p = realloc(p, 128 << 20); madvise((void *)(((size_t)p + 4095) & ~4095ul), 4096, MADV_HUGEPAGE); free(p); return 0; }
	case 85: return mapped(PROT_READ | PROT_WRITE);
	case 86: return sysconf(_SC_NPROCESSORS_ONLN) > 0 && sysconf(_SC_LEVEL1_DCACHE_SIZE) >= 0 ? 0 : -1;
	case 87: return opened("/sys/devices/system/cpu/online", O_RDONLY);
	case 88: return getrlimit(RLIMIT_STACK, &limit);
	}
	return -1000;
}
void evotune_call(const long *d, void *const *b, const double *s)
{
	(void)d, (void)s;
	float *x = b[0];
	errno = 0;
	const long r = tried((int)*x);
	*x = r == -1000 ? 1000 : r < 0 ? (float)-errno : 0;
}
`

// jailLab is a lab without a problem, and a file of the user.
func jailLab(t *testing.T, o Options) (h *lab, secret string) {
	t.Helper()
	needCompiler(t)
	base, err := labs.New(t.Context(), evaluator.Plan{}, slog.New(slog.DiscardHandler), testCache, 0)
	if err != nil {
		t.Fatal(err)
	}
	h = newLab(base, o)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	if h.tool, err = newToolchain(t.Context(), "auto", h.Launcher, h.Cache, time.Minute); err != nil {
		t.Skip(err)
	}
	h.tool.lockIn(t.Context(), nil)
	clean := cleanFlavour()
	if h.harness["clean"], err = h.tool.buildHarness(t.Context(), &clean, h.Scratch); err != nil {
		t.Fatal(err)
	}
	sandboxed, err := h.findTools(t.Context())
	if err == nil {
		err = h.findSanitizers(t.Context(), sandboxed)
	}
	if err != nil {
		t.Fatal(err)
	}
	secret = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return h, secret
}

// TestJailedCandidates: a candidate that acts on others ends, what else is unknown fails,
// no file of the user can be opened, and what honest kernels do works.
func TestJailedCandidates(t *testing.T) {
	jailedCandidates(t, quick(), func(*lab) []flavour { return []flavour{cleanFlavour()} })
}

// TestJailedCandidatesLong does the same in each build for a sanitizer.
func TestJailedCandidatesLong(t *testing.T) {
	longtest.Long(t, "starts every tool many times")
	o := quick()
	o.Sanitizers = nil
	jailedCandidates(t, o, func(h *lab) []flavour { return h.flavours })
}

func jailedCandidates(t *testing.T, o Options, flavours func(*lab) []flavour) {
	t.Helper()
	h, secret := jailLab(t, o)
	seccomp, landlock := true, h.tool.jail != nil
	for _, tool := range h.Desc.Tools {
		if tool.Missing != "" {
			t.Logf("%s: %s", tool.Name, tool.Missing)
			seccomp = seccomp && tool.Name != "seccomp"
		}
	}
	if !seccomp {
		t.Skip("skipped: no filters of system calls here")
	}
	both := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 20}
	refused := map[string][]int{cleanFlavour().name: append([]int{18, 19}, both...), asanName: {1, 3, 7, 12, 14, 19}, memcheckName: {1, 3, 9, 11, 12, 13, 14}}
	for _, f := range flavours(h) {
		t.Run(f.name, func(t *testing.T) {
			args := append([]string{"-O1", "-DSECRET=\"" + secret + "\""}, f.args...)
			object, err := h.tool.compile(t.Context(), compilation{
				files: map[string]string{"acts.c": actsSource}, args: append(args, "-shared", "-fPIC", "acts.c", "-pthread"),
			})
			if err != nil {
				t.Fatal(err)
			}
			d := &shapeData{layout: newLayout([]placedBuffer{{name: "x", dtype: f32, elements: 1, bytes: 4, role: roleInOut}})}
			a, err := newArena(d.layout.stride)
			if err != nil {
				t.Fatal(err)
			}
			defer a.close()
			p, err := h.start(t.Context(), &f, object.Object, a, nil, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { p.kill() }()
			if err := p.setShape(d, span{}); err != nil {
				t.Fatal(err)
			}
			try := func(act int) (float64, error) {
				x := a.buffer(&d.layout, span{}, 0, 0)
				f32.put(x, 0, float64(act))
				_, err := p.ask(command{kind: commandRun, launches: []uint32{0}, junk: -1}, answerDone, 20*time.Second)
				return f32.get(x, 0), err
			}
			want := map[int]float64{51: -38, 56: -88, 57: -1, 81: 0, 82: 0, 83: 0, 84: 0, 85: 0, 86: 0, 87: 0, 88: 0}
			if landlock {
				want[52], want[53], want[54], want[55] = -13, -13, -13, -13
			}
			if f.name == memcheckName {
				delete(want, 56) // valgrind answers for itself
				delete(want, 57)
				// It is spared the symbols of the C library, if they are in a file of their own.
				libc, err := h.tool.command(t.Context(), h.tool.path, "-print-file-name=libc.so.6")
				if err != nil {
					t.Fatal(err)
				}
				if symbols := symbolsOf(strings.TrimSpace(string(libc))); strings.Join(f.unread, " ") != symbols || symbolsOf(os.Args[0]) != "" {
					t.Errorf("it does without %q, not %q", f.unread, symbols)
				}
			}
			for act, value := range want {
				if got, err := try(act); err != nil || got != value {
					t.Errorf("act %d: %v, error %v, want %v", act, got, err, value)
				}
			}
			restart := func() {
				p.kill()
				if p, err = h.start(t.Context(), &f, object.Object, a, nil, 2); err != nil {
					t.Fatal(err)
				}
				if err := p.setShape(d, span{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, act := range refused[f.name] {
				got, err := try(act)
				var fault *evaluator.Fault
				if !errors.As(err, &fault) || !strings.Contains(fault.Reason, "refused to candidates") {
					t.Errorf("act %d: %v, error %v, want it refused", act, got, err)
				}
				if err != nil {
					restart()
				}
			}
		})
	}
	if _, err := os.Stat("/tmp/evotune-jail-test"); err == nil {
		t.Error("a candidate made a file")
	}
}

// TestJailedCompiler: a source brings no file of the user into a diagnostic or a
// binary, and what it makes is bounded.
func TestJailedCompiler(t *testing.T) {
	h, secret := jailLab(t, quick())
	if h.tool.jail == nil {
		t.Skip(h.tool.unjailed)
	}
	t.Setenv("HOME", filepath.Dir(secret))
	const kernel = "\nvoid evotune_call(const long *d, void *const *b, const double *s) { (void)d, (void)b, (void)s; }\n"
	compile := func(source string) (compiled, error) {
		return h.tool.compile(t.Context(), compilation{
			files: map[string]string{"k.c": source + kernel}, args: []string{"-shared", "-fPIC", "k.c"},
		})
	}
	climb := strings.Repeat("../", 12) + secret[1:]
	for what, source := range map[string]string{
		"include":   fmt.Sprintf("#include %q", secret),
		"climbs":    fmt.Sprintf("#include %q", climb),
		"macro":     fmt.Sprintf("#define THE %q\n#include THE", secret),
		"incbin":    fmt.Sprintf(`__asm__(".incbin \"%s\"");`, secret),
		"assembler": fmt.Sprintf(`__asm__(".include \"%s\"");`, secret),
		"device":    `#include "/dev/zero"`,
		"passwd":    `#include "/etc/passwd"`,
		"control":   "#error \x1b[2Jgone\x1b]0;title\a\r\u009b",
		"large":     `__asm__(".pushsection .data\n.fill 16777216, 8, 1\n.popsection");`,
	} {
		out, err := compile(source)
		var refused *labs.Refusal
		if !errors.As(err, &refused) {
			t.Errorf("%s: error %v", what, err)
			continue
		}
		text := out.Log + refused.Summary + refused.Log
		if strings.Contains(text, "root:") || strings.ContainsAny(text, "\x1b\a\r\u009b") {
			t.Errorf("%s: %q", what, text)
		}
		if what == "large" && !strings.Contains(refused.Summary, "64 MiB") {
			t.Errorf("%s: %s", what, refused.Summary)
		}
		if what == "passwd" && !strings.Contains(refused.Summary, "Permission denied") {
			t.Errorf("%s: %s", what, refused.Summary)
		}
	}
	if out, err := compile("#if !__has_include(<immintrin.h>) && !__has_include(<arm_neon.h>)\n#error none\n#endif\n#include <math.h>"); err != nil {
		t.Errorf("the compiler's own headers: %v\n%s", err, out.Log)
	}

	// Without Landlock, what names such a file openly is refused.
	h.tool.jail = nil
	if _, err := compile(fmt.Sprintf("#include %q", secret)); err == nil || !strings.Contains(err.Error(), "which is not the candidate's") {
		t.Errorf("without Landlock: %v", err)
	}
}
