package cpu

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

const containDir = "../testdata/contain"

// serviceHeader tells attempts.h where the service is.
func serviceHeader(s *backendtest.Service) string {
	return fmt.Sprintf("#define SERVICE %q\n#define SETUID %q\n#define PORT %d\n#define VICTIM %d\n#define SECRET %q\n", s.Dir, s.Setuid, s.Port, s.Other, backendtest.Secret)
}

// An ending is how an attempt ends: with an error that the kernel sees, after which it
// computes what it should, or with the kernel's end for the act named.
type ending struct {
	errno unix.Errno
	act   string
}

func fails(e unix.Errno) ending { return ending{errno: e} }

func ends(act string) ending { return ending{act: act} }

// endings are those of all attempts of attempts.h.
var endings = map[string]ending{
	"network": ends("use the network"), "files_read": fails(unix.EACCES), "files_write": ends("write a file"),
	"store": fails(unix.EACCES), "token": fails(unix.EACCES), "unix_socket": ends("use the network"),
	"trace": ends("reach into another process"), "kill": ends("send a signal"), "fork_flood": ends("start a process"),
	"disk_flood": ends("write a file"), "memory_file": fails(unix.EACCES), "setuid_exec": ends("become another program"),
	"descriptors": fails(unix.EBADF),

	"store_write": ends("write a file"), "store_truncate": ends("write a file"), "store_remove": ends("remove a file"),
	"token_move": ends("rename a file"), "token_link": ends("a system call that is refused"), "token_mode": ends("change a file"),
	"token_climb": fails(unix.EACCES), "token_root": fails(unix.EACCES), "token_root_of": fails(unix.EACCES),
	"token_openat2": fails(unix.ENOSYS), "token_handle": ends("open a file by its handle"), "token_by_handle": ends("open a file by its handle"),
	"folder": fails(unix.EACCES), "processes": fails(unix.EACCES),
	"abstract_socket": ends("use the network"), "socket_pair": ends("use the network"), "socket_netlink": ends("use the network"),
	"socket_vsock": ends("use the network"), "socket_packet": ends("use the network"), "socket_crypto": ends("use the network"),
	"socket_32_bit": ends("a system call that is refused"), "socket_passes": fails(unix.ENOSYS), "socket_receives": fails(unix.ENOSYS),
	"table_x32": ends("a system call that is refused"), "ring": ends("io_uring_setup"), "execute_memory": ends("make a file in memory"),
	"faults": ends("userfaultfd"), "trace_judge": ends("reach into another process"), "memory_judge": fails(unix.EACCES),
	"memory_read": ends("reach into another process"), "memory_read_judge": ends("reach into another process"),
	"files_of_judge": fails(unix.EACCES), "files_taken": ends("reach into another process"), "compared": ends("reach into another process"),
	"clock_of_judge": fails(unix.EINVAL), "kill_self": ends("send a signal"), "stop_self": ends("send a signal"), "thread_waits": ends("start a process"),
	"kill_judge": ends("send a signal"), "kill_group": ends("send a signal"), "kill_all": ends("send a signal"),
	"kill_thread": ends("send a signal"), "signal_queue": ends("send a signal"), "signal_owner": ends("send a signal"),
	"limits_of_judge": ends("change limits"), "limits_of_other": ends("change limits"), "limits_raised": ends("change limits"),
	"affinity_of_other": fails(unix.EPERM), "priority_of_other": ends("change priorities"), "priority_of_disk": ends("change priorities"),
	"pages_of_other": ends("move the memory of another process"),
	"shared_file":    ends("write a file"), "shared_memory": ends("keep memory"), "messages": ends("keep memory"), "queue": ends("keep memory"),
	"keys": ends("keep memory"), "keys_read": ends("keep memory"), "watch": ends("watch files"), "watch_all": ends("watch files"),
	"kernel_program": ends("load a program into the kernel"), "counters": ends("count what others do"), "kernel_log": ends("read the kernel's log"),
	"mounted": ends("change what is mounted"), "mounted_new": fails(unix.ENOSYS), "mounted_tree": fails(unix.ENOSYS),
	"root_changed": ends("change what is mounted"), "namespace": ends("leave its process group"), "namespace_joined": ends("leave its process group"),
	"user": ends("become another user"), "capabilities": ends("become another user"), "dumpable": ends("change what the kernel does"),
	"terminal": fails(unix.ENOTTY), "layout": ends("change what the kernel does"), "locked": ends("lock memory"),
	// These hold no secret, which is looked for in them.
	"own_environment": fails(unix.ENODATA), "own_arguments": fails(unix.ENODATA),
}

