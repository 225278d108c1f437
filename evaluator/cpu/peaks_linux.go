package cpu

import (
	"context"
	_ "embed" // for the probe's source
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
)

//go:embed native/probe.c
var probeSource string

// Peaks implements [evaluator.Lab].
func (h *lab) Peaks(ctx context.Context, again bool) (evaluator.Peaks, error) {
	if again {
		ctx, leave, err := h.enter(ctx)
		if err != nil {
			return evaluator.Peaks{}, err
		}
		defer leave()
		if err := h.measurePeaks(ctx); err != nil {
			return evaluator.Peaks{}, err
		}
	}
	h.peaksMu.Lock()
	defer h.peaksMu.Unlock()
	return evaluator.Peaks{Rates: maps.Clone(h.peaks), CacheBytes: lastLevelBytes(), Cores: cores()}, nil
}

// peaksKey names the machine's peaks in the cache.
func (h *lab) peaksKey() string {
	return cache.Key("peaks 2", h.desc.Device.Fingerprint, h.tool.identity, cache.Key(probeSource))
}

// loadPeaks takes the machine's peaks from the cache or measures them.
func (h *lab) loadPeaks(ctx context.Context) error {
	var peaks map[string]float64
	if _, ok := h.cache.Get("peaks", h.peaksKey(), &peaks); ok && peaks["f32/1"] > 0 {
		h.peaks = peaks
		return nil
	}
	return h.measurePeaks(ctx)
}

// measurePeaks measures and keeps the larger of what was known and what was
// found: what disturbs a measurement only makes it smaller.
func (h *lab) measurePeaks(ctx context.Context) error {
	if err := machine.Acquire(ctx, wholeMachine); err != nil {
		return err
	}
	defer machine.Release(wholeMachine)
	probe, err := h.tool.compile(ctx, compilation{
		files: map[string]string{"probe.c": probeSource},
		args:  []string{"-O3", "-march=native", "-ffp-contract=fast", "-w", "probe.c", "-pthread"},
	})
	if err != nil {
		return fmt.Errorf("building the probe of the machine's peaks: %w", err)
	}
	path := filepath.Join(h.scratch, "probe")
	if err := os.WriteFile(path, probe.Object, 0o755); err != nil {
		return err
	}
	peaks := map[string]float64{}
	h.peaksMu.Lock()
	maps.Copy(peaks, h.peaks)
	h.peaksMu.Unlock()
	for _, threads := range []int{1, cores()} {
		text, err := runTool(ctx, h.launcher, time.Minute, h.scratch, 4096, path,
			strconv.Itoa(threads), strconv.FormatInt(lastLevelBytes(), 10), "50")
		if err != nil {
			return fmt.Errorf("measuring the machine's peaks: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) != 3 {
				continue
			}
			v, err := strconv.ParseFloat(f[2], 64)
			if err != nil || v <= 0 || math.IsInf(v, 0) {
				return fmt.Errorf("measuring the machine's peaks: the probe said %q", line)
			}
			name := f[0] + "/" + f[1]
			peaks[name] = max(peaks[name], v)
		}
		if cores() == 1 {
			break
		}
	}
	top := strconv.Itoa(cores())
	peaks["memory"], peaks["llc"] = peaks["memory/"+top], peaks["llc/"+top]
	h.peaksMu.Lock()
	h.peaks = peaks
	h.peaksMu.Unlock()
	// A full disk costs the next run some time, and this one nothing.
	_ = h.cache.Put("peaks", h.peaksKey(), nil, peaks)
	return nil
}
