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

	"github.com/evotune/evotune/evaluator/internal/cache"
)

//go:embed native/probe.c
var probeSource string

// The measured peaks are what the machine reached while it may have been
// disturbed; a candidate must be faster than this much more to be called
// impossible.
const (
	computeHeadroom = 1.10
	memoryHeadroom  = 1.30
)

// peaksKey names the machine's peaks in the cache.
func (h *bench) peaksKey() string {
	return cache.Key("peaks 1", h.desc.Device.Fingerprint, h.tool.identity, cache.Key(probeSource))
}

// loadPeaks takes the machine's peaks from the cache or measures them.
func (h *bench) loadPeaks(ctx context.Context) error {
	var peaks map[string]float64
	if _, ok := h.cache.Get("peaks", h.peaksKey(), &peaks); ok && peaks["f32/1"] > 0 {
		h.peaks = peaks
		return nil
	}
	if err := machine.Acquire(ctx, wholeMachine); err != nil {
		return err
	}
	defer machine.Release(wholeMachine)
	return h.measurePeaks(ctx)
}

// measurePeaks measures and keeps the larger of what was known and what was
// found: what disturbs a measurement only makes it smaller. The caller holds
// the whole machine.
func (h *bench) measurePeaks(ctx context.Context) error {
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

// peak is the rate that so many threads cannot exceed: that of all cores, or
// so many times that of one alone, whichever is less. Zero when it was not
// measured.
func (h *bench) peak(name string, threads int) float64 {
	h.peaksMu.Lock()
	defer h.peaksMu.Unlock()
	one := h.peaks[name+"/1"]
	all := h.peaks[name+"/"+strconv.Itoa(cores())]
	most := one * float64(max(threads, 1))
	if all > 0 && threads > 1 {
		most = min(most, max(all, one))
	}
	return most
}

// floor is the time, in nanoseconds, below which no launch at a shape can be:
// its operations at the peak rate, or the inputs that cannot be in a cache at
// the rate of memory, whichever takes longer.
//
// Only inputs count as traffic: evotune itself has just written the outputs and
// may have left them in the last cache. Of the inputs, as much as the last cache
// holds may be there still, since the sets are visited in turn.
func (h *bench) floor(d *shapeData, sets, threads int) float64 {
	ns := 0.0
	if p := h.peak(h.plan.Definition.Problem.Pipe, threads); p > 0 {
		ns = d.operations / (p * computeHeadroom) * 1e9
	}
	rotation := float64(d.inBytes) * float64(sets)
	cached := math.Min(1, 1.25*float64(lastLevelBytes())/math.Max(rotation, 1))
	traffic := math.Min(d.traffic, float64(d.inBytes)) * (1 - cached)
	if p := h.peak("memory", threads); p > 0 {
		ns = math.Max(ns, traffic/(p*memoryHeadroom)*1e9)
	}
	return ns
}
