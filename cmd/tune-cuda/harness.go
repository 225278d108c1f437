//go:build cuda

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"unsafe"

	"gorgonia.org/cu"
)

// A harness is the worker's own kernels, and the memory for what they find.
type harness struct {
	*device
	module  cu.Module
	kernels map[string]cu.Function
	// report is device memory that kernels leave results in, and copied what
	// the host last fetched of it.
	report cu.DevicePtr
	copied []byte
	used   int64
	pieces cu.DevicePtr // what is hashed, written when it is used
	key    uint64       // of the hashes
}

const (
	reportBytes = 1 << 20
	// Blocks of THREADS threads; enough of them to fill any device.
	threads   = 256
	maxBlocks = 1024
)

var harnessKernels = []string{
	"fill", "widen", "narrow", "nearby", "set", "poison", "begin", "digest", "digests", "refresh", "intact", "veil", "guards_set", "guards_check", "hash", "differ", "apart", "compare", "squares",
	"peak_f32", "peak_f64", "peak_tensor_f16", "peak_tensor_bf16", "peak_copy", "peak_write", "peak_read", "sweep",
}

func (d *device) loadHarness(file string) (*harness, error) {
	image, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	h := &harness{device: d, kernels: map[string]cu.Function{}, key: rand.Uint64()}
	if h.module, err = cu.LoadData(string(image)); err != nil {
		return nil, fmt.Errorf("harness %s: %w", file, check("cuModuleLoadData", err))
	}
	for _, name := range harnessKernels {
		if h.kernels[name], err = h.module.Function("evotune_" + name); err != nil {
			h.free()
			return nil, fmt.Errorf("harness %s: %s: %w", file, name, check("cuModuleGetFunction", err))
		}
	}
	if h.report, err = alloc(reportBytes); err == nil {
		h.copied, err = allocHost(reportBytes)
	}
	if err == nil {
		h.pieces, err = alloc(maxPieces * int64(unsafe.Sizeof(piece{})))
	}
	if err != nil {
		h.free()
		return nil, err
	}
	return h, nil
}

func (h *harness) free() {
	release(h.report)
	release(h.pieces)
	freeHost(h.copied)
	_ = h.module.Unload()
}

// run puts a harness kernel into the stream.
func (h *harness) run(name string, blocks int64, args ...uint64) error {
	p := newPack(args...)
	defer p.free()
	d := [6]uint32{uint32(blocks), 1, 1, threads, 1, 1}
	if err := launchKernel(h.kernels[name], d, 0, h.stream, p); err != nil {
		return fmt.Errorf("harness: %s: %w", name, err)
	}
	return nil
}

// blocksFor is how many blocks share n elements.
func blocksFor(n int64) int64 { return min(max((n+4*threads-1)/(4*threads), 1), maxBlocks) }

func (h *harness) fill(to cu.DevicePtr, n int64, b buffer, seed uint64, index int) error {
	return h.run("fill", blocksFor(n), uint64(to), uint64(n), uint64(b.dtype), uint64(b.distribution),
		math.Float64bits(b.A), math.Float64bits(b.B), bufferKey(seed, index))
}

func (h *harness) widen(to, from cu.DevicePtr, n int64, dtype int) error {
	return h.run("widen", blocksFor(n), uint64(to), uint64(from), uint64(n), uint64(dtype))
}

func (h *harness) narrow(to, from cu.DevicePtr, n int64, dtype int) error {
	return h.run("narrow", blocksFor(n), uint64(to), uint64(from), uint64(n), uint64(dtype))
}

// nearby moves doubles by a part of themselves: each up or down by chance, or with key 0 all up.
func (h *harness) nearby(p cu.DevicePtr, n int64, by float64, key uint64) error {
	return h.run("nearby", blocksFor(n), uint64(p), uint64(n), math.Float64bits(by), key)
}

func (h *harness) set(to cu.DevicePtr, n int64, dtype int, value float64) error {
	return h.run("set", blocksFor(n), uint64(to), uint64(n), uint64(dtype), math.Float64bits(value))
}

