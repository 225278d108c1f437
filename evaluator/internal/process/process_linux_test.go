package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
)

func launcher(t *testing.T) *Launcher {
	t.Helper()
	l := NewLauncher()
	t.Cleanup(l.Close)
	return l
}

func shell(script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Timeout: 20 * time.Second, Output: 100}
}

func TestRun(t *testing.T) {
	l := launcher(t)
	c := shell("echo $WORD $TMPDIR; pwd; cat; echo err >&2")
	c.Dir, c.Env, c.Stdin = t.TempDir(), []string{"WORD=said"}, strings.NewReader("in\n")
	text, err := l.Run(t.Context(), c)
	if want := "said " + c.Dir + "\n" + c.Dir + "\nin\nerr\n"; err != nil || string(text) != want {
		// The folder's name may be longer than what is kept.
		if err != nil || !strings.HasPrefix(want, string(text)) || len(text) < 100 {
			t.Errorf("%q, %v; want %q", text, err, want)
		}
	}
	var exit *exec.ExitError
	if _, err := l.Run(t.Context(), shell("exit 3")); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("a program that fails: %v", err)
	}
	if text, err := l.Run(t.Context(), shell(`printf '\377'; yes`+" | head -c 100000")); err != nil || len(text) < 100 || len(text) > 103 || text[0] != '?' {
		t.Errorf("a program that says much: %d bytes, %v", len(text), err)
	}
}

// A program's whole group ends at its deadline, and when its context does.
func TestRunEnds(t *testing.T) {
	l := launcher(t)
	for _, c := range []struct {
		name    string
		timeout time.Duration
		ctx     time.Duration
		want    error
	}{
		{"deadline", 200 * time.Millisecond, time.Minute, ErrTimeout},
		{"context", time.Minute, 200 * time.Millisecond, context.DeadlineExceeded},
	} {
		pid := ""
		for more := time.Duration(1); pid == "" && more < 100; more *= 5 { // a busy machine may not have begun the shell
			ctx, cancel := context.WithTimeout(t.Context(), more*c.ctx)
			cmd := shell("sleep 300 & echo $!; sleep 300")
			cmd.Timeout = more * c.timeout
			begin := time.Now()
			text, err := l.Run(ctx, cmd)
			cancel()
			if !errors.Is(err, c.want) || time.Since(begin) > time.Minute {
				t.Errorf("%s: %v after %v", c.name, err, time.Since(begin))
			}
			pid = strings.TrimSpace(string(text))
		}
		if pid == "" || !gone(pid) {
			t.Errorf("%s: the program's child %q lives", c.name, pid)
		}
	}
}

// gone says whether a process ends; one that nobody waited for has ended.
func gone(pid string) bool {
	for range 6000 {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func TestMemory(t *testing.T) {
	l := launcher(t)
	limit := shell("until [ $(ulimit -v) != unlimited ]; do sleep 0.1; done; ulimit -v")
	limit.Memory = 256 << 20
	if text, err := l.Run(t.Context(), limit); err != nil || strings.TrimSpace(string(text)) != "262144" {
		t.Errorf("the address space of a bounded program: %q KiB, %v", text, err)
	}
}

// The launcher's children die with it, and it starts no more.
func TestClose(t *testing.T) {
	l := NewLauncher()
	cmd := exec.Command("/bin/sleep", "300")
	if err := l.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if pgid, err := unix.Getpgid(cmd.Process.Pid); err != nil || pgid != cmd.Process.Pid {
		t.Errorf("process %d is in group %d, %v", cmd.Process.Pid, pgid, err)
	}
	l.Close()
	if state, err := cmd.Process.Wait(); err != nil || state.Success() {
		t.Errorf("after Close the child ended with %v, %v", state, err)
	}
	if err := l.Start(exec.Command("/bin/true")); !errors.Is(err, evaluator.ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
}

// TestMain runs on the process's first thread, which Go never ends: a launcher
// whose goroutine comes to run there must still take its children with it.
// Which thread a goroutine gets is chance in a test, so it is done here.
func TestMain(m *testing.M) {
	if os.Getenv(socketVariable) != "" {
		openSockets()
		return
	}
	if os.Getenv(portsVariable) != "" {
		connectPorts()
		return
	}
	l := &Launcher{requests: make(chan request), done: make(chan struct{}), ended: make(chan struct{})}
	state := make(chan string)
	go func() {
		cmd := exec.Command("/bin/sleep", "20")
		if err := l.Start(cmd); err != nil {
			state <- err.Error()
			return
		}
		l.Close()
		_ = cmd.Wait()
		state <- cmd.ProcessState.String()
	}()
	l.loop()
	if text := <-state; unix.Gettid() != unix.Getpid() || text != "signal: killed" {
		fmt.Printf("a launcher on thread %d of process %d: its child ended with %q\n", unix.Gettid(), unix.Getpid(), text)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// The main goroutine stays on the process's first thread.
func init() { runtime.LockOSThread() }

// Without randomisation two runs of a program have one layout.
func TestStartFixed(t *testing.T) {
	l := launcher(t)
	stack := func(start func(*exec.Cmd) error) string {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		log := NewLog(r, 4096)
		cmd := exec.Command("/bin/grep", "stack", "/proc/self/maps")
		cmd.Env, cmd.Stdout = []string{}, w
		if err := start(cmd); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		log.Close()
		return log.Text()
	}
	if a, b := stack(l.StartFixed), stack(l.StartFixed); a != b || a == "" {
		t.Errorf("two layouts:\n%s%s", a, b)
	}
	if a, b := stack(l.Start), stack(l.Start); a == b {
		t.Skipf("this machine does not randomise at all: %s", a)
	}
}

// What a killed program has started is waited for too, not the program alone.
func TestNoZombies(t *testing.T) {
	l := launcher(t)
	_, err := l.Run(t.Context(), Command{Path: "/bin/sh", Args: []string{"-c", "sh -c 'sleep 60; true' & sleep 60; true"}, Timeout: 200 * time.Millisecond})
	if !errors.Is(err, ErrTimeout) {
		t.Fatal(err)
	}
	for _, p := range Descendants(Table(), os.Getpid()) {
		if p.State == 'Z' {
			t.Errorf("%+v was not waited for", p)
		}
	}
}

// A program that is run gets none of evotune's own environment that it does not need, and no
// files that others left open.
func TestNothingInherited(t *testing.T) {
	for _, name := range []string{"EVOTUNE_TOKEN", "EVOTUNE_SERVER", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "ssh_auth_sock"} {
		t.Setenv(name, "private")
	}
	for _, name := range []string{"CPATH", "NVCC_APPEND_FLAGS", "GCC_EXEC_PREFIX", "DATABASE_URL"} {
		t.Setenv(name, "private")
	}
	t.Setenv("LD_LIBRARY_PATH", "/nowhere")
	fd, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	l := launcher(t)
	c := shell("env | grep -e private -e LD_; ls /proc/self/fd")
	text, err := l.Run(t.Context(), c)
	if want := "LD_LIBRARY_PATH=/nowhere\n0\n1\n2\n3\n"; err != nil || string(text) != want { // 3 is the folder
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}
