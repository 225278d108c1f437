// Package wire is the protocol between evotune and its GPU worker, tune-cuda:
// requests on the worker's standard input, answers on its standard output, one
// answer for each request, in order.
//
// A message is one header line, "evotune/VERSION KIND LENGTH\n", LENGTH bytes of
// JSON, and a newline. Kinds and lengths are checked on both sides. Times are
// nanoseconds, sizes bytes.
package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Version is the version of the protocol; both sides refuse another. Version 3
// takes inputs from files as well. Version 4 times launches on contents that come
// once, and compares some of every reading. Version 5 draws them from a pool that
// evotune names, and takes what is expected from files where no reference is on the device.
// Version 6 has clusters, cooperative and dependent launches, tensor maps, several kernels in
// a call, 8-bit floating point, masked outputs and outputs that need not repeat to the bit,
// and tells what a vendor's routine runs and how long it looked for that. Version 7 has every element
// of a file of inputs once, in less space. Version 8 asks a vendor's routine which shapes it computes.
// Version 9 launches on where few launches were timed. Version 10 begins
// passes with dirty lines in the cache, and large buffers on pages. Version 11 counts elements as
// right that are as near as their type allows. Version 12 has
// integers without a sign, and controls at tuned shapes. Version 13 makes the inputs of a launch right before it.
// Version 14 compares on buffers that begin or end where mapped memory does. Version 15 has edge-case
// inputs among what is timed.
const Version = 15

// A Kind names what a message asks for. The answer to a request has the kind
// of the request, or [Failed].
type Kind string

// The kinds.
const (
	Hello     Kind = "hello"     // HelloRequest, HelloAnswer
	Open      Kind = "open"      // OpenRequest, OpenAnswer: begin a problem
	Load      Kind = "load"      // LoadRequest, LoadAnswer: a binary
	Unload    Kind = "unload"    // UnloadRequest, UnloadAnswer
	Parity    Kind = "parity"    // ParityRequest, ParityAnswer
	Control   Kind = "control"   // ControlRequest, ControlAnswer: a negative control
	Reference Kind = "reference" // ReferenceRequest, ReferenceAnswer: data for the check against the CPU
	Launch    Kind = "launch"    // LaunchRequest, LaunchAnswer: one launch, for sanitizers and profilers
	Time      Kind = "time"      // TimeRequest, TimeAnswer
	Peaks     Kind = "peaks"     // PeaksRequest, PeaksAnswer: the device's measured ceilings
	Telemetry Kind = "telemetry" // TelemetryRequest, TelemetryAnswer
	Quit      Kind = "quit"      // QuitRequest, QuitAnswer
	Failed    Kind = "failed"    // Failure
)

// A Failure answers a request that could not be carried out because of the
// worker, the machine or the request; what a candidate did wrong is told in
// the ordinary answers as a [Fault].
type Failure struct {
	Error string `json:"error"`
	// Fatal says that the process can do no more and ends.
	Fatal bool `json:"fatal,omitempty"`
}

// A Fault is what the driver said of a candidate.
type Fault struct {
	// Call is the driver call that failed, as "cuLaunchKernel".
	Call string `json:"call"`
	// Code and Name are the driver's: 700, "CUDA_ERROR_ILLEGAL_ADDRESS".
	Code int    `json:"code"`
	Name string `json:"name"`
	// Why says in words what the driver's name does not tell; often "".
	Why string `json:"why,omitempty"`
	// Fatal says that the context is lost: the worker ends after this answer.
	Fatal bool `json:"fatal,omitempty"`
}

// HelloRequest is the first message to a worker. The worker holds the first
// device that it sees (CUDA_VISIBLE_DEVICES chooses it, by UUID).
type HelloRequest struct {
	Version int `json:"version"`
}

// HelloAnswer tells of worker and device.
type HelloAnswer struct {
	Version int    `json:"version"`
	PID     int    `json:"pid"`
	Device  Device `json:"device"`
}

