package labs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// A Base is what labs on all devices consist of; each embeds one.
type Base struct {
	Plan     evaluator.Plan
	Log      *slog.Logger
	Launcher *process.Launcher
	Cache    *cache.Cache
	// Scratch is a folder for temporary files, which ends with the lab.
	Scratch string
	// Desc is what Describe gives. Its tools are collected from the beginning.
	Desc evaluator.Description
	// Key is the part of every key that is the lab's.
	Key string

	// Life ends with the lab. Calls counts what must have ended before: the calls
	// under way, and what serves them.
	Life   context.Context
	Calls  sync.WaitGroup
	cancel context.CancelFunc
	mu     sync.Mutex
	closed bool

	ceilings Ceilings
	peaksMu  sync.Mutex
	peaks    map[string]float64 // never changed, but replaced
}

// New returns the base of a lab for a plan, with a cache in a folder ("" is evotune
// in the user's cache folder) of at most so many bytes. End ends it.
func New(ctx context.Context, plan evaluator.Plan, log *slog.Logger, dir string, limit int64) (*Base, error) {
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("no folder for the cache: %w: set cache-dir", err)
		}
		dir = filepath.Join(user, "evotune")
	}
	c, err := cache.New(dir, limit)
	if err != nil {
		return nil, err
	}
	scratch, err := c.Scratch()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	b := &Base{Plan: plan, Log: log, Launcher: process.NewLauncher(), Cache: c, Scratch: scratch}
	b.Life, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return b, nil
}

// Try makes a base without a plan to look for tools with, in a temporary folder, and
// gives what they are found to be. An error of that folder is told as a tool.
func Try(ctx context.Context, log *slog.Logger, look func(b *Base) []evaluator.Tool) []evaluator.Tool {
	dir, err := os.MkdirTemp("", "evotune-doctor-")
	if err != nil {
		return []evaluator.Tool{{Name: "temporary folder", Missing: err.Error()}}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b, err := New(ctx, evaluator.Plan{}, log, filepath.Join(dir, "cache"), 0)
	if err != nil {
		return []evaluator.Tool{{Name: "temporary folder", Missing: err.Error()}}
	}
	defer func() { _ = b.End(nil, nil) }() // its folder is removed as well
	return look(b)
}

// Enter counts a call and ties its context to the lab's life.
func (b *Base) Enter(ctx context.Context) (context.Context, func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, evaluator.ErrClosed
	}
	b.Calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.Life, func() { cancel(evaluator.ErrClosed) })
	return ctx, func() { stop(); cancel(nil); b.Calls.Done() }, nil
}

// End ends the lab, the first time that it is called. Stop ends what calls may be
// waiting for, and free gives back what they have used; both may be nil.
func (b *Base) End(stop, free func()) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	if stop != nil {
		stop()
	}
	b.Calls.Wait()
	if free != nil {
		free()
	}
	b.Launcher.Close()
	return b.Cache.Close()
}

// Describe implements [evaluator.Lab]. The peaks are those that were known when
// the lab was opened: what is measured later serves to describe the next lab.
func (b *Base) Describe() evaluator.Description { return b.Desc }

// SetDescription completes a description by what the plan says and the tools found.
func (b *Base) SetDescription(d evaluator.Description) {
	d.Kernel, d.Tools = b.Plan.Definition.Name, b.Desc.Tools
	d.Baseline = b.Plan.Implementations[0].Baseline().String()
	for _, im := range b.Plan.Implementations {
		d.Implementations = append(d.Implementations, im.Name)
	}
	for _, s := range b.Plan.Tune {
		d.Shapes = append(d.Shapes, s.Name)
	}
	for _, s := range b.Plan.Verify {
		d.Verified = append(d.Verified, s.Name)
	}
	b.Desc = d
}

// Found adds a tool to the description.
func (b *Base) Found(tools ...evaluator.Tool) { b.Desc.Tools = append(b.Desc.Tools, tools...) }

// Paths lists what the flags of the plan's implementations name by absolute paths, if the
// definition is the user's own.
func (b *Base) Paths() []string {
	var flags []string
	for _, im := range b.Plan.Implementations {
		flags = append(flags, im.OwnFlags()...)
	}
	return process.FlagPaths(flags)
}

// Recall implements [evaluator.Lab].
func (b *Base) Recall(key string) bool {
	_, ok := b.Cache.Get("remembered", cache.Key(key), nil)
	return ok
}

// Remember implements [evaluator.Lab].
func (b *Base) Remember(key string) { b.Keep("remembered", cache.Key(key), nil, nil) }

// Keep puts an entry into the cache. A full disk costs the next run some time, and
// this one nothing.
func (b *Base) Keep(kind, key string, contents []byte, meta any) {
	_ = b.Cache.Put(kind, key, contents, meta)
}

// KeepAnswer keeps what a reference, or a function that makes inputs, has computed. What does not fit would drive out
// what was compiled.
func (b *Base) KeepAnswer(key string, contents []byte, meta any) {
	if b.Cache.Fits(len(contents)) {
		b.Keep("references", key, contents, meta)
	}
}

// Ceilings say how the peaks of a device are measured.
type Ceilings struct {
	// Key names them in the cache. Needs are among them if they are complete.
	Key   string
	Needs []string
	// Measure measures them now.
	Measure func(ctx context.Context) (map[string]float64, error)
	// Device has what else is known of the device.
	Device evaluator.Peaks
}

// LoadPeaks takes the device's peaks from the cache or measures them, and puts them
// into the description.
func (b *Base) LoadPeaks(ctx context.Context, c Ceilings) error {
	b.ceilings = c
	var peaks map[string]float64
	_, ok := b.Cache.Get("peaks", c.Key, &peaks)
	ok = ok && len(peaks) > 0
	for _, name := range c.Needs {
		ok = ok && peaks[name] > 0
	}
	if ok {
		b.peaks = peaks
	} else {
		ctx, done := evaluator.Preparing(ctx, "peak rates of the device")
		defer done()
		if err := b.measurePeaks(ctx); err != nil {
			return err
		}
	}
	b.Desc.Device.Peaks = maps.Clone(b.peaks)
	return nil
}

// Peaks implements [evaluator.Lab].
func (b *Base) Peaks(ctx context.Context, again bool) (evaluator.Peaks, error) {
	if again {
		ctx, leave, err := b.Enter(ctx)
		if err != nil {
			return evaluator.Peaks{}, err
		}
		defer leave()
		if err := b.measurePeaks(ctx); err != nil {
			return evaluator.Peaks{}, err
		}
	}
	p := b.ceilings.Device
	b.peaksMu.Lock()
	defer b.peaksMu.Unlock()
	p.Rates = maps.Clone(b.peaks)
	return p, nil
}

// measurePeaks measures and keeps the larger of what was known and what was
// found: what disturbs a measurement only makes it smaller.
func (b *Base) measurePeaks(ctx context.Context) error {
	found, err := b.ceilings.Measure(ctx)
	if err != nil {
		return err
	}
	b.peaksMu.Lock()
	peaks := map[string]float64{}
	maps.Copy(peaks, b.peaks)
	for name, v := range found {
		peaks[name] = max(peaks[name], v)
	}
	b.peaks = peaks
	b.Keep("peaks", b.ceilings.Key, nil, peaks)
	b.peaksMu.Unlock()
	return nil
}
