package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func needLandlock(t *testing.T) {
	t.Helper()
	if Landlock() == 0 {
		t.Skip(NoLandlock)
	}
}

// A jailed program, and what it starts, reads and writes what it may and
// nothing else, reaches no network, and no process outside.
func TestJail(t *testing.T) {
	needLandlock(t)
	l := launcher(t)
	given, secret := t.TempDir(), t.TempDir()
	for _, dir := range []string{given, secret} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("contents\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for script, allowed := range map[string]bool{
		"echo x > own && cat own":                                 true,
		"cat " + given + "/file":                                  true,
		"(sh -c 'cat " + given + "/file')":                        true,
		"cat " + secret + "/file":                                 false,
		"ls " + secret:                                            false,
		"(sh -c 'cat " + secret + "/file')":                       false,
		"ln -s " + secret + "/file link && cat link":              false,
		"cat " + given + "/../" + filepath.Base(secret) + "/file": false,
		"echo x > " + given + "/new":                              false,
		"rm " + given + "/file":                                   false,
		"cat /etc/passwd":                                         false,
		"cat /proc/$PPID/environ":                                 false,
		"cat /proc/$PPID/cmdline":                                 false,
		"kill -0 $PPID":                                           false,
		"kill -0 $$":                                              true,
	} {
		c := shell(script)
		c.Dir, c.Jail = t.TempDir(), NewJail(given)
		text, err := l.Run(t.Context(), c)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatalf("%s: %v", script, err)
		}
		if (err == nil) != allowed {
			t.Errorf("%s: %v %s, allowed %t", script, err, text, allowed)
		}
	}
	// Threads of this process are as free as before.
	for range 50 {
		if _, err := os.ReadFile(filepath.Join(secret, "file")); err != nil {
			t.Fatal(err)
		}
	}
}

// socketVariable makes the test's binary a program that opens sockets.
const socketVariable = "EVOTUNE_PROCESS_TEST_SOCKETS"

func openSockets() {
	for _, family := range []int{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
			if _, err := unix.Socket(family, kind, 0); err == nil || err != unix.EACCES { //nolint:errorlint // it returns the number itself
				fmt.Println(family, kind, err)
			}
		}
	}
	if outside := os.Getenv(socketVariable); strings.HasPrefix(outside, "@") {
		_, err := net.Dial("unix", outside)
		fmt.Println("outside:", errors.Unwrap(errors.Unwrap(err)))
		l, err := net.Listen("unix", outside+"-own")
		if err == nil {
			defer l.Close()
			_, err = net.Dial("unix", outside+"-own")
		}
		fmt.Println("own:", err)
	}
}

// Sockets that reach beyond the machine are refused to a jailed program.
// A jail without a file has all else that was in its folder, and no link back to it.
func TestJailWithout(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"lib/debug/a/one", "lib/debug/a/two", "lib/debug/b/three", "lib/four", "other/five"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("debug/a", filepath.Join(dir, "lib/link")), os.Symlink("lib", filepath.Join(dir, "usual"))); err != nil {
		t.Fatal(err)
	}
	from := func(names ...string) (paths []string) {
		for _, n := range names {
			paths = append(paths, filepath.Join(dir, n))
		}
		return paths
	}
	j := &Jail{Read: append(from("lib", "other", "usual"), "/not there"), Write: from("other")}
	got := j.Without(from("lib/debug/a/one", "lib/debug/nothing")...)
	slices.Sort(got.Read)
	want := from("lib/debug/a/two", "lib/debug/b", "lib/four", "other")
	if read := slices.Compact(got.Read); !slices.Equal(read, append([]string{"/not there"}, want...)) || !slices.Equal(got.Write, j.Write) {
		t.Errorf("%v and %v", read, got.Write)
	}
	if got := j.Without(); !slices.Equal(got.Read, j.Read) {
		t.Errorf("without nothing: %v", got.Read)
	}
}

func TestJailNetwork(t *testing.T) {
	needLandlock(t)
	l := launcher(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := l.Run(t.Context(), Command{
		Path: self, Env: []string{socketVariable + "=1"}, Timeout: 30 * time.Second, Output: 1000,
		Jail: NewJail().With([]string{self}, nil), Dir: t.TempDir(),
	})
	if want := "1 5 <nil>\n"; err != nil || string(text) != want {
		t.Errorf("sockets by family and type: %q, %v, want %q", text, err, want)
	}
}

// The calls of 32-bit programs, which any may make, open no socket either.
func TestJailOtherTable(t *testing.T) {
	needLandlock(t)
	gcc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs gcc on amd64")
	}
	program := filepath.Join(t.TempDir(), "program")
	build := exec.Command(gcc, "-o", program, "-x", "c", "-")
	build.Stdin = strings.NewReader(`#include <stdio.h>
int main(void)
{
	int r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(359), "b"(2), "c"(2), "d"(0) : "memory");
	return printf("%d\n", r) < 0;
}`)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var free *exec.ExitError
	if err := exec.Command(program).Run(); errors.As(err, &free) && free.Sys().(syscall.WaitStatus).Signal() == unix.SIGSEGV {
		t.Skip("this machine has no calls of 32-bit programs")
	}
	c := Command{Path: program, Jail: NewJail(program), Dir: t.TempDir(), Timeout: 30 * time.Second, Output: 100}
	text, err := launcher(t).Run(t.Context(), c)
	if err != nil || string(text) != "-38\n" {
		t.Errorf("a 32-bit call for a socket gives %q, %v, want ENOSYS", text, err)
	}
}