// A Device is a GPU.
type Device struct {
	Name         string `json:"name"`
	UUID         string `json:"uuid"` // "GPU-..."
	Capability   int    `json:"capability"`
	SMs          int    `json:"sms"`
	L2Bytes      int64  `json:"l2_bytes"`
	MemoryBytes  int64  `json:"memory_bytes"`
	SharedOptin  int64  `json:"shared_optin_bytes"` // per block, with the opt-in
	RegistersSM  int    `json:"registers_per_sm"`
	ThreadsSM    int    `json:"threads_per_sm"`
	ClockKHz     int    `json:"clock_khz"`
	MemoryKHz    int    `json:"memory_clock_khz"`
	BusBits      int    `json:"bus_bits"`
	CUDADriver   int    `json:"cuda_driver"`    // 13000
	DriverString string `json:"driver_version"` // NVML's "580.159.04"; "" without NVML
	NVML         string `json:"nvml,omitempty"` // why NVML is not there; "" when it is
	GraphLaunch  bool   `json:"graph_launch"`
	// Mapping says that the driver maps memory at addresses of one's choice (cuMemMap).
	Mapping bool `json:"mapping,omitempty"`
	// PowerLimitWatts is the limit that is enforced now; the application clocks
	// are those that are set, and MaxClockMHz is the highest that NVML gives for
	// the multiprocessors. 0 is unknown. NVML does not tell of locked clocks.
	PowerLimitWatts   int `json:"power_limit_watts,omitempty"`
	AppClockMHz       int `json:"app_clock_mhz,omitempty"`
	AppMemoryClockMHz int `json:"app_memory_clock_mhz,omitempty"`
	MaxClockMHz       int `json:"max_clock_mhz,omitempty"`
}

// OpenRequest begins a problem; an earlier one is forgotten with all its
// binaries and memory.
type OpenRequest struct {
	// Harness is the cubin of the harness's own kernels.
	Harness string   `json:"harness"`
	Buffers []Buffer `json:"buffers"`
	// Scalars are the types of the scalars, after the buffers.
	Scalars []string `json:"scalars,omitempty"`
	// Reference computes every output in double precision: its entry gets the
	// dimensions (int64), the buffers as double and the scalars as double.
	Reference      string `json:"reference,omitempty"` // a cubin
	ReferenceEntry string `json:"reference_entry,omitempty"`
}

// Made is the distribution of inputs that come from a file: see Shape.Made.
const Made = "python"

// MadeContents is how many contents that file has. Those with which a seed begins are the
// seed's remainder.
const MadeContents = 3

// A Buffer is one array argument.
type Buffer struct {
	Name  string `json:"name"`
	DType string `json:"dtype"` // f64 f32 f16 bf16 i64 i32 i16 i8 u8 e4m3 e5m2 u32 u16
	Role  string `json:"role"`  // in, out, inout
	// Data fills inputs: the distribution and its two parameters, as in
	// kernels.Data.
	Distribution string  `json:"distribution,omitempty"`
	A            float64 `json:"a,omitempty"`
	B            float64 `json:"b,omitempty"`
	// Tolerance bounds max|output - reference| / RMS(reference), over the elements that are
	// not within Units of the reference.
	Tolerance float64 `json:"tolerance,omitempty"`
	// Units is kernels.Problem.UnitsOf: a distance as a part of the largest power of two that
	// is not above the magnitude of the reference's element.
	Units float64 `json:"units,omitempty"`
	// Repeat is by how much launches on the same inputs may differ from the first,
	// relative to RMS(reference); 0 asks for the same bits.
	Repeat float64 `json:"repeat,omitempty"`
	// UnwrittenNaN leaves out of the comparison what the reference leaves NaN.
	UnwrittenNaN bool `json:"unwritten_nan,omitempty"`
}

// OpenAnswer is empty.
type OpenAnswer struct{}

// LoadRequest loads a binary under a name that later requests use.
type LoadRequest struct {
	Name string `json:"name"`
	// Cubin is a file and Entry the kernel in it; or Routine names a vendor's
	// routine ("cublas:gemm"), loaded at run time. Also are the other kernels of the
	// file that launches name.
	Cubin   string   `json:"cubin,omitempty"`
	Entry   string   `json:"entry,omitempty"`
	Also    []string `json:"also,omitempty"`
	Routine string   `json:"routine,omitempty"`
	// Library is the routine's file; "" is that of the usual names. Shapes are those at which
	// it is asked whether it computes them.
	Library string  `json:"library,omitempty"`
	Shapes  []Shape `json:"shapes,omitempty"`
}

