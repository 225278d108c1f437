//go:build linux

package cpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	programs "github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/internal/longtest"
)

// apart is a compiler that refuses all that it is asked while the file beside it says
// that something is timed.
func apart(t *testing.T) (compiler, timed string) {
	t.Helper()
	needCompiler(t)
	path, err := findCompiler("auto")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	compiler, timed = filepath.Join(dir, "cc"), filepath.Join(dir, "timed")
	script := fmt.Sprintf("#!/bin/sh\nalone() { if [ -e %q ]; then echo 'error: compiled beside what is timed' >&2; exit 1; fi; }\n"+
		"alone\n%q \"$@\" || exit\nalone\n", timed, path)
	if err := os.WriteFile(compiler, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return compiler, timed
}

// TestTimingKeepsOut: a compiler of another lab waits until a timing has ended.
func TestTimingKeepsOut(t *testing.T) {
	one, two := openBare(t), sharedLab(t, "mixed", guardsName).lab
	unit := compilation{
		files: map[string]string{"new.c": fmt.Sprintf("const long made_at = %d;\n", time.Now().UnixNano())},
		args:  []string{"-shared", "-fPIC", "new.c"},
	}
	s := one.open(evaluator.ForTiming, one.build("nothing", 1))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := two.tool.compile(ctx, unit); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it compiled beside what is timed: %v", err)
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := two.tool.compile(t.Context(), unit); err != nil {
		t.Error(err)
	}
}

// TestReadyBeforeTiming: while a timing waits for others' work, its process starts, and it begins when that ends. Beside another
// timing nothing starts.
func TestReadyBeforeTiming(t *testing.T) {
	b := openBare(t)
	a := b.build("nothing", 1)
	harnesses := func() (n int) {
		for _, p := range programs.Descendants(programs.Table(), os.Getpid()) {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID)); err == nil && exe == b.harness["clean"] {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		hold   func(context.Context) (context.Context, func(), error)
		starts bool
	}{{programs.ShareHost, true}, {programs.TakeHost, false}} {
		_, release, err := c.hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before, opened := harnesses(), make(chan error, 1)
		go func() {
			s, err := b.Open(t.Context(), evaluator.ForTiming, a)
			if err == nil {
				_, err = s.Close()
			}
			opened <- err
		}()
		limit := 20 * time.Second
		if !c.starts {
			limit = 200 * time.Millisecond
		}
		started := false
		for begin := time.Now(); time.Since(begin) < limit && !started; time.Sleep(5 * time.Millisecond) {
			started = harnesses() > before
		}
		select {
		case err := <-opened:
			t.Errorf("it was opened beside other work: %v", err)
			release()
			continue
		default:
		}
		release()
		if err := <-opened; err != nil || started != c.starts {
			t.Errorf("its process started while it waited: %t, want %t (%v)", started, c.starts, err)
		}
	}
}

// TestTimingLeavesCores: where cores don't slow each other down, the next candidate is compiled beside a timing, unless
// the timing has threads for all cores.
func TestTimingLeavesCores(t *testing.T) {
	if cores() < 2 {
		t.Skip("there is one core")
	}
	one, two := openBare(t), sharedLab(t, "mixed", guardsName).lab
	was := one.apart
	defer func() { one.apart = was }()
	for _, c := range []struct {
		apart    bool
		threads  int
		compiles bool
	}{{true, 1, true}, {false, 1, false}, {true, cores(), false}} {
		one.apart = c.apart
		src := two.baselineSource
		src.Source += fmt.Sprintf("\nconst long made_at = %d;\n", time.Now().UnixNano())
		src.Hash = fmt.Sprint(time.Now().UnixNano())
		s := one.open(evaluator.ForTiming, one.build("nothing", c.threads))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if !c.compiles {
			ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		}
		_, report, err := two.Build(ctx, src)
		cancel()
		if compiled := err == nil && report.Refused == ""; compiled != c.compiles || !compiled && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v: it compiled: %v, %v, %+v", c, compiled, err, report)
		}
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLabsShareTheHostLong: while one lab of this process times a candidate and leaves no cores, no other
// compiles, and none is opened; both come to their turn.
func TestLabsShareTheHostLong(t *testing.T) {
	longtest.Long(t, "it opens a lab without a cache beside one that measures")
	compiler, timed := apart(t)
	one := openBare(t)
	was := one.apart
	defer func() { one.apart = was }()
	one.apart = false
	a := one.build("nothing", 1)
	measure := func() (err error) {
		s, err := one.Open(t.Context(), evaluator.ForTiming, a)
		if err != nil {
			return err
		}
		defer func() {
			_, closed := s.Close()
			err = errors.Join(err, closed)
		}()
		if err := os.WriteFile(timed, nil, 0o600); err != nil {
			return err
		}
		for range 3 {
			if _, err := s.Sample(t.Context(), one.request(2, false)); err != nil {
				return err
			}
			time.Sleep(10 * time.Millisecond) // for others to come
		}
		return os.Remove(timed)
	}
	stop, measured := make(chan struct{}), make(chan error, 1)
	times := 0
	go func() {
		var err error
		for done := false; !done && err == nil; times++ {
			err = measure()
			select {
			case <-stop:
				done = true
			default:
			}
		}
		measured <- err
	}()
	o := quick()
	o.Compiler, o.CacheDir = compiler, t.TempDir() // there is something to compile
	other := bareOf(t, open(t, load(t, "scale"), o))
	for _, wrong := range []string{"zone", "late"} {
		other.build(wrong, 1)
	}
	close(stop)
	if err := <-measured; err != nil {
		t.Fatal(err)
	}
	if times < 3 {
		t.Errorf("one lab measured %d times while another was opened and compiled", times)
	}
}