// valgrindEndings are those of attempts that valgrind answers itself, since it does not
// know the call or looks at the file first.
var valgrindEndings = map[string]ending{
	"setuid_exec": fails(unix.EACCES), "socket_32_bit": ends("SIGILL"), "table_x32": fails(unix.ENOSYS), "faults": fails(unix.ENOSYS),
	"files_taken": fails(unix.ENOSYS), "pages_of_other": fails(unix.ENOSYS), "own_arguments": fails(unix.ENOSYS),
	"thread_waits": ends("(status 1)"),
}

// has32BitCalls says whether this machine answers the calls of 32-bit programs at all: some
// kernels have none, and some virtual machines cannot, so that the instruction for them faults.
func has32BitCalls(t *testing.T) bool {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	build := exec.Command("gcc", "-o", program, "-x", "c", "-")
	build.Stdin = strings.NewReader(`int main(void)
{
#ifdef __x86_64__
	int r; /* getpid */
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory");
#endif
	return 0;
}`)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return exec.Command(program).Run() == nil
}

// TestContained: no attempt of a kernel on the service that judges it succeeds, when it is loaded or
// launched.
func TestContained(t *testing.T) {
	contained(t, quick(), 2, func(*lab) []flavour { return []flavour{cleanFlavour()} })
}

// TestContainedLong: nor does it as a user.
func TestContainedLong(t *testing.T) {
	longtest.Long(t, "compiles for another user")
	defer backendtest.AsNobody(t, containDir)
	if os.Getuid() != 0 {
		contained(t, quick(), 13, func(*lab) []flavour { return []flavour{cleanFlavour()} })
	}
}

// TestContainedNightly: nor does it in a build for a sanitizer, as root and as a user.
func TestContainedNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "starts every tool many times")
	defer backendtest.AsNobody(t, containDir)
	o := quick()
	o.Sanitizers = nil
	contained(t, o, 0, func(h *lab) []flavour { return h.flavours })
}

