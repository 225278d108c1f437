package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// attackVariable makes the test's binary a hostile program: it names the folder of a
// service, with its store, token and socket, the port and the process of that service,
// and those of another process.
const attackVariable = "PROCESS_TEST_ATTACK"

// streamsVariable says whether it may open Unix sockets for streams.
const streamsVariable = "PROCESS_TEST_STREAMS"

func init() {
	if target := os.Getenv(attackVariable); target != "" {
		attack(strings.Split(target, ","))
		os.Exit(0)
	}
}

// attack prints what it could do that no jailed program may. Where it can, it harms that
// service alone: tests run as root, beside others.
func attack(target []string) {
	dir := target[0]
	port, _ := strconv.Atoi(target[1])
	judge, _ := strconv.Atoi(target[2])
	other, _ := strconv.Atoi(target[3])
	could := func(what string, err error) {
		if err == nil {
			fmt.Println("could", what)
		}
	}
	call := func(number uintptr, args ...uintptr) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
	text := func(s string) uintptr { p, _ := unix.BytePtrFromString(s); return uintptr(unsafe.Pointer(p)) }

	for _, name := range []string{"store", "token", "public"} {
		_, err := os.ReadFile(filepath.Join(dir, name))
		could("read the "+name, err)
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		could("write the "+name, err)
		_ = f.Close()
		could("truncate the "+name, os.Truncate(filepath.Join(dir, name), 0))
		could("remove the "+name, os.Remove(filepath.Join(dir, name)))
		could("move the "+name, os.Rename(filepath.Join(dir, name), "moved"))
		could("link the "+name, os.Link(filepath.Join(dir, name), "linked"))
	}
	could("make a file", os.WriteFile(filepath.Join(dir, "made"), nil, 0o600))
	for _, pid := range []int{judge, other, os.Getppid()} {
		for _, name := range []string{"mem", "environ", "maps", "auxv", "cmdline", "status"} {
			_, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			if name == "mem" { // nothing lies at its beginning
				var f *os.File
				f, err = os.Open(fmt.Sprintf("/proc/%d/mem", pid))
				_ = f.Close()
			}
			could(fmt.Sprintf("read /proc/%d/%s", pid, name), err)
		}
		_, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		could(fmt.Sprintf("list the files of %d", pid), err)
		for _, s := range []unix.Signal{0, unix.SIGUSR1, unix.SIGKILL} {
			could(fmt.Sprintf("signal %d", pid), unix.Kill(pid, s))
			could(fmt.Sprintf("signal thread %d", pid), unix.Tgkill(pid, pid, s))
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			could(fmt.Sprintf("signal %d by descriptor", pid), unix.PidfdSendSignal(fd, unix.SIGUSR1, nil, 0))
			_, err := unix.PidfdGetfd(fd, 3, 0)
			could(fmt.Sprintf("take a file of %d", pid), err)
		}
		could(fmt.Sprintf("trace %d", pid), unix.PtraceSeize(pid))
		here, there := make([]byte, 8), []unix.RemoteIovec{{Base: 0x400000, Len: 8}}
		local := []unix.Iovec{{Base: &here[0], Len: 8}}
		if _, err := unix.ProcessVMReadv(pid, local, there, 0); err == nil || err == unix.EFAULT { //nolint:errorlint // it returns the number itself
			could(fmt.Sprintf("read the memory of %d", pid), nil)
		}
		limit := unix.Rlimit{Cur: 4096, Max: 4096}
		could(fmt.Sprintf("limit %d", pid), unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil))
		could(fmt.Sprintf("compare with %d", pid), call(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(pid), 2, 0, 0))
	}
	streams := os.Getenv(streamsVariable) == "true"
	for kind, name := range map[int]string{unix.SOCK_STREAM: "stream", unix.SOCK_DGRAM: "datagrams", unix.SOCK_SEQPACKET: "packets"} {
		for _, at := range []string{filepath.Join(dir, "socket"), "@evotune-contain-" + target[1], "@evotune-packets-" + target[1]} {
			fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
			if err != nil {
				continue
			}
			if err = unix.Connect(fd, &unix.SockaddrUnix{Name: at}); err == nil && streams && kind == unix.SOCK_STREAM {
				err = backendtest.Answered(fd) // what listens at a path looks at who connects
			}
			could("connect to "+at+" by "+name, err)
			_ = unix.Close(fd)
		}
		if pair, err := unix.Socketpair(unix.AF_UNIX, kind, 0); err == nil {
			could("connect one of a pair by "+name, unix.Connect(pair[0], &unix.SockaddrUnix{Name: filepath.Join(dir, "socket")}))
			_ = unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: filepath.Join(dir, "datagrams")}) // which the service would see
		}
	}
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err == nil {
		could("connect to the port", unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}))
	}
	for _, family := range []int{unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET, unix.AF_VSOCK, unix.AF_ALG} {
		_, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		could(fmt.Sprintf("open a socket of family %d", family), err)
	}
	for fd := 3; fd < 1024; fd++ {
		buffer := make([]byte, 100)
		if n, err := unix.Pread(fd, buffer, 0); err == nil && strings.Contains(string(buffer[:n]), backendtest.Secret) {
			could(fmt.Sprintf("read descriptor %d", fd), nil)
		}
	}
	if strings.Contains(strings.Join(os.Environ(), "\n"), backendtest.Secret) {
		could("read the service's environment", nil)
	}

	// What a root without capabilities, and anyone else, cannot do to the machine.
	could("mount", call(unix.SYS_MOUNT, text("none"), text(dir), text("tmpfs"), 0, 0))
	could("change the root", call(unix.SYS_CHROOT, text(".")))
	could("make a namespace", call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER))
	could("be in a namespace", call(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)))
	could("load a program into the kernel", call(unix.SYS_BPF, 0, text(strings.Repeat("\x01", 100)), 0))
	could("ask for a ring", call(unix.SYS_IO_URING_SETUP, 4, text(strings.Repeat("\x00", 200))))
	could("watch faults", call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1))
	could("make a key", call(unix.SYS_ADD_KEY, text("user"), text("evotune-test"), text("x"), 1, ^uintptr(4)+1))
	could("make a queue", call(unix.SYS_MQ_OPEN, text("evotune-test"), unix.O_CREAT|unix.O_RDWR, 0o600, 0))
	could("make messages", call(unix.SYS_MSGGET, 0x7e57ed10, 0o1600))
	host, _ := os.Hostname()
	could("name the host", unix.Sethostname([]byte(host)))
	could("open a file by handle", call(unix.SYS_OPEN_BY_HANDLE_AT, 3, text(strings.Repeat("\x01", 200)), 0))
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	const harmless = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH // Landlock says of which files
	if err := unix.Capget(&header, &has[0]); err != nil || has[0].Permitted&^harmless != 0 || has[1].Permitted != 0 {
		could(fmt.Sprintf("use the capabilities %x", has), nil)
	}
	fmt.Println("tried")
}