func (h *harness) poison(to cu.DevicePtr, bytes int64, pattern uint64) error {
	return h.run("poison", blocksFor(bytes/8), uint64(to), uint64(bytes), pattern)
}

func (h *harness) setGuards(g *guards) error {
	if err := h.tabulate(g); err != nil {
		return err
	}
	return h.run("guards_set", int64(len(g.list)), uint64(g.table))
}

// tabulate writes the table of guards, in the stream.
func (h *harness) tabulate(g *guards) error {
	return check("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(g.table, unsafe.Pointer(unsafe.SliceData(g.host)), int64(len(g.host)), h.stream))
}

// begin empties the report.
func (h *harness) begin() error {
	h.used = 0
	return h.clean()
}

// clean empties what is not yet taken of the report.
func (h *harness) clean() error { return h.zero(h.report+cu.DevicePtr(h.used), reportBytes-h.used) }

// take reserves a part of the report.
func (h *harness) take(bytes int64) (cu.DevicePtr, error) {
	bytes = (bytes + 15) &^ 15
	if h.used+bytes > reportBytes {
		return 0, fmt.Errorf("harness: a report of more than %d bytes", reportBytes)
	}
	at := h.report + cu.DevicePtr(h.used)
	h.used += bytes
	return at, nil
}

// fetch waits for the stream and brings what kernels have left, so that findings
// can be read. The GPU's contexts take turns, and a turn may be long in coming:
// all that one wants to know is best fetched at once.
func (h *harness) fetch() error {
	err := check("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(h.copied)), h.report, h.used, h.stream))
	if err != nil {
		return err
	}
	return h.sync()
}

// gather empties the report, puts work into the stream that leaves findings in it, and
// fetches them.
func (h *harness) gather(work func() error) error {
	if err := h.begin(); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return h.fetch()
}

// A finding is a part of the report: T as kernels leave it.
type finding[T any] struct {
	at cu.DevicePtr
	of *harness
	n  int
}

func find[T any](h *harness, n int64) (*finding[T], error) {
	var t T
	at, err := h.take(n * int64(unsafe.Sizeof(t)))
	return &finding[T]{at: at, of: h, n: int(n)}, err
}

// read gives the finding as it was last fetched.
func (f *finding[T]) read() []T {
	from := unsafe.Pointer(&f.of.copied[f.at-f.of.report])
	return slices.Clone(unsafe.Slice((*T)(from), f.n))
}

func (h *harness) checkGuards(g *guards) (*finding[uint64], error) {
	f, err := find[uint64](h, int64(len(g.list)))
	if err == nil {
		err = h.tabulate(g)
	}
	if err != nil {
		return nil, err
	}
	return f, h.run("guards_check", int64(len(g.list)), uint64(g.table), uint64(f.at))
}

// Zones are a look at the guards of sets of buffers and of a workspace, if there is one.
type zones struct {
	sets, work     *guards
	inSets, inWork *finding[uint64]
}

func (h *harness) lookAtGuards(sets *guards, work *workspace) (z zones, err error) {
	z.sets = sets
	if z.inSets, err = h.checkGuards(sets); err == nil && work != nil {
		z.work = work.guards
		z.inWork, err = h.checkGuards(work.guards)
	}
	return z, err
}

// damaged names what was written beside, where, and the guards that are to be put
// right; nothing when all are as they were. The look has been fetched.
func (z zones) damaged(buffers []buffer) (name string, offset int64, in *guards) {
	if i, offset, damaged := z.sets.found(z.inSets.read()); damaged {
		return buffers[i%len(buffers)].Name, offset, z.sets
	}
	if z.work != nil {
		if _, offset, damaged := z.work.found(z.inWork.read()); damaged {
			return "workspace", offset, z.work
		}
	}
	return "", 0, nil
}

// A piece of memory, as in the harness, and the address of its hash.
type piece struct {
	at    cu.DevicePtr
	bytes int64
	to    cu.DevicePtr
}

// maxPieces is how many a launch hashes at most.
const maxPieces = 4096

// piece is memory whose hash is added to the finding's element.
func (f *finding[T]) piece(at cu.DevicePtr, bytes int64, i int) piece {
	return piece{at, bytes, f.at + cu.DevicePtr(8*i)}
}

// hash adds hashes to where they belong.
func (h *harness) hash(all []piece) error {
	for some := range slices.Chunk(all, maxPieces) {
		if err := send(h, h.pieces, some); err != nil {
			return err
		}
		widest := int64(0)
		for _, p := range some {
			widest = max(widest, p.bytes)
		}
		d := [6]uint32{uint32(min(blocksFor(widest/8), planRow(len(some), h.info.SMs))), uint32(len(some)), 1, threads, 1, 1}
		if err := h.enqueue("hash", d, uint64(h.pieces), h.key); err != nil {
			return err
		}
	}
	return nil
}

func (h *harness) differ(a, b cu.DevicePtr, n, size int64, f *finding[uint64], i int) error {
	return h.run("differ", blocksFor(n), uint64(a), uint64(b), uint64(n), uint64(size), uint64(f.at)+8*uint64(i))
}

// apart is differ for a buffer of which not all is compared, or not to the bit: elements
// that differ by more than a limit, below zero in any bit, and the bits of the largest
// difference.
func (h *harness) apart(a, b cu.DevicePtr, dtype int, n int64, want wanted, limit float64, f *finding[uint64], count, largest int) error {
	return h.run("apart", blocksFor(n), uint64(a), uint64(b), uint64(dtype), uint64(n), uint64(want.at), want.key, uint64(btoi(want.masked)),
		math.Float64bits(limit), uint64(f.at)+8*uint64(count), uint64(f.at)+8*uint64(largest))
}

// compareBlocks is the most blocks of a comparison, and comparisons how many find room in
// the report, beside a little else.
const (
	compareBlocks = 256
	comparisons   = reportBytes/(compareBlocks*int(unsafe.Sizeof(verdict{}))) - 1
)

// A verdict is as in the harness.
type verdict struct {
	diff, got, want, squares float64
	worst                    int64
	notFinite                uint64
	unwritten, skipped       uint64
	surplus                  uint64
}

// A wanted is what an output is compared with: elements of a type, or doubles
// behind a veil if there is a key. Masked says that what is NaN there is passed over.
type wanted struct {
	at     cu.DevicePtr
	dtype  int
	key    uint64
	masked bool
	units  float64 // wire.Buffer.Units; 0 counts every difference
}

func (h *harness) compare(got cu.DevicePtr, dtype int, want wanted, n int64) (*finding[verdict], error) {
	blocks := min(blocksFor(n), compareBlocks)
	f, err := find[verdict](h, blocks)
	if err != nil {
		return nil, err
	}
	return f, h.run("compare", blocks, uint64(got), uint64(dtype), uint64(want.at), uint64(want.dtype), want.key, uint64(btoi(want.masked)),
		math.Float64bits(want.units), uint64(n), poisons[dtype], uint64(f.at))
}

// veil hides doubles in device memory, or shows them again.
func (h *harness) veil(at cu.DevicePtr, n int64, key uint64) error {
	return h.run("veil", blocksFor(n), uint64(at), uint64(n), key)
}

// A square is as in the harness.
type square struct {
	squares, sum  float64
	infinite, nan uint64
}

func (h *harness) squares(of cu.DevicePtr, n int64) (*finding[square], error) {
	blocks := min(blocksFor(n), 256)
	f, err := find[square](h, blocks)
	if err != nil {
		return nil, err
	}
	return f, h.run("squares", blocks, uint64(of), uint64(n), uint64(f.at))
}

// copyTo copies within the device, in the stream.
func (h *harness) copyTo(to, from cu.DevicePtr, bytes int64) error {
	return check("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(to, from, bytes, h.stream))
}

// zero clears memory, in the stream.
func (h *harness) zero(at cu.DevicePtr, bytes int64) error {
	return check("cuMemsetD8Async", cu.MemsetD8Async(at, 0, bytes, h.stream))
}