// LoadAnswer has the attributes that the driver gives for the entry; with other kernels
// the most of all of them, and the least of MaxThreads.
type LoadAnswer struct {
	Fault       *Fault `json:"fault,omitempty"`
	Registers   int    `json:"registers,omitempty"`
	LocalBytes  int64  `json:"local_bytes,omitempty"` // per thread
	SharedBytes int64  `json:"shared_bytes,omitempty"`
	ConstBytes  int64  `json:"const_bytes,omitempty"`
	MaxThreads  int    `json:"max_threads,omitempty"`
	// Version is that of the vendor's library, and Refused has the reason why its routine does
	// not compute a shape that was asked for, by the shape's name.
	Version string            `json:"version,omitempty"`
	Refused map[string]string `json:"refused,omitempty"`
}

// UnloadRequest forgets a binary and frees its memory.
type UnloadRequest struct {
	Name string `json:"name"`
}

// UnloadAnswer is empty.
type UnloadAnswer struct{}

// A Geometry is how one binary is launched at one shape.
type Geometry struct {
	Grid   [3]int64 `json:"grid"`
	Block  [3]int64 `json:"block"`
	Shared int64    `json:"shared,omitempty"` // dynamic; above 48 KB is opted in
	// Workspace is the size of the last argument, a scratch buffer that is
	// zero before the first launch and is not touched between launches. With
	// 0 the argument is null; an entry without one does not see it.
	Workspace int64 `json:"workspace,omitempty"`
	// Entry is the kernel in the binary; "" is that with which it was loaded.
	Entry string `json:"entry,omitempty"`
	// Cluster is the size of a thread block cluster, in blocks; zero is none.
	Cluster     [3]int64 `json:"cluster,omitzero"`
	Cooperative bool     `json:"cooperative,omitempty"` // all blocks at once
	// Dependent lets the kernel begin before the one before it in the call has ended. The
	// first has none: what is before it is another call's, or the worker's own.
	Dependent bool `json:"dependent,omitempty"`
	// Maps are arguments between the scalars and the workspace.
	Maps []TensorMap `json:"maps,omitempty"`
	// Then are launches that follow, with the same arguments and workspace: these have
	// neither Workspace, Maps nor Then of their own.
	Then []Geometry `json:"then,omitempty"`
}

// Kernels are the launches of a call in their order: the geometry's own and those that
// follow.
func (g Geometry) Kernels() []Geometry { return append([]Geometry{g}, g.Then...) }

// String has all of the geometry. It is part of a candidate's identity: a launch of
// one kernel by its grid, block, shared memory and workspace alone has the text that it
// had when there was nothing else.
func (g Geometry) String() string {
	text := fmt.Sprintf("{%v %v %d %d}", g.Grid, g.Block, g.Shared, g.Workspace)
	if reflect.DeepEqual(g, Geometry{Grid: g.Grid, Block: g.Block, Shared: g.Shared, Workspace: g.Workspace}) {
		return text
	}
	all, err := json.Marshal(g)
	if err != nil {
		panic(err) // integers, booleans and strings can always be written
	}
	return text + " " + string(all)
}

// A Keyed says how the device makes the contents of a buffer whose distribution is Made for a
// timed launch, which then has contents of its own: the elements are the first of a permutation
// of the integers below B ("permutation"), integers from A to B ("between"), or integers in ascending order, the
// first 0 and the last B ("offsets").
type Keyed struct {
	Distribution string `json:"distribution,omitempty"` // "" where only the file has the contents
	A            int64  `json:"a,omitempty"`
	B            int64  `json:"b,omitempty"`
}

// A TensorMap is a descriptor of a buffer for the tensor memory accelerator, the
// innermost axis first: cuTensorMapEncodeTiled makes it for every set of buffers.
type TensorMap struct {
	Buffer  int     `json:"buffer"` // index
	DType   string  `json:"dtype"`
	Dims    []int64 `json:"dims"`
	Strides []int64 `json:"strides,omitempty"` // bytes, of all axes but the first
	Box     []int64 `json:"box"`
	// Swizzle is 0, 32, 64 or 128 bytes, Promotion 0, 64, 128 or 256.
	Swizzle   int64 `json:"swizzle,omitempty"`
	Promotion int64 `json:"promotion,omitempty"`
	NaN       bool  `json:"nan,omitempty"` // is read outside of the array, instead of 0
}

