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
	err := h.LoadPeaks(ctx, labs.Ceilings{
		Key:   cache.Key("peaks 2", h.Desc.Device.Fingerprint, h.tool.identity, cache.Key(probeSource)),
		Needs: []string{"f32/1"}, Measure: h.measurePeaks, Device: evaluator.Peaks{CacheBytes: lastLevelBytes(), Cores: cores()},
	})
	h.apart = keepRates(h.Desc.Device.Peaks, cores())
	return err
}

// independent is the least share of its own rate that each core keeps while all work, for other work to run
// beside a timing: the shares of honest measurements of one rate differ by less.
const independent = 0.95

// spare is how many cores a timing of so many threads leaves to compilers and checks of other candidates. It is none
// where the peaks show that cores slow each other down, as those do that share execution units, power or memory.
func (h *lab) spare(threads int) int {
	if !h.apart {
		return 0
	}
	return max(cores()-max(threads, 1), 0)
}

// keepRates says whether n cores together reach n times each rate of one.
func keepRates(rates map[string]float64, n int) bool {
	for _, name := range []string{"f32", "llc", "memory"} {
		one, all := rates[name+"/1"], rates[name+"/"+strconv.Itoa(n)]
		if !(one > 0) || all < independent*float64(n)*one {
			return false
		}
	}
	return true
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