// contained makes all attempts in some builds when they are launched, and the first few when they are loaded.
func contained(t *testing.T, o Options, loaded int, flavours func(*lab) []flavour) {
	t.Helper()
	s := backendtest.NewService(t)
	calls32 := has32BitCalls(t)
	h, _ := jailLab(t, o)
	for _, tool := range h.Desc.Tools {
		if (tool.Name == "seccomp" || tool.Name == "landlock") && tool.Missing != "" {
			t.Skipf("skipped: %s: %s", tool.Name, tool.Missing)
		}
	}
	attempts, err := os.ReadFile(containDir + "/attempts.h")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\tX\((\w+),`).FindAllStringSubmatch(string(attempts), -1) {
		names = append(names, m[1])
	}
	const source = `#include "attempts.h"
static long when_loaded;
#ifdef LOADED
__attribute__((constructor)) static void early(void) { when_loaded = attempt(LOADED); }
#endif
void evotune_call(const long *d, void *const *b, const double *s)
{
	(void)d, (void)s;
	float *x = b[0];
	x[0] = (float)(*x < 0 ? when_loaded : attempt((int)*x));
	for (int i = 0; i < (int)sizeof leaked; i++)
		x[1 + i] = leaked[i];
}
`
	for _, f := range flavours(h) {
		t.Run(f.name, func(t *testing.T) {
			build := func(args ...string) []byte {
				args = slices.Concat([]string{"-O1"}, f.args, args, []string{"-shared", "-fPIC", "contain.c"})
				object, err := h.tool.compile(t.Context(), compilation{
					files: map[string]string{"contain.c": source, "attempts.h": string(attempts), "service.h": serviceHeader(s)}, args: args,
				})
				if err != nil {
					t.Fatal(err)
				}
				return object.Object
			}
			const elements = 65
			d := &shapeData{layout: newLayout([]placedBuffer{{name: "x", dtype: f32, elements: elements, bytes: 4 * elements, role: roleInOut}})}
			a, err := newArena(d.layout.stride)
			if err != nil {
				t.Fatal(err)
			}
			defer a.close()
			var p *process
			start := func(object []byte) error {
				if p != nil {
					p.kill()
				}
				var err error
				if p, err = h.start(t.Context(), &f, object, a, nil, 2); err != nil {
					return err
				}
				return p.setShape(d, span{})
			}
			defer func() {
				if p != nil {
					p.kill()
				}
			}()
			// judge compares what an attempt gave and what the kernel put out.
			judge := func(name, when string, want ending, object []byte, code float64, err error) {
				t.Helper()
				if err == nil {
					x := a.buffer(&d.layout, span{}, 0, 0)
					f32.put(x, 0, code)
					if _, err = p.ask(command{kind: commandRun, launches: []uint32{0}, junk: -1}, answerDone, 20*time.Second); err == nil {
						code = f32.get(x, 0)
						for i := 1; i < elements; i++ {
							if f32.get(x, i) != 0 {
								t.Errorf("%s, %s: the outputs depend on what it read", name, when)
								break
							}
						}
					}
				}
				text := ""
				if p != nil {
					text = p.log.Text()
				}
				var fault *evaluator.Fault
				if errors.As(err, &fault) {
					text += fault.Log
				}
				switch {
				case err != nil && fault == nil:
					t.Errorf("%s, %s: %v", name, when, err)
				case want.act != "" && f.wrapper != nil && fault != nil && strings.Contains(fault.Reason, "a system call that is refused to candidates"):
				case want.act != "" && (fault == nil || !strings.Contains(fault.Reason, "tried to "+want.act) && !strings.Contains(fault.Reason, want.act)):
					t.Errorf("%s, %s: gives %v, %v, and should end: %s", name, when, unix.Errno(-code), err, want.act)
				case want.act == "" && (fault != nil || unix.Errno(-code) != want.errno):
					t.Errorf("%s, %s: gives %v, %v, and should give %v", name, when, unix.Errno(-code), err, want.errno)
				}
				if strings.Contains(text, backendtest.Secret) {
					t.Errorf("%s, %s: the kernel printed the secret", name, when)
				}
				if err != nil && when == "launched" {
					if err := start(object); err != nil {
						t.Fatal(err)
					}
				}
			}
			object := build()
			if err := start(object); err != nil {
				t.Fatal(err)
			}
			for i, name := range names {
				want, ok := endings[name]
				if !ok {
					t.Errorf("attempt %s has no ending", name)
				}
				if name == "socket_32_bit" && !calls32 {
					want = ends("SIGSEGV")
					if f.name == "asan" || f.name == "tsan" { // they report it, and exit
						want = ends(fmt.Sprintf("(status %d)", findingStatus))
					}
				}
				if other, ok := valgrindEndings[name]; ok && f.wrapper != nil {
					want = other
				}
				judge(name, "launched", want, object, float64(i), nil)
			}
			for i, name := range names[:loaded] {
				object := build(fmt.Sprintf("-DLOADED=%d", i))
				judge(name, "loaded", endings[name], object, -1, start(object))
			}
		})
		s.Unharmed(t)
	}
}

// startSource starts a process with a C source, which knows a shape with one number, and gives that.
func startSource(t *testing.T, h *lab, f flavour, role uint64, source string) (*process, []byte) {
	t.Helper()
	object, err := h.tool.compile(t.Context(), compilation{
		args: []string{"-O1", "-shared", "-fPIC", "k.c", "-pthread"}, files: map[string]string{"k.c": source},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := &shapeData{layout: newLayout([]placedBuffer{{name: "x", dtype: f32, elements: 1, bytes: 4, role: role}})}
	a, err := newArena(d.layout.stride)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	p, err := h.start(t.Context(), &f, object.Object, a, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if err := p.setShape(d, span{}); err != nil {
		t.Fatal(err)
	}
	return p, a.buffer(&d.layout, span{}, 0, 0)
}

// TestThreadFloodLong: a candidate's threads stop where evotune, the same user's, still has
// some left.
func TestThreadFloodLong(t *testing.T) {
	longtest.Long(t, "compiles for another user")
	defer backendtest.AsNobody(t)
	if os.Getuid() == 0 || runtime.GOARCH != "amd64" {
		return // root may have any number
	}
	h, _ := jailLab(t, quick())
	p, out := startSource(t, h, cleanFlavour(), roleInOut, `
static const long pause[2] = {600, 0};
/* A thread without a stack, which needs none to wait. */
static long thread(void)
{
	long r;
	__asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 2f\n"
	                 "1:\tmov $35, %%eax\n\tmov %2, %%rdi\n\txor %%esi, %%esi\n\tsyscall\n\tjmp 1b\n2:"
	                 : "=a"(r) : "a"(56), "r"(pause), "D"(0x50f00), "S"(0) : "rcx", "r11", "rdx", "r10", "r8", "memory");
	return r;
}
void evotune_call(const long *d, void *const *b, const double *s)
{
	(void)d, (void)s;
	int n = 0;
	while (n < 3 * 4096 && thread() > 0)
		n++;
	*(float *)b[0] = (float)n;
}
`)
	if _, err := p.ask(command{kind: commandRun, launches: []uint32{0}, junk: -1}, answerDone, time.Minute); err != nil {
		t.Fatal(err)
	}
	got := f32.get(out, 0)
	t.Logf("%v threads", got)
	if got < 100 || got > moreThreads+500 { // others of this user may have gone
		t.Errorf("it started %v threads", got)
	}
	if err := exec.Command("/bin/true").Run(); err != nil {
		t.Errorf("while they are there: %v", err)
	}
}

// TestLastWords: a candidate that ends before evotune stops it, as may be in a batch that is interrupted,
// is told from one that called exit.
func TestLastWords(t *testing.T) {
	h, _ := jailLab(t, quick())
	for body, want := range map[string]string{
		"socket(1, 1, 0);":   "use the network",
		"*(float *)b[0] = 1": "wrote to input x at element 0",
		"_exit(72)":          "called exit (status 72)",
	} {
		p, _ := startSource(t, h, cleanFlavour(), roleIn, `
int socket(int, int, int);
void _exit(int);
void evotune_call(const long *d, void *const *b, const double *s) { (void)d, (void)b, (void)s; `+body+`; }
`)
		if want == "use the network" && !p.sandboxed {
			continue
		}
		if err := p.send(command{kind: commandRun, launches: []uint32{0}, step: 1, junk: -1}); err != nil {
			t.Fatal(err)
		}
		<-p.exited
		if err := p.freeze(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", body, err, want)
		}
	}
}

// TestRefusedEarlier: a thread may make a refused call at any time, while evotune waits for another answer.
func TestRefusedEarlier(t *testing.T) {
	h, _ := jailLab(t, quick())
	p, _ := startSource(t, h, cleanFlavour(), roleIn, `
void evotune_call(const long *d, void *const *b, const double *s) { (void)d, (void)b, (void)s; }
`)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	defer theirs.Close()    //nolint:errcheck // nothing is written any more
	defer p.control.Close() //nolint:errcheck // the process has gone
	p.control = os.NewFile(uintptr(pair[0]), "ours")
	packet := make([]byte, answerBytes)
	order := binary.NativeEndian
	order.PutUint32(packet, answerMagic)
	order.PutUint32(packet[4:], uint32(answerDenied))
	order.PutUint64(packet[8:], p.nonce)
	order.PutUint64(packet[16:], p.seq-1)
	order.PutUint64(packet[32:], unix.SYS_SOCKET)
	if _, err := theirs.Write(packet); err != nil {
		t.Fatal(err)
	}
	if _, err := p.receive(answerDone, 10*time.Second); err == nil || !strings.Contains(err.Error(), "use the network") {
		t.Error(err)
	}
}

// TestHalted: threads stop although the first one takes no signal, as where it waits for the end of another.
func TestHalted(t *testing.T) {
	h, _ := jailLab(t, quick())
	f := cleanFlavour()
	f.sandbox = false // which refuses the flag; others may do the same
	p, out := startSource(t, h, f, roleInOut, `
#define _GNU_SOURCE
#include <sched.h>
static char stack[1 << 16] __attribute__((aligned(64)));
static int work(void *to)
{
	for (volatile float *f = to; *f < 1e7f;)
		for (int i = 0; ++i < 1000; *f += 1e-3f)
			;
	return 0;
}
void evotune_call(const long *d, void *const *b, const double *s)
{
	(void)d, (void)s;
	clone(work, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_VFORK, b[0]);
}
`)
	if err := p.send(command{kind: commandRun, launches: []uint32{0}, step: 1, junk: -1}); err != nil {
		t.Fatal(err)
	}
	count := func() float64 { return f32.get(out, 0) }
	for count() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := p.halt(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	used, err := p.cpuTime()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if after, err := p.cpuTime(); err != nil || after != used {
		t.Errorf("it worked for %v, %v", after-used, err)
	}
}

// TestThreadsThatWork: a thread that a launch left has no time to work in, beyond what it takes to see that it does.
func TestThreadsThatWork(t *testing.T) {
	h, _ := jailLab(t, quick())
	p, _ := startSource(t, h, cleanFlavour(), roleInOut, `
#include <pthread.h>
static void *work(void *p)
{
	for (volatile int i = 0; ; i++)
		;
	return p;
}
void evotune_call(const long *d, void *const *b, const double *s)
{
	(void)d, (void)b, (void)s;
	pthread_t t;
	pthread_create(&t, 0, work, 0);
}
`)
	if _, err := p.ask(command{kind: commandRun, launches: []uint32{0}, step: 1, junk: -1}, answerDone, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := p.freeze(); err != nil {
		t.Fatal(err)
	}
	begun, err := p.cpuTime()
	if err != nil {
		t.Fatal(err)
	}
	n, err := p.threads(1)
	if n != 2 || err != nil {
		t.Errorf("%d threads, %v", n, err)
	}
	if after, err := p.cpuTime(); err != nil || after-begun > threadGrace/2 {
		t.Errorf("it worked for %v, %v", after-begun, err)
	}
}

// TestContainedCompilerLong: no source brings what is the service's into a diagnostic or a
// binary, as root and as a user.
func TestContainedCompilerLong(t *testing.T) {
	longtest.Long(t, "compiles some eighty sources as root and as a user")
	defer backendtest.AsNobody(t)
	s := backendtest.NewService(t)
	h, _ := jailLab(t, quick())
	if h.tool.jail == nil {
		t.Skip(h.tool.unjailed)
	}
	paths := []string{s.Dir + "/store", s.Dir + "/token", s.Dir + "/public", s.Dir + "/socket"}
	for _, pid := range []string{"self", fmt.Sprint(s.Other), fmt.Sprint(os.Getpid())} {
		for _, name := range []string{"environ", "mem", "cmdline", "maps", "root" + s.Dir + "/token", fmt.Sprint("fd/", s.Open)} {
			paths = append(paths, "/proc/"+pid+"/"+name)
		}
	}
	paths = append(paths, fmt.Sprint("/dev/fd/", s.Open), "/dev/fd/3", "/dev/fd/4", "/dev/fd/5")
	const kernel = "\nvoid evotune_call(const long *d, void *const *b, const double *s) { (void)d, (void)b, (void)s; }\n"
	compile := func(source string) (compiled, error) {
		return h.tool.compile(t.Context(), compilation{files: map[string]string{"k.c": source + kernel}, args: []string{"-shared", "-fPIC", "k.c"}})
	}
	for _, path := range paths {
		for what, source := range map[string]string{
			"include":   "#define THE \"%s\"\n#include THE",
			"incbin":    `__asm__(".incbin \"%s\"");`,
			"assembler": `__asm__(".include \"%s\"");`,
		} {
			out, err := compile(fmt.Sprintf(source, path))
			var refused *labs.Refusal
			text := out.Log + string(out.Object)
			if errors.As(err, &refused) {
				text += refused.Summary + refused.Log
			} else if !strings.Contains(path, "/fd/") || err != nil { // the compiler has files of its own
				t.Errorf("%s of %s: error %v", what, path, err)
			}
			if strings.Contains(text, backendtest.Secret) {
				t.Errorf("%s of %s gives the secret", what, path)
			}
		}
	}
	s.Unharmed(t)
}

// TestContainedOrdealNightly: each of the twelve attempts, made when the kernel is loaded, when
// it is verified, when it is timed, and under a sanitizer or valgrind, through the whole
// ordeal, gets its verdict at its stage; and those that end with an error change nothing.
func TestContainedOrdealNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "it judges some fifty kernels as root and as a user")
	defer backendtest.AsNobody(t, containDir)
	s := backendtest.NewService(t)
	folder := fstest.MapFS{"contain/service.h": {Data: []byte(serviceHeader(s))}}
	files, err := os.ReadDir(containDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(containDir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		folder["contain/"+f.Name()] = &fstest.MapFile{Data: text}
	}
	def, err := kernels.Load(folder, "contain")
	if err != nil {
		t.Fatal(err)
	}
	o := quick("asan", "memcheck")
	ev := open(t, def, o)
	for _, tool := range ev.Describe().Tools {
		if slices.Contains([]string{"seccomp", "landlock", "asan", "memcheck"}, tool.Name) && tool.Missing != "" {
			t.Skipf("skipped: %s: %s", tool.Name, tool.Missing)
		}
	}
	stages := map[string]evaluator.Stage{
		"loaded": evaluator.StageParity, "verified": evaluator.StageParity,
		"sanitized": evaluator.StageSanitize, "timed": evaluator.StageBenchmark,
	}
	for _, g := range ev.space.Genes() {
		if g.Name != "ATTEMPT" {
			continue
		}
		for _, v := range g.Values {
			name := v.Any().(string)
			want, ok := endings[name]
			if !ok {
				t.Errorf("attempt %s has no ending", name)
			}
			for when, stage := range stages {
				r := ev.evaluate(t, "ATTEMPT", name, "WHEN", when, "SALT", 1)
				t.Logf("%s, %s: %s at %s: %s", name, when, r.Verdict, r.Stage, r.Reason)
				verdict := evaluator.Launch
				switch {
				case want.act == "":
					verdict, stage = evaluator.Correct, evaluator.StageBenchmark // the last
				case when == "sanitized":
					verdict = evaluator.Sanitizer
				}
				if r.Verdict != verdict || r.Stage != stage || !strings.Contains(r.Reason, want.act) {
					t.Errorf("%s, %s: %s at %s: %s; want %s at %s: %s", name, when, r.Verdict, r.Stage, r.Reason, verdict, stage, want.act)
				}
				if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), backendtest.Secret) {
					t.Errorf("%s, %s: the result holds the secret, %v", name, when, err)
				}
			}
		}
	}
	s.Unharmed(t)
}