// A Shape is one instance of the problem.
type Shape struct {
	Name     string    `json:"name"`
	Dims     []int64   `json:"dims"`
	Elements []int64   `json:"elements"` // one entry per buffer
	Scalars  []float64 `json:"scalars,omitempty"`
	// Reference is the launch of the reference at this shape.
	Reference Geometry `json:"reference"`
	// Inputs is a file with the contents of the inputs; "" makes them from their
	// distributions and the seed. It has the elements of all inputs, in order, as
	// [AppendElements] writes them. What the reference makes of them as they are elsewhere
	// by some roundings, in two ways, gives the slack of [Output].
	Inputs string `json:"inputs,omitempty"`
	// Outputs is a file with what the reference gives for the inputs, where it is not
	// on the device: the elements of all outputs, in order, as little-endian doubles;
	// with Inputs, two times more for the inputs as they are elsewhere.
	Outputs string `json:"outputs,omitempty"`
	// Made is a file with contents of the inputs whose distribution is Made, in the form
	// of Inputs: MadeContents times, for one seed after the other. Timed launches go
	// through them in an order that nobody knows, unless they are Keyed.
	Made string `json:"made,omitempty"`
	// Keyed are the buffers that the device can make instead, one entry per buffer; none if
	// there is no such buffer.
	Keyed []Keyed `json:"keyed,omitempty"`
}

// ParityRequest compares a binary with the reference at one shape, on the
// device. Inputs and reference are made once for a shape and seed and kept.
type ParityRequest struct {
	Binary   string   `json:"binary"`
	Geometry Geometry `json:"geometry"`
	Shape    Shape    `json:"shape"`
	Seed     uint64   `json:"seed"`
	// Repeat is the number of launches whose outputs must be the same bits. Before
	// the last one outputs hold poison, before the others ordinary numbers.
	Repeat int `json:"repeat"`
	// Mapped has buffers and workspace in memory of their own, between pages that are not
	// mapped: AtBegin where it begins, AtEnd as near to its end as an alignment of 16 bytes
	// allows. An access outside of it is a fatal Fault. "" has them among others, with guards.
	Mapped string `json:"mapped,omitempty"`
	// TimeoutNS bounds the launches; the backend kills a worker that stays
	// longer.
	TimeoutNS int64 `json:"timeout_ns"`
}

// The values of [ParityRequest].Mapped.
const (
	AtBegin = "begin"
	AtEnd   = "end"
)

// ParityAnswer is what the comparison saw.
type ParityAnswer struct {
	Fault *Fault `json:"fault,omitempty"`
	// NotMapped says why nothing was launched: there is no memory for a request with Mapped.
	NotMapped string   `json:"not_mapped,omitempty"`
	Outputs   []Output `json:"outputs,omitempty"`
	// InputChanged names an input that the candidate wrote to.
	InputChanged string `json:"input_changed,omitempty"`
	// Guard names a buffer outside whose bounds something was written, and
	// where: the offset in bytes from the start of the buffer.
	Guard       string `json:"guard,omitempty"`
	GuardOffset int64  `json:"guard_offset,omitempty"`
	// Different counts elements that later launches gave other bits than the first or, of
	// buffers with Repeat, values further from it than that.
	Different int64 `json:"different,omitempty"`
	// Apart is how far from the first launch others were at most, relative to
	// RMS(reference), in the buffers with Repeat.
	Apart     Number `json:"apart,omitempty"`
	ElapsedNS int64  `json:"elapsed_ns"`
}

