package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// The harness's codes, in the order of its enums.
var (
	dtypes        = []string{"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "e4m3", "e5m2", "u32", "u16"}
	distributions = []string{"constant", "uniform", "normal", "integers"}
)

var dtypeSizes = []int64{8, 4, 2, 2, 8, 4, 2, 1, 1, 1, 1, 4, 2}

// dtypeSteps are the distances from 1 to the next value; 0 for integers.
var dtypeSteps = []float64{0x1p-52, 0x1p-23, 0x1p-10, 0x1p-7, 0, 0, 0, 0, 0, 0x1p-3, 0x1p-2, 0, 0}

// poisons are what outputs hold before a launch, eight bytes at a time: NaNs
// that no arithmetic gives, an unlikely pattern for integers. E4M3 has no other NaN
// than this one: an element that was written as NaN counts as not written there, and is
// as wrong.
var poisons = []uint64{
	0x7ff8dead5eed0bad, 0x7fc0dead7fc0dead, 0x7ead7ead7ead7ead, 0x7fed7fed7fed7fed,
	0xa55a6996c33c5aa5, 0xa55a6996c33c5aa5, 0xa55a6996c33c5aa5, 0xa55a6996c33c5aa5, 0xa55a6996c33c5aa5,
	0x7f7f7f7f7f7f7f7f, 0x7f7f7f7f7f7f7f7f, 0xa55a6996c33c5aa5, 0xa55a6996c33c5aa5,
}

// A buffer is one of the problem's, checked and in the harness's codes.
type buffer struct {
	wire.Buffer
	dtype, distribution int
}

func (b buffer) size() int64  { return dtypeSizes[b.dtype] }
func (b buffer) input() bool  { return b.Role != "out" } // filled before a launch
func (b buffer) made() bool   { return b.input() && b.Distribution == wire.Made }
func (b buffer) output() bool { return b.Role != "in" } // compared after it

// maxBuffers is how many buffers a problem may have: all are arguments of what makes their contents.
const maxBuffers = 32

// checkOpen holds a problem's request against what the worker can do.
func checkOpen(r wire.OpenRequest) ([]buffer, error) {
	if len(r.Buffers) > maxBuffers {
		return nil, fmt.Errorf("%d buffers, and at most %d are passed", len(r.Buffers), maxBuffers)
	}
	var out []buffer
	names := map[string]bool{}
	outputs := 0
	for i, b := range r.Buffers {
		c := buffer{Buffer: b, dtype: slices.Index(dtypes, b.DType)}
		switch {
		case b.Name == "" || names[b.Name]:
			return nil, fmt.Errorf("buffer %d: the name %q is empty or taken", i, b.Name)
		case c.dtype < 0:
			return nil, fmt.Errorf("buffer %s: unknown type %q, want one of %v", b.Name, b.DType, dtypes)
		case b.Role != "in" && b.Role != "out" && b.Role != "inout":
			return nil, fmt.Errorf("buffer %s: unknown role %q, want in, out or inout", b.Name, b.Role)
		}
		if c.input() {
			c.distribution = slices.Index(distributions, b.Distribution)
			switch {
			case c.made():
			case c.distribution < 0:
				return nil, fmt.Errorf("buffer %s: unknown distribution %q, want one of %v", b.Name, b.Distribution, distributions)
			case b.Distribution == "integers" && math.Floor(b.B) < math.Ceil(b.A):
				return nil, fmt.Errorf("buffer %s: no integer lies between %g and %g", b.Name, b.A, b.B)
			}
		}
		if c.output() {
			outputs++
			if !(b.Units >= 0 && b.Units < 1) {
				return nil, fmt.Errorf("buffer %s: elements are right within %g of their size", b.Name, b.Units)
			}
			if !(b.Repeat >= 0) || math.IsInf(b.Repeat, 0) {
				return nil, fmt.Errorf("buffer %s: launches may differ by %g of the RMS", b.Name, b.Repeat)
			}
		} else if b.Repeat != 0 || b.UnwrittenNaN {
			return nil, fmt.Errorf("buffer %s: an input has neither repeat nor elements that are not written", b.Name)
		}
		names[b.Name] = true
		out = append(out, c)
	}
	if outputs == 0 {
		return nil, fmt.Errorf("the problem has no output")
	}
	for i, s := range r.Scalars {
		if !slices.Contains(dtypes, s) || slices.Contains([]string{"f16", "bf16", "e4m3", "e5m2"}, s) {
			return nil, fmt.Errorf("scalar %d: unknown type %q", i, s)
		}
	}
	if (r.Reference == "") != (r.ReferenceEntry == "") {
		return nil, fmt.Errorf("a reference needs a cubin and an entry")
	}
	return out, nil
}

// maxBytes bounds a buffer; no device has as much memory.
const maxBytes = 1 << 40

// checkShape holds a shape against the problem.
func checkShape(s wire.Shape, buffers []buffer, scalars []string) error {
	if len(s.Elements) != len(buffers) {
		return fmt.Errorf("shape %s: elements of %d buffers, the problem has %d", s.Name, len(s.Elements), len(buffers))
	}
	if len(s.Scalars) != len(scalars) {
		return fmt.Errorf("shape %s: %d scalars, the problem has %d", s.Name, len(s.Scalars), len(scalars))
	}
	for i, n := range s.Elements {
		if n < 1 || n > maxBytes/8 {
			return fmt.Errorf("shape %s: buffer %s has %d elements", s.Name, buffers[i].Name, n)
		}
		if buffers[i].made() && s.Made == "" {
			return fmt.Errorf("shape %s: buffer %s comes from a file, and there is none", s.Name, buffers[i].Name)
		}
		if len(s.Keyed) > 0 && len(s.Keyed) != len(buffers) {
			return fmt.Errorf("shape %s: %d of %d buffers are keyed or not", s.Name, len(s.Keyed), len(buffers))
		}
		if k, ok := keyedAt(s, i); ok && !fits(k, n) {
			return fmt.Errorf("shape %s: buffer %s cannot be %s of %d to %d", s.Name, buffers[i].Name, k.Distribution, k.A, k.B)
		}
	}
	return nil
}

// fits says whether n elements can be keyed so.
func fits(k wire.Keyed, n int64) bool {
	least := map[string]int64{"between": 0, "permutation": 0, "offsets": 2}
	few, known := least[k.Distribution]
	return known && n >= few && k.A >= 0 && k.B >= k.A && (k.Distribution != "permutation" || k.B >= n)
}

// keyedAt says how the device makes a buffer, if it does.
func keyedAt(s wire.Shape, i int) (wire.Keyed, bool) {
	if i >= len(s.Keyed) || s.Keyed[i].Distribution == "" {
		return wire.Keyed{}, false
	}
	return s.Keyed[i], true
}

// A launch is one kernel of a call, as the driver takes it.
type launch struct {
	entry       string    // "" is that with which the binary was loaded
	d           [6]uint32 // grid and block
	shared      uint32
	cluster     [3]uint32 // zero without one
	cooperative bool
	// dependent may begin before the launch before it has ended.
	dependent bool
}

// attributes says whether the launch needs more than cuLaunchKernel gives.
func (l launch) attributes() bool { return l.cluster != [3]uint32{} || l.cooperative || l.dependent }

const (
	// maxKernels bounds the kernels of a call: a sequence is a handful.
	maxKernels = 16
	// portableCluster is the most blocks that a cluster has on every device that has
	// clusters. More would need an attribute by which a candidate gives that up.
	portableCluster = 8
	// maxMaps bounds the tensor maps of a call. They are 128 bytes each, and all
	// arguments together are 4 KB at most.
	maxMaps = 16
)

// launches gives the kernels of a call. The error says why the driver could not take
// them.
func launches(g wire.Geometry) ([]launch, error) {
	if len(g.Then) >= maxKernels {
		return nil, fmt.Errorf("a candidate of %d kernels, and at most %d are launched", len(g.Then)+1, maxKernels)
	}
	list := make([]launch, 0, len(g.Then)+1)
	for i, k := range g.Kernels() {
		if i > 0 && (k.Workspace != 0 || len(k.Maps) > 0 || len(k.Then) > 0) {
			return nil, fmt.Errorf("kernel %d has a workspace, tensor maps or kernels of its own: they are those of the first", i+1)
		}
		d, shared, ok := dimensions(k)
		if !ok {
			return nil, fmt.Errorf("a grid of %v blocks of %v threads with %d bytes of shared memory and a workspace of %d", k.Grid, k.Block, k.Shared, k.Workspace)
		}
		cluster, err := clusterOf(k)
		if err != nil {
			return nil, err
		}
		list = append(list, launch{
			entry: k.Entry, d: d, shared: shared, cluster: cluster, cooperative: k.Cooperative,
			// Before the first is another call, which it must not overlap.
			dependent: k.Dependent && i > 0,
		})
	}
	return list, nil
}

// clusterOf gives a launch's cluster; zero for none, and for one of a single block, which
// is none.
func clusterOf(g wire.Geometry) (c [3]uint32, err error) {
	if g.Cluster == [3]int64{} {
		return c, nil
	}
	blocks := int64(1)
	for i, n := range g.Cluster {
		if n < 1 || n > portableCluster {
			return c, fmt.Errorf("a cluster of %v blocks: every axis must be 1 to %d", g.Cluster, portableCluster)
		}
		if g.Grid[i]%n != 0 {
			return c, fmt.Errorf("a cluster of %v blocks does not divide the grid of %v", g.Cluster, g.Grid)
		}
		blocks *= n
		c[i] = uint32(n)
	}
	if blocks > portableCluster {
		return c, fmt.Errorf("a cluster of %v, which is %d blocks: at most %d can be launched on every device", g.Cluster, blocks, portableCluster)
	}
	if blocks == 1 {
		return [3]uint32{}, nil
	}
	return c, nil
}

// dimensions gives a launch's grid and block as the driver takes them; false
// when they are none that it could take.
func dimensions(g wire.Geometry) (d [6]uint32, shared uint32, ok bool) {
	for i := range 3 {
		if g.Grid[i] < 1 || g.Grid[i] > math.MaxInt32 || g.Block[i] < 1 || g.Block[i] > 1024 {
			return d, 0, false
		}
		d[i], d[3+i] = uint32(g.Grid[i]), uint32(g.Block[i])
	}
	if g.Shared < 0 || g.Shared > math.MaxInt32 || g.Workspace < 0 || g.Workspace > maxBytes {
		return d, 0, false
	}
	return d, uint32(g.Shared), true
}

// edgesSince is the driver from which the edges of a graph can be programmatic: see
// launch_all.
const edgesSince = 12030

// tooOld says what a driver of a CUDA version, as 12040, has not of what a call needs, by
// the name of what it is asked for; nil where it has all.
func tooOld(list []launch, maps int, driver int, has func(name string) bool) (call string, why error) {
	old := func(what, since string) error {
		return fmt.Errorf("the driver is of CUDA %d.%d and knows no %s: update it to one of CUDA %s or later", driver/1000, driver%1000/10, what, since)
	}
	switch { // the newest first: who needs several things is told of what has all
	case slices.ContainsFunc(list, func(l launch) bool { return l.dependent }) && driver < edgesSince:
		return "cuLaunchKernelEx", old("graphs of dependent launches, by which these are timed", "12.3")
	case maps > 0 && !has("cuTensorMapEncodeTiled"):
		return "cuTensorMapEncodeTiled", old("tensor maps", "12.0")
	case slices.ContainsFunc(list, launch.attributes) && !has("cuLaunchKernelEx"):
		return "cuLaunchKernelEx", old("clusters, cooperative and dependent launches", "11.8")
	}
	return "", nil
}

// apartLimit is how far an element of another launch may be from that of the first, for a
// reference with this root mean square; below zero it must have the same bits.
func apartLimit(b buffer, rms float64) float64 {
	if b.Repeat == 0 {
		return -1
	}
	return b.Repeat * rms
}

// The codes of cuTensorMapEncodeTiled. Types that it does not have are read as bits.
var (
	mapTypes = map[string]int{
		"u8": 0, "i8": 0, "e4m3": 0, "e5m2": 0, "i16": 1, "u16": 1, "u32": 2, "i32": 3, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9,
	}
	mapSwizzles   = []int64{0, 32, 64, 128}
	mapPromotions = []int64{0, 64, 128, 256}
)

// checkMaps holds tensor maps against the buffers and against what the driver's manual
// says of cuTensorMapEncodeTiled. That a map stays within its buffer is for us to see:
// the driver knows of addresses alone, and what lies behind is a guard or another's.
func checkMaps(maps []wire.TensorMap, s wire.Shape, buffers []buffer) error {
	if len(maps) > maxMaps {
		return fmt.Errorf("%d tensor maps, and at most %d are passed", len(maps), maxMaps)
	}
	for i, m := range maps {
		if m.Buffer < 0 || m.Buffer >= len(buffers) {
			return fmt.Errorf("tensor map %d is of buffer %d, and there are %d", i+1, m.Buffer, len(buffers))
		}
		b := buffers[m.Buffer]
		if err := checkMap(m, s.Elements[m.Buffer]*b.size()); err != nil {
			return fmt.Errorf("tensor map %d, of buffer %s: %w", i+1, b.Name, err)
		}
	}
	return nil
}

// checkMap holds a tensor map against a buffer of so many bytes.
func checkMap(m wire.TensorMap, bytes int64) error {
	dtype, axes := slices.Index(dtypes, m.DType), len(m.Dims)
	switch {
	case dtype < 0:
		return fmt.Errorf("unknown type %q, want one of %v", m.DType, dtypes)
	case axes < 1 || axes > 5:
		return fmt.Errorf("it has %d axes, want 1 to 5", axes)
	case len(m.Strides) != axes-1 || len(m.Box) != axes:
		return fmt.Errorf("%d axes, %d strides and a box of %d axes do not go together", axes, len(m.Strides), len(m.Box))
	case !slices.Contains(mapSwizzles, m.Swizzle):
		return fmt.Errorf("a swizzle of %d bytes, want 0, 32, 64 or 128", m.Swizzle)
	case !slices.Contains(mapPromotions, m.Promotion):
		return fmt.Errorf("a promotion to %d bytes, want 0, 64, 128 or 256", m.Promotion)
	case m.NaN && !slices.Contains([]string{"f64", "f32", "f16", "bf16"}, m.DType):
		return fmt.Errorf("NaN cannot be read as %s outside of the array: only as f64, f32, f16 or bf16", m.DType)
	}
	size := dtypeSizes[dtype]
	for i, n := range m.Dims {
		switch {
		case n < 1 || n > 1<<32:
			return fmt.Errorf("axis %d has %d elements, want 1 to 2^32", i+1, n)
		case m.Box[i] < 1 || m.Box[i] > 256:
			return fmt.Errorf("the box has %d elements along axis %d, want 1 to 256", m.Box[i], i+1)
		}
	}
	inner := m.Box[0] * size
	switch {
	case inner%16 != 0:
		return fmt.Errorf("a box of %d bytes along the first axis: it must be a multiple of 16", inner)
	case m.Swizzle > 0 && inner > m.Swizzle:
		return fmt.Errorf("a box of %d bytes along the first axis, and the swizzle allows %d", inner, m.Swizzle)
	}
	// What is left of the buffer behind the last element that axes so far reach.
	left := bytes - m.Dims[0]*size
	for i, stride := range m.Strides {
		if stride < 0 || stride%16 != 0 || stride >= 1<<40 {
			return fmt.Errorf("a stride of %d bytes along axis %d: it must be a multiple of 16 below 2^40", stride, i+2)
		}
		if stride == 0 { // the same again
			continue
		}
		if n := m.Dims[i+1] - 1; left < 0 || n > left/stride {
			left = -1
		} else {
			left -= n * stride
		}
	}
	if left < 0 {
		return fmt.Errorf("an array of %v elements of %d bytes with strides of %v bytes does not lie within the buffer's %d bytes", m.Dims, size, m.Strides, bytes)
	}
	return nil
}

// scalarBits gives a scalar as the eight bytes that its argument begins with.
func scalarBits(dtype string, v float64) uint64 {
	switch dtype {
	case "f64":
		return math.Float64bits(v)
	case "f32":
		return uint64(math.Float32bits(float32(v)))
	default: // two's complement: the low bytes are those of a narrower type
		return uint64(int64(math.RoundToEven(v)))
	}
}

// mix is the finaliser of SplitMix64, as in the harness.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// bufferKey is the key of the numbers in one buffer.
func bufferKey(seed uint64, index int) uint64 {
	return mix(mix(seed+0x9e3779b97f4a7c15) ^ uint64(index+1)*0xd1b54a32d192ed03)
}

const (
	// maxSets is the most sets of buffers, maxPasses the most passes through them
	// in one reading.
	maxSets, maxPasses = 64, 128
	// fewSets is how many there are at least, if memory allows: a pass begins with a wait for the host.
	fewSets = 5
	// someSets is how many there are where they take no more than someBytes: launches may be so short that a pass
	// of few sets is mostly that wait.
	someSets, someBytes = 8, 256 << 20
	// fewUsed is how many of them a pass goes through at least, if it doesn't get too long.
	fewUsed = 3
	// longLaunch is how long, in nanoseconds, a pass may last that has more than one
	// launch.
	longLaunch = 50e6
)

// planSets chooses how many sets of buffers the launches of a pass go through,
// each once, for sets of so many bytes. Warm sets take up about half of the
// last-level cache, or are few; cold ones exceed it three times. limit is the memory that all
// may take, with one more for the comparisons.
func planSets(bytes, l2, limit int64, cold bool) int {
	n := max(l2/2/max(bytes, 1), min(someBytes/max(bytes, 1), someSets), fewSets)
	if cold {
		n = max(3*l2/max(bytes, 1)+1, fewSets)
	}
	return int(max(min(n, maxSets, limit/max(bytes, 1)-1), 1))
}

// sweeps says whether the cache is emptied before a launch: where cold sets are asked
// for, or two sets do not fit. What has just been made would else be there in part.
func sweeps(bytes, l2 int64, cold bool) bool { return cold || 2*bytes > l2 }

const (
	guardBytes = 4096    // at both ends of a buffer
	pageBytes  = 2 << 20 // of device memory
)

// planBlock gives the alignment of a buffer of so many bytes, and the memory that it needs with its guards.
// A buffer as large as a page is aligned like one that a user allocates: 4 KiB into a page, rows of 8 KiB
// took 2 to 3% less on an H200.
func planBlock(bytes int64) (align, room int64) {
	align = guardBytes
	if bytes >= pageBytes {
		align = pageBytes
	}
	return align, bytes + align + 2*guardBytes
}

// planMapped gives where a buffer of so many bytes begins in mapped memory of so many, and the bytes of guards
// around it: it begins where that does or, at the end, ends as near to its end as the alignment allows that
// exported operators promise.
func planMapped(bytes, room int64, where string) (offset, before, after int64) {
	if where == wire.AtEnd {
		offset = room - (bytes+promisedAlign-1)/promisedAlign*promisedAlign
	}
	return offset, min(offset, guardBytes), min(room-offset-bytes, guardBytes)
}

// promisedAlign is the alignment of arrays, in bytes, that exported operators promise to kernels.
const promisedAlign = 16

// startIn gives the first aligned address that leaves room for a guard behind base.
func startIn(base uint64, align int64) uint64 {
	n := uint64(align)
	return (base + guardBytes + n - 1) / n * n
}

// planDirty gives how many of every 64 pieces of memory a sweep writes, for a kernel that writes so
// many of its bytes. A pass then begins with as many dirty lines as it leaves. If it began with none,
// what still has to be written back at its end would cost it nothing.
func planDirty(written, bytes int64) int64 { return (64*written + bytes/2) / max(bytes, 1) }

// planUsed chooses how many of the sets a pass goes through at most, from the time that a
// launch takes: all, unless that would last too long.
func planUsed(launch float64, sets int) int {
	if !(launch > 0) {
		return sets
	}
	return int(min(max(longLaunch/launch, 1), float64(sets)))
}

// planReading chooses how many of the sets a pass goes through and how many passes a reading has, from the time that a
// launch takes: few passes, and no more launches than last a batch, but a few in each pass.
func planReading(launch, batch float64, sets int) (used, passes int) {
	used = planUsed(launch, sets)
	passes = planPasses(launch*float64(used), batch)
	if launch > 0 {
		used = int(min(max(math.Ceil(batch/launch/float64(passes)), fewUsed), float64(used)))
	}
	return used, passes
}

// planRow chooses how many blocks go through one of so many buffers. What a block does before its first element takes
// as long as hundreds of these, so there are no more than the device runs about at once: 24 MB in three buffers took
// 14.5 us on an H200, and 20.1 with 1,024 blocks for each.
func planRow(buffers, sms int) int64 {
	return int64(max(sms, 1) * max((3+buffers-1)/max(buffers, 1), 1))
}

// planAlone chooses in how many passes the making of contents is timed by itself: in each where it takes
// longer than the launches, so that each difference is one of neighbors, else in one of four, or of eight
// where it is short beside them.
func planAlone(making, launches float64) int {
	switch {
	case making > launches:
		return 1
	case 4*making > launches:
		return 4
	}
	return 8
}

// lackingWorkspace says why a workspace cannot be had, where all sets of buffers may take so much.
func lackingWorkspace(bytes, most, free, total int64) string {
	why := fmt.Sprintf("a workspace of %d bytes, where the device has %d of %d free", bytes, free, total)
	if bytes > most {
		why += fmt.Sprintf(": one may have at least %d, make it smaller", most)
	}
	return why
}

// planPasses chooses how many passes a reading has, from the time that one takes:
// as many as last batch.
func planPasses(pass, batch float64) int {
	if !(pass > 0) {
		return 1
	}
	return int(min(max(math.Ceil(batch/pass), 1), maxPasses))
}

// planLooks chooses how many launches of a reading are compared, at each of which
// the baseline is launched once: one at least, and more as long as that takes
// less than a tenth of the reading.
func planLooks(baseline, reading float64, sets int) int {
	n := 1.0
	if baseline > 0 {
		n = math.Floor(reading / 10 / baseline)
	}
	return int(min(max(n, 1), 4, float64(sets)))
}

// planEdges draws before which of so many rounds, or behind the last, each of some edge-case inputs comes: lists
// of them, one for each round and one for what is behind.
func planEdges(dice *rand.Rand, edges, rounds int) [][]int {
	due := make([][]int, rounds+1)
	for _, e := range dice.Perm(edges) {
		n := dice.IntN(rounds + 1)
		due[n] = append(due[n], e)
	}
	return due
}

// far says whether an output is further off than so many tolerances.
func far(outputs []wire.Output, tolerances float64) bool {
	for _, o := range outputs {
		if o.NotFinite > 0 || o.Unwritten > 0 || !(float64(o.Error) <= tolerances*o.Limit) {
			return true
		}
	}
	return false
}

// order draws the order of the contenders in one round.
func order(seed uint64, round, contenders int) []int {
	return rand.New(rand.NewPCG(seed, uint64(round))).Perm(contenders)
}

// tensorFLOPs are the operations that one multiprocessor's tensor cores finish
// in a cycle, for 16-bit types without sparsity; 0 where it is not known. They
// are those of NVIDIA's architecture whitepapers.
func tensorFLOPs(capability int) float64 {
	switch capability {
	case 80, 87:
		return 2048
	case 86, 89, 120:
		return 1024
	case 90:
		return 4096
	case 100, 103:
		return 8192
	}
	return 0
}

// laneFLOPs are those of the ordinary single precision pipe.
func laneFLOPs(capability int) float64 {
	if capability == 80 {
		return 2 * 64
	}
	return 2 * 128
}

// doubleFLOPs are those of double precision, on tensor cores where they have
// it; 0 where the measured value will do.
func doubleFLOPs(capability int) float64 {
	switch capability {
	case 80:
		return 2 * 64
	case 90:
		return 2 * 128
	}
	return 0
}

// besideCUBLAS is where cublasLt is beside a cuBLAS in a folder of its own.
func besideCUBLAS(file string) string {
	return filepath.Join(filepath.Dir(file), strings.Replace(filepath.Base(file), "libcublas.", "libcublasLt.", 1))
}

// checkGEMM holds a problem against what cublas:gemm computes.
func checkGEMM(buffers []buffer, scalars []string) error {
	if len(buffers) != 3 || len(scalars) != 0 {
		return errors.New("it wants the buffers A, B and C and no scalars")
	}
	for i, role := range []string{"in", "in", "out"} {
		if b := buffers[i]; b.DType != "f16" || b.Role != role {
			return fmt.Errorf("buffer %s is %s, %s; it wants f16, %s", b.Name, b.DType, b.Role, role)
		}
	}
	return nil
}

// blasVersion reads cuBLAS's number: 120803 is 12.8.3.
func blasVersion(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// readInputs reads the elements that come from a file, by buffer, as it has them: those of all inputs, or of those
// that are made as a whole the contents of a seed. Other buffers have none.
func readInputs(s wire.Shape, buffers []buffer, seed uint64) ([][]byte, error) {
	file, which, times := s.Inputs, buffer.input, uint64(1)
	if file == "" {
		file, which, times = s.Made, buffer.made, wire.MadeContents
	}
	data := make([][]byte, len(buffers))
	if !slices.ContainsFunc(buffers, which) {
		return data, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("the inputs of shape %s: %w", s.Name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("the inputs of shape %s: %w", s.Name, err)
	}
	size := int64(0)
	for i, b := range buffers {
		if which(b) {
			size += wire.ElementBytes(b.DType) * s.Elements[i]
		}
	}
	if want := int64(times) * size; info.Size() != want {
		return nil, fmt.Errorf("the inputs of shape %s: %s has %d bytes, want %d", s.Name, file, info.Size(), want)
	}
	raw := make([]byte, size)
	if _, err := f.ReadAt(raw, int64(seed%times)*size); err != nil {
		return nil, fmt.Errorf("the inputs of shape %s: %w", s.Name, err)
	}
	for i, b := range buffers {
		if which(b) {
			n := wire.ElementBytes(b.DType) * s.Elements[i]
			data[i], raw = raw[:n:n], raw[n:]
		}
	}
	return data, nil
}

// readOutputs reads what the reference gives from a file: by contents and buffer.
func readOutputs(file string, s wire.Shape, buffers []buffer, contents int) ([][][]float64, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the outputs of shape %s: %w", s.Name, err)
	}
	want := int64(0)
	for i, b := range buffers {
		if b.output() {
			want += 8 * int64(contents) * s.Elements[i]
		}
	}
	if int64(len(raw)) != want {
		return nil, fmt.Errorf("the outputs of shape %s: %s has %d bytes, want %d", s.Name, file, len(raw), want)
	}
	data := make([][][]float64, contents)
	for k := range data {
		data[k] = make([][]float64, len(buffers))
		for i, b := range buffers {
			if b.output() {
				n := 8 * s.Elements[i]
				data[k][i], raw = wire.Doubles(raw[:n]), raw[n:]
			}
		}
	}
	return data, nil
}

// halve puts the smaller half of the elements, by magnitude, to zero. Those that are NaN
// are not compared, and stay.
func halve(v []float64) {
	var magnitudes []float64
	for _, x := range v {
		if !math.IsNaN(x) {
			magnitudes = append(magnitudes, math.Abs(x))
		}
	}
	slices.Sort(magnitudes)
	if len(magnitudes) == 0 {
		return
	}
	for i, x := range v {
		if math.Abs(x) <= magnitudes[(len(magnitudes)-1)/2] {
			v[i] = 0
		}
	}
}

// leaveOut replaces every eighth element of the last axis, the first of each eight, by its
// neighbor. Size is that of an element in bytes, last the extent of the axis, at least 2.
func leaveOut(elements []byte, size, last int) {
	for row := 0; row < len(elements); row += last * size {
		for i := 0; i < last; i += 8 {
			from := i + 1
			if from == last {
				from = i - 1
			}
			copy(elements[row+i*size:row+(i+1)*size], elements[row+from*size:])
		}
	}
}

// returned finds the input that a control returns, and the output.
func returned(buffers []buffer, s wire.Shape, names []string) (in, out int, err error) {
	if len(names) != 2 {
		return 0, 0, fmt.Errorf("the control input names %d buffers, want 2", len(names))
	}
	in = slices.IndexFunc(buffers, func(b buffer) bool { return b.Name == names[0] && b.input() })
	out = slices.IndexFunc(buffers, func(b buffer) bool { return b.Name == names[1] && b.output() })
	if in < 0 || out < 0 || s.Elements[in] != s.Elements[out] {
		return 0, 0, fmt.Errorf("the control input: %q is not an input of the size of an output %q", names[0], names[1])
	}
	return in, out, nil
}

// swapped finds the two inputs that a control exchanges.
func swapped(buffers []buffer, s wire.Shape, names []string) (int, int, error) {
	if len(names) != 2 {
		return 0, 0, fmt.Errorf("the control swap names %d buffers, want 2", len(names))
	}
	var at [2]int
	for k, name := range names {
		at[k] = slices.IndexFunc(buffers, func(b buffer) bool { return b.Name == name })
		if at[k] < 0 || !buffers[at[k]].input() {
			return 0, 0, fmt.Errorf("the control swap: %q is not an input", name)
		}
	}
	i, j := at[0], at[1]
	if s.Elements[i] != s.Elements[j] {
		return 0, 0, fmt.Errorf("the control swap: at shape %s, %s has %d elements and %s has %d",
			s.Name, names[0], s.Elements[i], names[1], s.Elements[j])
	}
	return i, j, nil
}

// ceilings completes what was measured with what the architecture can do at its
// highest clock: a floor under a time must be one that nothing gets below, and
// the instructions that measure here do not reach it on every device. What was
// measured stays, under "measured-" names.
func ceilings(peaks map[string]float64, d wire.Device) {
	cycles := float64(d.SMs) * float64(d.ClockKHz) * 1e3
	for name, perCycle := range map[string]float64{
		"f32": laneFLOPs(d.Capability), "f64": doubleFLOPs(d.Capability),
		"tensor-f16": tensorFLOPs(d.Capability), "tensor-bf16": tensorFLOPs(d.Capability),
	} {
		if measured, ok := peaks[name]; ok {
			peaks["measured-"+name] = measured
			peaks[name] = max(measured, perCycle*cycles)
		}
	}
}
