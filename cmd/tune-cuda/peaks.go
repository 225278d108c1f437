//go:build cuda

package main

import (
	"fmt"
	"math"
	"strings"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A bench measures ceilings.
type bench struct {
	*harness
	peaks map[string]float64
}

const (
	peakRuns = 5
	// peakNS is what one measurement lasts at least: long enough that starting
	// and ending it is nothing.
	peakNS = 5e6
)

func (w *worker) peaks(r wire.PeaksRequest) (wire.PeaksAnswer, error) {
	h, err := w.device.loadHarness(r.Harness)
	if err != nil {
		return wire.PeaksAnswer{}, err
	}
	defer h.free()
	b := &bench{h, map[string]float64{}}
	for _, measure := range []func() error{b.arithmetic, b.memory, b.cache} {
		if err := measure(); err != nil {
			return wire.PeaksAnswer{}, err
		}
	}
	ceilings(b.peaks, w.device.info)
	return wire.PeaksAnswer{Peaks: b.peaks}, nil
}

// fastest gives the units per second of the best of several runs. Work of a
// size says how much it did; the size doubles until a run is long enough.
func (b *bench) fastest(size int64, work func(size int64) (units float64, err error)) (float64, error) {
	best := 0.0
	for run := 0; run < peakRuns; {
		if err := check("cuEventRecord", b.device.begin.Record(b.stream)); err != nil {
			return 0, err
		}
		units, err := work(size)
		if err != nil {
			return 0, err
		}
		if err := check("cuEventRecord", b.end.Record(b.stream)); err != nil {
			return 0, err
		}
		if err := b.sync(); err != nil {
			return 0, err
		}
		ms, err := b.device.begin.Elapsed(b.end)
		if err != nil {
			return 0, check("cuEventElapsedTime", err)
		}
		ns := ms * 1e6
		if ns < peakNS && size < 1<<24 {
			size *= 2
			continue
		}
		best = max(best, units/ns*1e9)
		run++
	}
	return best, nil
}

// blocks fill every multiprocessor with threads.
func (b *bench) blocks() int64 { return int64(b.info.SMs) * int64(max(b.info.ThreadsSM/threads, 1)) }

// arithmetic fills every multiprocessor with threads that multiply and add.
func (b *bench) arithmetic() error {
	blocks := b.blocks()
	// The harness's CHAINS and UNROLL.
	const perThread, perWarp = 2 * 8 * 32, 8 * 32 / 4 * 2 * 16 * 8 * 16
	for _, k := range []struct {
		name  string
		units float64
		more  []uint64 // arguments
	}{
		{"f32", perThread * threads, []uint64{math.Float64bits(0.5)}},
		{"f64", perThread * threads, []uint64{math.Float64bits(0.5)}},
		{"tensor-f16", perWarp * threads / 32, []uint64{0, 0}},
		{"tensor-bf16", perWarp * threads / 32, []uint64{0, 0}},
	} {
		v, err := b.fastest(64, func(rounds int64) (float64, error) {
			args := append([]uint64{uint64(b.report), uint64(rounds)}, k.more...)
			return float64(blocks) * k.units * float64(rounds), b.run("peak_"+strings.ReplaceAll(k.name, "-", "_"), blocks, args...)
		})
		if err != nil {
			return err
		}
		b.peaks[k.name] = v
	}
	return nil
}

// memory moves more than any cache holds. A copy counts what it reads and what
// it writes.
func (b *bench) memory() error {
	free, _, err := cu.MemInfo()
	if err != nil {
		return check("cuMemGetInfo", err)
	}
	n := min(max(16*b.info.L2Bytes, 1<<28), 1<<30, free/4) &^ 0xffff
	if n == 0 {
		return fmt.Errorf("peaks: only %d bytes of memory are free", free)
	}
	from, err := alloc(n)
	if err != nil {
		return err
	}
	defer release(from)
	to, err := alloc(n)
	if err != nil {
		return err
	}
	defer release(to)
	if err := b.zero(from, n); err != nil {
		return err
	}
	blocks := b.blocks()
	repeat := func(units float64, name string, args ...uint64) func(int64) (float64, error) {
		return func(times int64) (float64, error) {
			for range times {
				if err := b.run(name, blocks, args...); err != nil {
					return 0, err
				}
			}
			return units * float64(times), nil
		}
	}
	elements := uint64(n / 16)
	for _, k := range []struct {
		name string
		work func(int64) (float64, error)
	}{
		{"copy", repeat(float64(2*n), "peak_copy", uint64(to), uint64(from), elements)},
		{"read", repeat(float64(n), "peak_read", uint64(from), elements, 1, uint64(b.report))},
		{"write", repeat(float64(n), "peak_write", uint64(to), elements, 1)},
	} {
		if b.peaks[k.name], err = b.fastest(8, k.work); err != nil {
			return err
		}
	}
	return nil
}

// cache reads a part of the last-level cache again and again.
func (b *bench) cache() error {
	n := max(b.info.L2Bytes/4, 1<<20) &^ 0xffff
	from, err := alloc(n)
	if err != nil {
		return err
	}
	defer release(from)
	if err := b.zero(from, n); err != nil {
		return err
	}
	blocks := b.blocks()
	b.peaks["l2"], err = b.fastest(16, func(passes int64) (float64, error) {
		return float64(n) * float64(passes), b.run("peak_read", blocks, uint64(from), uint64(n/16), uint64(passes), uint64(b.report))
	})
	return err
}
