package cpu

import (
	"context"
	_ "embed" // for the probe's source
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	programs "github.com/evotune/evotune/evaluator/internal/process"
)

//go:embed native/probe.c
var probeSource string

// loadPeaks takes the machine's peaks from the cache or measures them.
func (h *lab) loadPeaks(ctx context.Context) error {
	return h.LoadPeaks(ctx, labs.Ceilings{
		Key:   cache.Key("peaks 2", h.Desc.Device.Fingerprint, h.tool.identity, cache.Key(probeSource)),
		Needs: []string{"f32/1"}, Measure: h.measurePeaks, Device: evaluator.Peaks{CacheBytes: lastLevelBytes(), Cores: cores()},
	})
}

// measurePeaks measures the machine's peaks with all of its cores and with one.
func (h *lab) measurePeaks(ctx context.Context) (map[string]float64, error) {
	ctx, release, err := programs.TakeHost(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	probe, err := h.tool.compile(ctx, compilation{
		files: map[string]string{"probe.c": probeSource},
		args:  []string{"-O3", "-march=native", "-ffp-contract=fast", "-w", "probe.c", "-pthread"},
	})
	if err != nil {
		return nil, fmt.Errorf("building the probe of the machine's peaks: %w", err)
	}
	path := filepath.Join(h.Scratch, "probe")
	if err := os.WriteFile(path, probe.Object, 0o755); err != nil {
		return nil, err
	}
	peaks := map[string]float64{}
	for _, threads := range []int{1, cores()} {
		text, err := runTool(ctx, h.Launcher, time.Minute, h.Scratch, 4096, path,
			strconv.Itoa(threads), strconv.FormatInt(lastLevelBytes(), 10), "50")
		if err != nil {
			return nil, fmt.Errorf("measuring the machine's peaks: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) != 3 {
				continue
			}
			v, err := strconv.ParseFloat(f[2], 64)
			if err != nil || v <= 0 || math.IsInf(v, 0) {
				return nil, fmt.Errorf("measuring the machine's peaks: the probe said %q", line)
			}
			peaks[f[0]+"/"+f[1]] = v
		}
		if cores() == 1 {
			break
		}
	}
	top := strconv.Itoa(cores())
	peaks["memory"], peaks["llc"] = peaks["memory/"+top], peaks["llc/"+top]
	return peaks, nil
}
