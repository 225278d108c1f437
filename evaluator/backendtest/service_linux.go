package backendtest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/internal/peer"
)

// Secret is what all that nobody may read of a [Service] holds.
const Secret = "the-secret-of-the-service"

// A Service is what a hostile program must not reach: the test's process with a store
// and a token, both its user's alone, a file that all may read and write, listening
// sockets, variables with a secret, a descriptor that closes in no program that it
// starts, and another process of its user.
type Service struct {
	Dir    string // holds "store", "token", "public" and "socket"
	Port   int    // on 127.0.0.1, and in the name of abstract sockets
	Other  int    // the other process
	Open   int    // the descriptor of the token
	Setuid string // a program that makes the file it is given, if it can as root

	reached chan string
	before  string // of the other process
}

// abstract are the names of a service's abstract sockets, before its port.
var abstract = map[string]string{"unix": "@evotune-contain-", "unixpacket": "@evotune-packets-"}

// NewService starts one, which ends with the test.
func NewService(t *testing.T) *Service {
	t.Helper()
	s := &Service{reached: make(chan string, 1000), Setuid: os.Getenv(setuidVariable)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	s.Dir, err = os.MkdirTemp("", "evotune-service-") //nolint:usetesting // a socket's path is short, and others enter it
	must(err)
	t.Cleanup(func() { _ = os.RemoveAll(s.Dir) })
	must(os.Chmod(s.Dir, 0o755))
	if s.Setuid == "" {
		s.Setuid = filepath.Join(s.Dir, "setuid")
		must(copySetuid(s.Setuid))
	}
	for name, mode := range map[string]os.FileMode{"store": 0o600, "token": 0o600, "public": 0o666} {
		path := filepath.Join(s.Dir, name)
		must(os.WriteFile(path, []byte(Secret), mode))
		must(os.Chmod(path, mode))
	}
	store, err := os.OpenFile(filepath.Join(s.Dir, "store"), os.O_RDWR, 0)
	must(err)
	t.Cleanup(func() { _ = store.Close() })
	must(unix.Flock(int(store.Fd()), unix.LOCK_EX))
	s.Open, err = unix.Open(filepath.Join(s.Dir, "token"), unix.O_RDONLY, 0) // without O_CLOEXEC, as a library would
	must(err)
	t.Cleanup(func() { _ = unix.Close(s.Open) })
	for _, name := range []string{"EVOTUNE_TOKEN", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, Secret)
	}

	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	must(err)
	s.Port = tcp.Addr().(*net.TCPAddr).Port
	s.accept(t, tcp)
	listen := func(kind, at string) {
		l, err := net.Listen(kind, at)
		must(err)
		if !strings.HasPrefix(at, "@") {
			l = peer.Outsiders(l) // as the service's own
		}
		s.accept(t, l)
	}
	listen("unix", filepath.Join(s.Dir, "socket"))
	must(os.Chmod(filepath.Join(s.Dir, "socket"), 0o600))
	for kind, name := range abstract {
		listen(kind, name+strconv.Itoa(s.Port))
	}
	datagrams, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(s.Dir, "datagrams"), Net: "unixgram"})
	must(err)
	t.Cleanup(func() { _ = datagrams.Close() })
	go func() {
		if _, _, err := datagrams.ReadFrom(make([]byte, 10)); err == nil {
			s.reached <- "a datagram came"
		}
	}()

	usr1, done := make(chan os.Signal, 100), make(chan struct{})
	signal.Notify(usr1, unix.SIGUSR1)
	t.Cleanup(func() { signal.Stop(usr1); close(done) })
	go func() {
		for {
			select {
			case <-usr1:
				s.reached <- "the service got a signal"
			case <-done:
				return
			}
		}
	}()
	other := exec.Command("/bin/sleep", "3600")
	other.Env = []string{"SECRET=" + Secret}
	must(other.Start())
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	s.Other = other.Process.Pid
	for !strings.HasPrefix(s.before, "S ") { // until it sleeps
		time.Sleep(10 * time.Millisecond)
		s.before = s.state()
	}
	return s
}

// Answered says with nil that a socket of the service answers what has connected to it.
func Answered(fd int) error {
	limit := unix.Timeval{Sec: 5}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return err
	}
	n, err := unix.Read(fd, make([]byte, 10))
	if err == nil && n == 0 {
		return io.EOF
	}
	return err
}

func (s *Service) accept(t *testing.T, l net.Listener) {
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.reached <- l.Addr().String() + " was connected to"
			_, _ = c.Write([]byte("hello")) // for Answered
			_ = c.Close()
		}
	}()
}

// state is what others can change of the other process.
func (s *Service) state() string {
	read := func(name string) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.Other, name))
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	status := read("status")
	stat := strings.Fields(read("stat")) // the name has no spaces
	if len(stat) < 20 {
		return status
	}
	changes := regexp.MustCompile(`(?m)^(TracerPid|Cpus_allowed|SigPnd|ShdPnd|Threads):.*`).FindAllString(status, -1)
	return fmt.Sprint(stat[2], " ", stat[17:19], changes, read("limits"), read("oom_score_adj"))
}

// Unharmed fails the test where anything of the service was reached.
func (s *Service) Unharmed(t *testing.T) {
	t.Helper()
	for wait := 50 * time.Millisecond; ; wait = 0 {
		select {
		case what := <-s.reached:
			t.Error(what)
			continue
		case <-time.After(wait):
		}
		break
	}
	for _, name := range []string{"store", "token", "public"} {
		if text, err := os.ReadFile(filepath.Join(s.Dir, name)); string(text) != Secret {
			t.Errorf("the %s holds %q, %v", name, text, err)
		}
	}
	if info, err := os.Stat(filepath.Join(s.Dir, "token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token: %v, %v", info, err)
	}
	files, err := os.ReadDir(s.Dir)
	for _, f := range files {
		switch f.Name() {
		case "store", "token", "public", "socket", "datagrams", "setuid":
		default:
			t.Errorf("there is a file %s", f.Name())
		}
	}
	if len(files) < 5 || err != nil {
		t.Errorf("the service's folder holds %v, %v", files, err)
	}
	for _, flood := range []string{"/dev/shm/flood", "/tmp/flood", "/tmp/evotune-token"} {
		if _, err := os.Lstat(flood); err == nil {
			t.Errorf("there is a file %s", flood)
			_ = os.Remove(flood)
		}
	}
	if after := s.state(); after != s.before {
		t.Errorf("the other process was\n%s\nand is\n%s", s.before, after)
	}
}

// copySetuid makes a program that runs as its owner.
func copySetuid(path string) error {
	text, err := os.ReadFile("/usr/bin/touch")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o755); err != nil {
		return err
	}
	return os.Chmod(path, 0o755|os.ModeSetuid)
}

// copyFile copies a program.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