// A program that may use streams opens Unix sockets for them, and no others; it reaches none
// outside by an abstract name.
func TestJailStreams(t *testing.T) {
	needLandlock(t)
	if Landlock() < 6 {
		t.Skip("this Landlock does not confine abstract names")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	outside := fmt.Sprintf("@evotune-streams-%d", os.Getpid())
	s, err := net.Listen("unix", outside)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	jail := NewJail(self)
	jail.Streams = true
	text, err := launcher(t).Run(t.Context(), Command{
		Path: self, Env: []string{socketVariable + "=" + outside}, Timeout: 30 * time.Second, Output: 1000, Jail: jail.With(nil, nil), Dir: t.TempDir(),
	})
	want := fmt.Sprintf("%d %d <nil>\n%d %d <nil>\noutside: operation not permitted\nown: <nil>\n", unix.AF_UNIX, unix.SOCK_STREAM, unix.AF_UNIX, unix.SOCK_SEQPACKET)
	if err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}

// portsVariable makes the test's binary a program that connects to ports.
const portsVariable = "EVOTUNE_PROCESS_TEST_PORTS"

func connectPorts() {
	for _, protocol := range []int{0, unix.IPPROTO_TCP, unix.IPPROTO_MPTCP, unix.IPPROTO_SCTP} {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, protocol)
		fmt.Println("protocol", protocol, err)
		_ = unix.Close(fd)
	}
	_, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	fmt.Println("datagrams", err)
	for _, name := range strings.Split(os.Getenv(portsVariable), ",") {
		fd, _ := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		port, _ := strconv.Atoi(name)
		fmt.Println("connect", unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}))
		_ = unix.Close(fd)
	}
}

// A program that has ports uses TCP on those alone.
func TestJailPorts(t *testing.T) {
	needLandlock(t)
	if Landlock() < 4 {
		t.Skip("this Landlock knows no ports")
	}
	var ports []uint16
	for range 2 {
		s, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ports = append(ports, uint16(s.Addr().(*net.TCPAddr).Port))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	jail := NewJail()
	jail.Ports = ports[:1]
	text, err := launcher(t).Run(t.Context(), Command{
		Path: self, Env: []string{fmt.Sprintf("%s=%d,%d", portsVariable, ports[0], ports[1])}, Timeout: 30 * time.Second, Output: 1000,
		Jail: jail.With([]string{self}, nil), Dir: t.TempDir(),
	})
	want := "protocol 0 <nil>\nprotocol 6 <nil>\nprotocol 262 permission denied\nprotocol 132 permission denied\n" +
		"datagrams permission denied\nconnect <nil>\nconnect permission denied\n"
	if err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}

// What holds the user's files is given to no program.
func TestNewJail(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	tool := filepath.Join(home, "toolkit")
	got := NewJail("/", home, filepath.Dir(home), "/tmp", "/etc", tool, tool+"/../../home").Read
	if len(got) != len(system)+1 || got[len(system)] != tool {
		t.Errorf("%q", got[len(system):])
	}
	if list := (&Jail{Read: []string{"/a"}, Write: []string{"/b"}}).List(); list != "r/a:w/b" {
		t.Errorf("list %q", list)
	}
}

func TestFlagPaths(t *testing.T) {
	got := FlagPaths([]string{"-O3", "-I/opt/a/include", "-isystem", "/opt/b", "-Wl,-rpath,/opt/c/lib", "--sysroot=/opt/d", "-I{{.X}}", "-L/opt/{{.Y}}", "-Isub", "-DA=b/c", "-DB=/etc/shadow", "-D", "C=/etc/shadow"})
	if want := []string{"/opt/a/include", "/opt/b", "/opt/c/lib", "/opt/d"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A jailed program dies with its launcher.
func TestJailedDies(t *testing.T) {
	needLandlock(t)
	l := NewLauncher()
	cmd := exec.Command("/bin/sleep", "300")
	if err := l.start(request{cmd: cmd, jail: NewJail()}); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if state, err := cmd.Process.Wait(); err != nil || state.Success() {
		t.Errorf("after Close the child ended with %v, %v", state, err)
	}
}

func TestLimits(t *testing.T) {
	l := launcher(t)
	c := shell("until [ $(ulimit -f) != unlimited ]; do sleep 0.1; done; dd if=/dev/zero of=big bs=1000 count=1000")
	c.Dir, c.FileSize = t.TempDir(), 100_000
	if text, err := l.Run(t.Context(), c); err == nil {
		t.Errorf("a file larger than its bound: %s", text)
	}
	if info, err := os.Stat(filepath.Join(c.Dir, "big")); err != nil || info.Size() > 100_000 {
		t.Errorf("%v, %v", info, err)
	}
	c = shell("while :; do :; done")
	c.CPU = time.Second
	_, err := l.Run(t.Context(), c)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(exit.Error(), "signal") {
		t.Errorf("a program that uses more processor time than its bound: %v", err)
	}
}
