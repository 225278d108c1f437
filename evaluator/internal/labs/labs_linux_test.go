package labs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/process"
)

func newBase(t *testing.T, dir string) *Base {
	t.Helper()
	b, err := New(t.Context(), evaluator.Plan{}, slog.New(slog.DiscardHandler), dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.End(nil, nil); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Answers are kept unless one takes more than an eighth of the cache.
func TestKeepAnswer(t *testing.T) {
	b, err := New(t.Context(), evaluator.Plan{}, slog.New(slog.DiscardHandler), t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.End(nil, nil); err != nil {
			t.Error(err)
		}
	}()
	for n, kept := range map[int]bool{0: true, 1 << 17: true, 1<<17 + 1: false} {
		key := cache.Key(strconv.Itoa(n))
		b.KeepAnswer(key, make([]byte, n), nil)
		if answer, ok := b.Cache.Get("references", key, nil); ok != kept || ok && len(answer) != n {
			t.Errorf("%d bytes of a cache of 1 MiB: kept %v, %d bytes", n, ok, len(answer))
		}
	}
}

// A lab that ends waits for the calls under way, ends their contexts, and lets in none.
func TestEnd(t *testing.T) {
	b := newBase(t, t.TempDir())
	ctx, leave, err := b.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	stopped := make(chan struct{})
	go func() {
		<-ctx.Done()
		<-stopped
		time.Sleep(20 * time.Millisecond)
		order = append(order, "call")
		leave()
	}()
	stop := func() {
		order = append(order, "stop")
		close(stopped)
	}
	if err := b.End(stop, func() { order = append(order, "free") }); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); got != "stop call free" {
		t.Errorf("in the order %s", got)
	}
	if !errors.Is(context.Cause(ctx), evaluator.ErrClosed) {
		t.Errorf("the call's context ended with %v", context.Cause(ctx))
	}
	if _, _, err := b.Enter(t.Context()); !errors.Is(err, evaluator.ErrClosed) {
		t.Errorf("a call after the end: %v", err)
	}
	if _, err := os.Stat(b.Scratch); !os.IsNotExist(err) {
		t.Errorf("the folder for temporary files is there: %v", err)
	}
}

// Peaks only grow, and the next lab finds them.
func TestPeaks(t *testing.T) {
	dir := t.TempDir()
	measured := 0
	found := map[string]float64{"f32": 2, "read": 5}
	c := Ceilings{Key: strings.Repeat("k", 64), Needs: []string{"f32"}, Measure: func(context.Context) (map[string]float64, error) {
		measured++
		return found, nil
	}, Device: evaluator.Peaks{Cores: 3}}
	b := newBase(t, dir)
	if err := b.LoadPeaks(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	found = map[string]float64{"f32": 1, "read": 7}
	p, err := b.Peaks(t.Context(), true)
	if err != nil || p.Rates["f32"] != 2 || p.Rates["read"] != 7 || p.Cores != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	if b.Desc.Device.Peaks["read"] != 5 {
		t.Errorf("the description has changed: %v", b.Desc.Device.Peaks)
	}
	next := newBase(t, dir)
	if err := next.LoadPeaks(t.Context(), c); err != nil || measured != 2 || next.Desc.Device.Peaks["read"] != 7 {
		t.Errorf("%v; measured %d times, %v", err, measured, next.Desc.Device.Peaks)
	}
	c.Needs = []string{"f32", "write"} // which those in the cache lack
	if err := next.LoadPeaks(t.Context(), c); err != nil || measured != 3 {
		t.Errorf("%v; measured %d times", err, measured)
	}
}

func TestCompilation(t *testing.T) {
	b := newBase(t, t.TempDir())
	run := func(script string, files map[string]string, change func(*Compilation)) ([]byte, error) {
		if files == nil {
			files = map[string]string{}
		}
		files["sub/run.sh"] = script
		c := Compilation{Command: process.Command{Path: "/bin/sh", Args: []string{"sub/run.sh"}, Output: 1 << 10}, Files: files, Product: "out", Marks: []string{"error: "}, Crash: "Segmentation fault"}
		if change != nil {
			change(&c)
		}
		out, _, err := c.Run(t.Context(), b.Launcher, b.Cache)
		return out, err
	}
	if out, err := run("cat a > out", map[string]string{"a": "text"}, nil); err != nil || string(out) != "text" {
		t.Errorf("%q, %v", out, err)
	}
	for script, want := range map[string]string{
		"echo first; echo 'x: error: second'; exit 1":      "x: error: second",
		"echo; echo first; exit 1":                         "first",
		"exit 1":                                           "the compiler failed and did not say why",
		"echo Segmentation fault; exit 1":                  "the compiler crashes on it",
		"echo Segmentation fault; sleep 60":                "the compiler did not end within 200ms",
		"echo File size limit exceeded; exit 1":            "the compiler writes a file of more than 3 MiB",
		"echo 'CPU time limit exceeded'; exit 1":           "the compiler needs more than 30s of processor time",
		"echo '#include \"/etc/passwd\"' > /dev/null":      "sub/run.sh names the file",
		"echo '#include \"../../etc/passwd\"' > /dev/null": "sub/run.sh names the file",
	} {
		_, err := run(script, nil, func(c *Compilation) {
			c.FileSize, c.CPU = 3<<20, 30*time.Second
			if strings.Contains(script, "sleep") {
				c.Timeout = 200 * time.Millisecond
			}
		})
		var no *Refusal
		if !errors.As(err, &no) || !strings.Contains(no.Summary, want) || no.Crash != strings.Contains(want, "crashes") {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
	var no *Refusal
	if _, err := run("true", map[string]string{"../outside": ""}, nil); err == nil || errors.As(err, &no) {
		t.Errorf("a file outside of the folder: %v", err)
	}
	if _, err := run("true", nil, nil); err == nil || errors.As(err, &no) {
		t.Errorf("a compiler that makes nothing: %v", err)
	}
	if _, err := os.Stat(filepath.Join(b.Scratch, "..", "outside")); err == nil {
		t.Error("a file was written outside of the folder")
	}
}
