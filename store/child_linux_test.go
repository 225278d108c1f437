package store

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evotune/evotune/internal/longtest"
)

// childDB names the store of a child, which is to be killed, to hit a limit, or to
// have no permissions.
const childDB = "EVOTUNE_STORE_PATH"

func init() { child = play }

func play(role string) int {
	path := os.Getenv(childDB)
	var err error
	switch role {
	case "append":
		err = childAppend(path, -1)
	case "limit":
		err = childAppend(path, 1<<20)
	case "archive":
		err = childArchive(path)
	case "backup":
		err = childBackup(path)
	case "nobody":
		if err = syscall.Setgid(65534); err == nil {
			err = syscall.Setuid(65534)
		}
		if err == nil {
			_, err = Open(path, Options{})
			_, err2 := Open(path, Options{ReadOnly: true})
			fmt.Println(errors.Is(err, fs.ErrPermission), errors.Is(err2, fs.ErrPermission))
		}
	}
	if err != nil {
		fmt.Println(err)
		return 3
	}
	return 0
}

// childAppend resumes where the log ends and appends until it is killed or
// fails. It prints the Seq of the last event of each call that was acknowledged.
func childAppend(path string, limit int64) error {
	if limit > 0 {
		r := syscall.Rlimit{Cur: uint64(limit), Max: uint64(limit)}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &r); err != nil {
			return err
		}
	}
	s, err := Open(path, Options{Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	n, err := appendForever(s, func(seq uint64) {
		fmt.Fprintln(out, seq)
		_ = out.Flush()
	})
	if err == nil {
		return errors.New("ended by itself")
	}
	if limit <= 0 {
		return err
	}
	// The store must still answer, and take more when there is room again.
	if !errors.Is(err, ErrFull) {
		return fmt.Errorf("not ErrFull: %w", err)
	}
	if c, err := s.Candidate(fmt.Sprintf("%08x", n-1)); err != nil || c.Told == nil {
		return fmt.Errorf("not readable when full: %w", err)
	}
	if _, err := s.Best(Query{Limit: 10}); err != nil {
		return fmt.Errorf("not readable when full: %w", err)
	}
	fmt.Println("full:", err)
	return s.Close()
}

// appendForever appends what a campaign would, in calls of different sizes, until
// there is an error. It returns how many evaluations there are.
func appendForever(s *Store, acknowledged func(uint64)) (int, error) {
	last, err := s.Last()
	if err != nil {
		return 0, err
	}
	n := 0
	if last == 0 {
		if _, err := s.Append(started("one")); err != nil {
			return 0, err
		}
		acknowledged(1)
	} else {
		c, err := s.Campaign("one")
		if err != nil {
			return 0, err
		}
		n = c.Asked
		if c.Asked != c.Evaluated {
			return 0, fmt.Errorf("%d proposals and %d results: a call was kept in part", c.Asked, c.Evaluated)
		}
	}
	for {
		var events []Event
		for range 1 + n%3 {
			id := fmt.Sprintf("%08x", n)
			var parents []string
			if n > 0 {
				parents = append(parents, fmt.Sprintf("%08x", n/2), fmt.Sprintf("%08x", n-1))
			}
			result := told("one", n, id, float64(1+n%100))
			result.Told.Detail = fmt.Appendf(nil, `"%x"`, noise(int64(n), 300))
			events = append(events, asked("one", n, id, parents...), result)
			n++
		}
		first, err := s.Append(events...)
		if err != nil {
			return n - len(events)/2, err
		}
		acknowledged(first + uint64(len(events)) - 1)
	}
}

// output is the file that a child writes to.
type output string

func (o output) String() string {
	b, err := os.ReadFile(string(o))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func startChild(t *testing.T, role, path string) (*exec.Cmd, output) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+role, childDB+"="+path)
	out, err := os.CreateTemp(t.TempDir(), role)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, output(out.Name())
}

// acknowledged reads the last whole line of numbers.
func acknowledged(t *testing.T, out string) (last uint64) {
	t.Helper()
	for line := range strings.Lines(out) {
		if !strings.HasSuffix(line, "\n") {
			break // cut off by the kill
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64); err == nil {
			last = n
		} else {
			t.Fatalf("the child says %q", line)
		}
	}
	return last
}

// A process that is killed at any instant loses nothing that was acknowledged.
func TestKill(t *testing.T) { testKill(t, 3) }

func TestKillNightly(t *testing.T) {
	longtest.Nightly(t, "kills", "it kills a process 40 times")
	testKill(t, 40)
}