// An Output compares one output with the reference.
type Output struct {
	Name string `json:"name"`
	// Error is (max|output - reference| - slack) / RMS(reference), not below zero;
	// Limit is the tolerance. There is slack where the inputs come from a file and the
	// tolerance is not zero: the most by which the reference moved, and the step of
	// the output's type at the largest element.
	Error Number  `json:"error"`
	Limit float64 `json:"limit"`
	RMS   Number  `json:"rms"`
	// Worst is where the error is largest, with both values there.
	Worst int64  `json:"worst"`
	Got   Number `json:"got"`
	Want  Number `json:"want"`
	// NotFinite counts elements that are NaN or infinite where the reference
	// is finite; Unwritten those that are wrong and still hold the poison (of
	// integers too, which are never not finite).
	NotFinite int64 `json:"not_finite,omitempty"`
	Unwritten int64 `json:"unwritten,omitempty"`
	// Elements is the number of elements: all but Skipped were compared.
	Elements int64 `json:"elements"`
	// Skipped counts elements that the reference, or the baseline in its place, leaves NaN
	// in a buffer with UnwrittenNaN; Surplus those of them that were written all the same.
	Skipped int64 `json:"skipped,omitempty"`
	Surplus int64 `json:"surplus,omitempty"`
}

// ControlRequest asks how wrong a wrong answer is: "zeros", "constant", "half" (the
// smaller half of the elements, by magnitude, is zero), "swap" with the two
// inputs that are exchanged, "input" with the input that is returned and the output, or
// "left out".
type ControlRequest struct {
	Kind    string   `json:"kind"`
	Buffers []string `json:"buffers,omitempty"`
	// Last is, for "left out" and by buffer, the extent of an axis along which every eighth step, of
	// Inner elements, is replaced by its neighbor; 0 for buffers that stay as they are.
	Last  []int64 `json:"last,omitempty"`
	Inner []int64 `json:"inner,omitempty"`
	Shape Shape   `json:"shape"`
	Seed  uint64  `json:"seed"`
	// Answer is a file with what the reference gives for exchanged or replaced inputs, where
	// it is not on the device, as in [Shape].
	Answer string `json:"answer,omitempty"`
}

// ControlAnswer compares the wrong answer with the reference. It has the one output of "input",
// and of "left out" those that differ, or all if none does.
type ControlAnswer struct {
	Outputs []Output `json:"outputs"`
	// Silent says why nothing can be compared on inputs from a file: the reference
	// is not finite.
	Silent string `json:"silent,omitempty"`
}

// ReferenceRequest asks for the inputs (as double) and the outputs of the
// device's reference at a small shape, so that the backend can check it
// against the CPU's reference.
type ReferenceRequest struct {
	Shape Shape  `json:"shape"`
	Seed  uint64 `json:"seed"`
	// File is where the worker writes the buffers before and the outputs after,
	// as little-endian doubles: all buffers in order (outputs as zero), then
	// all outputs.
	File string `json:"file"`
	// InputsOnly leaves out the outputs after, which takes no reference.
	InputsOnly bool `json:"inputs_only,omitempty"`
}

// ReferenceAnswer is empty.
type ReferenceAnswer struct{}

// LaunchRequest launches a binary once, on memory of its own that is exactly
// as large as the buffers, inputs filled, outputs as the allocator gave them.
type LaunchRequest struct {
	Binary   string   `json:"binary"`
	Geometry Geometry `json:"geometry"`
	Shape    Shape    `json:"shape"`
	Seed     uint64   `json:"seed"`
}

// LaunchAnswer says how the launch ended.
type LaunchAnswer struct {
	Fault     *Fault `json:"fault,omitempty"`
	ElapsedNS int64  `json:"elapsed_ns"`
}

