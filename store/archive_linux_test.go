package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evotune/evotune/internal/longtest"
)

// childArchive archives one campaign after the other until it is killed.
func childArchive(path string) error {
	s, err := Open(path, Options{Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	maxRemoved = 40
	fmt.Println(1) // it begins
	if _, err := s.Archive(context.Background()); err != nil {
		return err
	}
	for {
		all, err := s.Archivable(time.Now())
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return s.Close()
		}
		if _, err := s.Archive(context.Background(), all[0].ID); err != nil {
			return err
		}
	}
}

// childBackup makes one copy after the other.
func childBackup(path string) error {
	s, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	fmt.Println(1)
	for i := 0; ; i++ {
		if _, err := s.Backup(context.Background(), fmt.Sprintf("%s.copy%d", path, i%2), true); err != nil {
			return err
		}
	}
}

// killAt starts a child that waits to be killed, and kills it after a while from when
// it has begun. It says whether the child ended by itself before.
func killAt(t *testing.T, role, path string, after time.Duration) (ended bool) {
	t.Helper()
	cmd, out := startChild(t, role, path)
	for deadline := time.Now().Add(30 * time.Second); out.String() == "" && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(after)
	_ = cmd.Process.Kill() // it may have ended
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		t.Fatalf("the child says %s", out)
	}
	return err == nil
}

// Killed at any instant of archiving, every answer is what it was: nothing is lost,
// and nothing is there twice.
func TestArchiveKillLong(t *testing.T) {
	longtest.Long(t, "it kills processes")
	testArchiveKill(t, 1)
}

func TestArchiveKillNightly(t *testing.T) {
	longtest.Nightly(t, "kills", "it kills processes for long")
	testArchiveKill(t, 6)
}