func testKill(t *testing.T, kills int) {
	t.Helper()
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	path := filepath.Join(t.TempDir(), "evotune.db")
	known := uint64(0)
	for k := range kills {
		cmd, out := startChild(t, "append", path)
		// From before it opens the store to in the middle of its work.
		if k%4 != 0 {
			for deadline := time.Now().Add(30 * time.Second); out.String() == "" && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Duration(rng.ExpFloat64() * float64(25*time.Millisecond)))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("kill %d: the child ended by itself: %v, %s", k, err, out)
		}
		known = max(known, acknowledged(t, out.String()))
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
			if known > 0 {
				t.Fatalf("kill %d: the store is gone", k)
			}
			continue // killed before it began
		}
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("kill %d: %v", k, err)
		}
		last, err := s.Last()
		if err != nil {
			t.Fatal(err)
		}
		if last < known {
			t.Fatalf("kill %d: event %d was acknowledged, the last one is %d", k, known, last)
		}
		rep, err := s.Check()
		if err != nil || !rep.OK() || uint64(rep.Events) != last {
			t.Fatalf("kill %d: %+v, %v", k, rep, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d events acknowledged before %d kills", known, kills)
	if known == 0 {
		t.Error("no child came to append anything")
	}
}

// checkFull has a child fill the space and looks at what it left.
func checkFull(t *testing.T, role, path string) {
	t.Helper()
	cmd, out := startChild(t, role, path)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	message := lines[len(lines)-1]
	if !strings.HasPrefix(message, "full: ") {
		t.Fatalf("the child says %q", message)
	}
	oneLine(t, errors.New(message), path)
	t.Log(message)
	known := acknowledged(t, strings.Join(lines[:len(lines)-1], "\n")+"\n")
	if rep := mustBeSound(t, path); uint64(rep.Events) != known {
		t.Errorf("%d events acknowledged, %d found", known, rep.Events)
	}
}

func TestFileSizeLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	checkFull(t, "limit", path)
	// Without the limit it goes on.
	s := mustOpen(t, path, Options{})
	mustAppend(t, s, note("one", KindStopped, "room again"))
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=600k"); err != nil {
		t.Skipf("NOT TESTED: a small file system cannot be mounted here (%v); TestFileSizeLimit tests the same path", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "evotune.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	known := uint64(0)
	n, err := appendForever(s, func(seq uint64) { known = seq })
	if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("after %d evaluations: %v", n, err)
	}
	oneLine(t, err, path)
	t.Log(err)
	if got, err := s.Candidate(fmt.Sprintf("%08x", n-1)); err != nil || got.Told == nil {
		t.Errorf("not readable when full: %+v, %v", got, err)
	}
	if rep, err := s.Check(); err != nil || !rep.OK() || uint64(rep.Events) != known {
		t.Errorf("check when full, %d acknowledged: %+v, %v", known, rep, err)
	}
	if _, err := Repair(path, Options{Timeout: -1}); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	// Again and again, it stays whole.
	for range 3 {
		if _, err := appendForever(s, func(seq uint64) { known = seq }); !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(path, Options{}); !errors.Is(err, ErrFull) && err != nil {
		t.Errorf("repair without room: %v", err)
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("repair left %v, %v", left, err)
	}
	if rep := mustBeSound(t, path); uint64(rep.Events) != known {
		t.Errorf("%d events acknowledged, %d found", known, rep.Events)
	}
	// With room it goes on in the same file.
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, path, Options{})
	mustAppend(t, s, note("one", KindStopped, "room again"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustBeSound(t, path)
}

func TestCreateOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("NOT TESTED: a small file system cannot be mounted here (%v)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "evotune.db")
	for range 2 {
		_, err := Open(path, Options{})
		if !errors.Is(err, ErrFull) {
			t.Error(err)
		}
		oneLine(t, err, path)
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatalf("with room again: %v", err)
	}
	smallStore(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustBeSound(t, path)
}

func TestPermissionAsNobody(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become nobody: TestPermission tests this")
	}
	dir, err := os.MkdirTemp("", "evotune-store") //nolint:usetesting // others may not enter the folders of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "evotune.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{path: 0o600, dir: 0o755} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd, out := startChild(t, "nobody", path)
	_ = cmd.Wait()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || lines[0] != "true true" {
		t.Fatalf("the child says %q", out)
	}
	oneLine(t, errors.New(lines[1]), path)
}