// TimeRequest takes rounds of a race between contenders at one shape: in every
// round each contender is timed once, in an order drawn from Seed. The first
// contender is the baseline.
//
// A request without Continue begins a race: it makes the sets of buffers and the
// graphs. The worker keeps them until another race begins, one of the binaries
// is unloaded, a comparison is asked for, or another problem opens. Until then requests with
// Continue take further rounds of it.
type TimeRequest struct {
	// Continue goes on with the race that was begun last: only Rounds, Last, Longer, Reference, Edges
	// and Latencies are read then.
	Continue   bool        `json:"continue,omitempty"`
	Contenders []Contender `json:"contenders,omitempty"`
	Shape      Shape       `json:"shape"`
	Seed       uint64      `json:"seed,omitempty"`
	// Pool decides the contents of the inputs in timed launches: reading n of a contender
	// goes through the same ones in every race with this pool. No candidate may know it
	// before it runs; empty draws one.
	Pool string `json:"pool,omitempty"`
	// Cold asks for so many sets of buffers that they drive each other out of the
	// last-level cache; else they stay in it where two do.
	Cold bool `json:"cold,omitempty"`
	// BatchNS is what one reading should take at least. A reading is several passes,
	// each of one launch on each set; right before its launch a set gets contents that
	// nobody has seen, and poisoned outputs. A contender's first launches set how
	// many passes.
	BatchNS int64 `json:"batch_ns,omitempty"`
	// Rounds are as many as are taken. Some launches of every contender but the
	// baseline, of one pass a round in the mean, are drawn after they ran; their
	// outputs are compared with the baseline's for the same contents and, where they
	// are wrong by that, with the reference's. Last asks for one round more, in which
	// all launches of a pass are compared, and one of the baseline's.
	Rounds int  `json:"rounds"`
	Last   bool `json:"last,omitempty"`
	// Longer has contenders of which few launches were timed launched on then, untimed and for LastingTime
	// at most, and looked at again.
	Longer bool `json:"longer,omitempty"`
	// Reference asks to compare a launch of the baseline with the reference in the
	// last round, whatever that takes.
	Reference bool `json:"reference,omitempty"`
	// Edges are edge-case inputs that come among what is timed, before rounds that are drawn or behind the last:
	// with each, every contender but the baseline makes one pass more, untimed, in which one launch, drawn
	// which, has these inputs.
	Edges []Edge `json:"edges,omitempty"`
	// Latencies is how many single launches are timed by the wall clock after
	// the rounds, from the call to the end of the synchronisation.
	Latencies int `json:"latencies,omitempty"`
}

// An Edge is edge-case inputs for a launch like those that are timed. Scalars are those of the race.
type Edge struct {
	Name string `json:"name"`
	// Inputs is a file with the contents of all inputs, as in [Shape]; Content says which of those in Made the
	// other launches of the pass have, 0 to MadeContents-1.
	Inputs  string `json:"inputs"`
	Content uint64 `json:"content,omitempty"`
	// Beyond is how many tolerances an output may be from the baseline's before the reference decides.
	Beyond float64 `json:"beyond"`
	// Left is where the worker writes outputs that are further off, if there is no reference on the device.
	Left string `json:"left,omitempty"`
}

// Edged is what came of an Edge.
type Edged struct {
	// Inputs is the request's.
	Inputs string `json:"inputs"`
	// Outputs are compared with those that the baseline computed from the same inputs.
	Outputs []Output `json:"outputs"`
	// Where these are Beyond, Reference compares them with the reference, with slack as in [Output], and Baseline the
	// baseline's; or Silent says why the reference has no answer.
	Reference []Output `json:"reference,omitempty"`
	Baseline  []Output `json:"baseline,omitempty"`
	Silent    string   `json:"silent,omitempty"`
	// Left is a file with all outputs of the contender and then those of the baseline, as little-endian
	// doubles, where there is no reference on the device.
	Left string `json:"left,omitempty"`
}

// LastingTime is how long a contender is launched on after what is timed, by the wall clock.
const LastingTime = 50 * time.Millisecond

// A Contender is a loaded binary and its launch.
type Contender struct {
	Binary string `json:"binary"`
	// Code is the hash of its machine code, which decides its contents in a Pool: the
	// name of a binary is another in each process.
	Code     string   `json:"code,omitempty"`
	Geometry Geometry `json:"geometry"`
}

// TimeAnswer has the readings of one request.
type TimeAnswer struct {
	Contenders []Timed `json:"contenders"`
	// Before is the state at the end of the request before this one where the
	// race goes on. Processes are in the state before a race and in that after its
	// last round alone: to list them can take as long as a round.
	Before State `json:"before"`
	After  State `json:"after"`
	// GPUNS is the time that the device spent in timed work, ElapsedNS what
	// the request took. ChoosingNS is the part of that in which vendors' routines
	// looked for their fastest algorithms: once for each shape and worker.
	GPUNS      int64 `json:"gpu_ns"`
	ElapsedNS  int64 `json:"elapsed_ns"`
	ChoosingNS int64 `json:"choosing_ns,omitempty"`
}