func testArchiveKill(t *testing.T, rounds int) {
	t.Helper()
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	kills, between := 0, map[string]int{}
	for range rounds {
		path := filepath.Join(t.TempDir(), "evotune.db")
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		names := woven(t, s, 5, 90)
		want := answersOf(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			if n == 200 {
				t.Fatal("200 children did not archive five campaigns")
			}
			// Later ones live longer, so that it comes to an end on any machine, however slow.
			after := time.Duration(rng.ExpFloat64() * float64(4*time.Millisecond) * math.Pow(1.05, float64(n)))
			if killAt(t, "archive", path, after) {
				break
			}
			kills++
			rep := mustBeSound(t, path)
			archived := 0
			for _, a := range rep.Archives {
				archived += a.Events
			}
			switch left, _ := filepath.Glob(path + ".archive/*" + partial + "*"); {
			case len(left) > 0:
				between["copying"]++
			case rep.Events+archived < len(want.Events):
				t.Fatalf("%d and %d events of %d", rep.Events, archived, len(want.Events))
			}
			if s, err = Open(path, Options{ReadOnly: true}); err != nil {
				t.Fatal(err)
			}
			if n%3 == 0 {
				mustAnswer(t, s, want)
			} else { // what is quick to compare
				got, err := s.Campaigns()
				if diff := cmp.Diff(want.Campaigns, got, cmpopts.IgnoreFields(Campaign{}, "Archive")); err != nil || diff != "" {
					t.Fatalf("%v %s", err, diff)
				}
				n := 0
				for e, err := range s.Events("", 0, WithoutDetail()) {
					if n++; err != nil || e.Seq != uint64(n) {
						t.Fatalf("event %d is the %dth, %v", e.Seq, n, err)
					}
				}
				if n != len(want.Events) {
					t.Fatalf("%d events of %d", n, len(want.Events))
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if s, err = Open(path, Options{}); err != nil {
			t.Fatal(err)
		}
		mustAnswer(t, s, want)
		mustAppend(t, s, note(names[4], KindStopped, "on"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		rep := mustBeSound(t, path)
		if files, _ := filepath.Glob(path + ".archive/*"); len(files) != len(rep.Archives) || len(rep.Archives) != 4 || len(rep.Findings) > 0 {
			t.Errorf("%d archives, and the folder has %v", len(rep.Archives), files)
		}
	}
	t.Logf("%d kills, %v", kills, between)
	if kills == 0 {
		t.Error("no child was killed in time")
	}
}

// Killed at any instant, a backup leaves a whole copy or none.
func TestBackupKillLong(t *testing.T) {
	longtest.Long(t, "it kills processes")
	dir := t.TempDir()
	path := filepath.Join(dir, "evotune.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := woven(t, s, 3, 60)
	mustArchive(t, s, names[0])
	want := answersOf(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(1))
	whole := 0
	for n := range 8 {
		if killAt(t, "backup", path, time.Duration(rng.ExpFloat64()*float64(10*time.Millisecond)*float64(1+n))) {
			t.Fatal("the child ended by itself")
		}
		for i := range 2 {
			file := fmt.Sprintf("%s.copy%d", path, i)
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			whole++
			mustBeSound(t, file)
			c := mustOpen(t, file, Options{ReadOnly: true})
			if n == 0 {
				mustAnswer(t, c, want)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d whole copies", whole)
}

// smallDisk mounts a file system of a few bytes.
func smallDisk(t *testing.T, size string) (dir string, resize func(string)) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("NOT TESTED: a small file system cannot be mounted here (%v)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, func(size string) {
		t.Helper()
		if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
}

// A full disk changes nothing, wherever it is full.
func TestArchiveDiskFull(t *testing.T) {
	dir, resize := smallDisk(t, "40m")
	path := filepath.Join(dir, "evotune.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names := woven(t, s, 3, 150)
	want := answersOf(t, s)
	full, done := 0, 0
	for used := s.bytes(t); done == 0 && full < 400; used += 8 << 10 {
		resize(fmt.Sprint(used))
		a, err := s.Archive(t.Context(), names[0], names[1])
		switch {
		case errors.Is(err, ErrFull):
			oneLine(t, err, path)
			full++
		case err != nil:
			t.Fatal(err)
		default:
			done = len(a.Campaigns)
		}
		if c, err := s.Campaign(names[0]); err != nil {
			t.Fatal(err)
		} else if c.Archive != "" {
			done = 2 // removing was what had no room
		}
		if left, _ := filepath.Glob(path + ".*/*"); done == 0 && len(left) > 0 {
			t.Fatalf("left behind: %v", left)
		}
		if full%16 == 1 || done > 0 {
			mustAnswer(t, s, want)
		}
		if rep, err := s.Check(); err != nil || !rep.OK() {
			t.Fatalf("check: %+v, %v", rep, err)
		}
	}
	t.Logf("full %d times", full)
	if full == 0 || done != 2 {
		t.Errorf("full %d times, then %d campaigns archived", full, done)
	}
	resize("60m")
	mustArchive(t, s)
	mustAnswer(t, s, want)
}

func TestBackupDiskFull(t *testing.T) {
	dir, resize := smallDisk(t, "100k")
	s := mustCreate(t)
	names := woven(t, s, 3, 60)
	mustArchive(t, s, names[1])
	file := filepath.Join(dir, "copy.db")
	elsewhere := filepath.Join(t.TempDir(), "copy.db")
	if _, err := s.Backup(t.Context(), elsewhere, false); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	// The last has room for the store and not for its archive.
	for _, size := range []string{"100k", "200k", fmt.Sprint(info.Size() + 20<<10)} {
		resize(size)
		_, err := s.Backup(t.Context(), file, false)
		if !errors.Is(err, ErrFull) {
			t.Fatalf("with %s: %v", size, err)
		}
		oneLine(t, err, file)
		if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
			t.Fatalf("left behind: %v", left)
		}
	}
	resize("20m")
	if _, err := s.Backup(t.Context(), file, false); err != nil {
		t.Fatal(err)
	}
	mustBeSound(t, file)
}