// TestJailContains: what runs in a jail reaches nothing of a service that started it, as
// root and as a user, and whether the jail has ports and streams or not.
func TestJailContains(t *testing.T) {
	if process.Landlock() < 6 {
		t.Skip("this kernel's Landlock does not confine signals and sockets")
	}
	s := backendtest.NewService(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := process.NewLauncher()
	defer l.Close()
	for _, c := range []struct {
		ports   []uint16
		streams bool
	}{{nil, false}, {[]uint16{49152}, false}, {[]uint16{49152}, true}} {
		t.Run(fmt.Sprintf("%d ports, streams %t", len(c.ports), c.streams), func(t *testing.T) {
			jail := process.NewJail().With([]string{self}, nil)
			jail.Ports, jail.Streams = c.ports, c.streams
			text, err := l.Run(t.Context(), process.Command{
				Path: self, Jail: jail, Dir: t.TempDir(), Timeout: time.Minute, Output: 64 << 10,
				Env: []string{fmt.Sprintf("%s=%s,%d,%d,%d", attackVariable, s.Dir, s.Port, os.Getpid(), s.Other), fmt.Sprintf("%s=%t", streamsVariable, c.streams)},
			})
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			if err != nil || !slices.Equal(lines, []string{"tried"}) {
				t.Errorf("%v:\n%s", err, text)
			}
			s.Unharmed(t)
		})
	}
	backendtest.AsNobody(t)
}