// Timed is one contender's part in the rounds of one request.
type Timed struct {
	Fault *Fault `json:"fault,omitempty"`
	// SamplesNS has one entry per round: nanoseconds per launch between events;
	// WallNS all passes by the wall clock, from the call to the end of the device's
	// synchronisation, less what making contents between them took; WaitedNS for how
	// long of it the worker was ready to run and had no core. Batch is the launches
	// of a reading, of all its passes.
	SamplesNS []float64 `json:"samples_ns"`
	WallNS    []float64 `json:"wall_ns"`
	WaitedNS  []float64 `json:"waited_ns"`
	Batch     int       `json:"batch"`
	// LaunchesNS is what all launches of this request took together by the wall clock, also those that are
	// not timed, without waits for a core.
	LaunchesNS int64 `json:"launches_ns,omitempty"`
	// LatencyNS are single launches, when asked for.
	LatencyNS []float64 `json:"latency_ns,omitempty"`
	// After is the worst of all that was compared since the race began. Error is
	// relative to the baseline's output or, where that is outside of the tolerance,
	// to the reference.
	After []Output `json:"after,omitempty"`
	// InputChanged names an input that is not what follows from the answer of the launch before:
	// a launch wrote to it, or changed that answer later. Guard and
	// GuardOffset are as in [ParityAnswer], of all sets.
	InputChanged string `json:"input_changed,omitempty"`
	Guard        string `json:"guard,omitempty"`
	GuardOffset  int64  `json:"guard_offset,omitempty"`
	// Edges has what came of each of the request's edge-case inputs, in the order in which they came; those
	// that would come after a wrong output are left out.
	Edges []Edged `json:"edges,omitempty"`
	// Sets is the number of sets of buffers that a pass goes through.
	Sets int `json:"sets"`
	// Said is what a vendor's routine runs here: the library's version, and which of
	// how many algorithms was the fastest.
	Said string `json:"said,omitempty"`
}

// PeaksRequest asks for the ceilings of the device, measured now.
type PeaksRequest struct {
	Harness string `json:"harness"`
}

// PeaksAnswer has operations per second by pipe ("f32", "f64", "tensor-f16",
// "tensor-bf16") and bytes per second ("copy", "read", "write", "l2").
//
// Bytes per second are as measured; a copy counts what it reads and what it
// writes. Of operations, the larger of two is given: what was measured (on
// tensor cores through mma.sync, which on sm_90 does not reach the peak), and
// what the multiprocessors can do at their highest clock by NVIDIA's figures,
// where the architecture is known. So no kernel can be faster. What was
// measured alone is under "measured-f32" and so on.
type PeaksAnswer struct {
	Peaks map[string]float64 `json:"peaks"`
}

// TelemetryRequest is empty.
type TelemetryRequest struct{}

// TelemetryAnswer is the state of the device now.
type TelemetryAnswer struct {
	State State `json:"state"`
}

// A State is what NVML reads; zero fields were not read.
type State struct {
	SMClockMHz     int      `json:"sm_clock_mhz,omitempty"`
	MemoryClockMHz int      `json:"memory_clock_mhz,omitempty"`
	PowerWatts     float64  `json:"power_watts,omitempty"`
	Celsius        int      `json:"celsius,omitempty"`
	Throttle       []string `json:"throttle,omitempty"` // the reasons, but for idle
	UsedBytes      int64    `json:"used_bytes,omitempty"`
	// Utilization is the share of the last second or less, in percent, in which
	// any kernel ran on the device, evotune's too.
	Utilization int `json:"utilization,omitempty"`
	// Others are the processes on the device besides the worker's own family,
	// when NVML tells.
	Others []Process `json:"others,omitempty"`
}

// The reasons of [State.Throttle] for which the device is slower than it was
// built to be.
const (
	HardwareSlowdown        = "hardware slowdown"
	HardwareThermalSlowdown = "hardware thermal slowdown"
	ThermalSlowdown         = "thermal slowdown"
	PowerBrake              = "power brake"
)

// A Process uses the device.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name,omitempty"`
	// Bytes is the memory that it holds, 0 when that is not known.
	Bytes int64 `json:"bytes,omitempty"`
	// Percent is the share of the time since the reading before this one, or of
	// the last second, in which a kernel of it ran; 0 when that is not known.
	Percent int `json:"percent,omitempty"`
}

// QuitRequest asks the worker to end.
type QuitRequest struct{}

// QuitAnswer is empty.
type QuitAnswer struct{}
