//go:build linux

package cuda

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
)

// fakeVariable makes the test's binary a worker that has no GPU and does what
// the candidates say.
const fakeVariable = "EVOTUNE_FAKE_WORKER"

func killOne(pid int) { _ = unix.Kill(pid, unix.SIGKILL) }

// fakeCompiler makes cubins that hold their source.
type fakeCompiler struct{}

func (fakeCompiler) version() string      { return "the compiler of the tests" }
func (fakeCompiler) identity() string     { return "fake" }
func (fakeCompiler) architectures() []int { return []int{80, 90} }
func (fakeCompiler) close()               {}

var globalEntry = regexp.MustCompile(`__global__ void (\w+)\(`)

func (fakeCompiler) compile(_ context.Context, u unit) (compiled, error) {
	stack := 0
	log := ""
	switch {
	case strings.Contains(u.source, "do: compile=error"):
		return compiled{}, &labs.Refusal{Summary: "kernel.cu(1): error: the fake refuses", Log: "kernel.cu(1): error: the fake refuses\n"}
	case strings.Contains(u.source, "do: compile=block"):
		log = "kernel.cu(1): warning: this must not be\n"
	case strings.Contains(u.source, "do: compile=wmma"):
		log = "ptxas warning : Cannot perform wmma load or store on local memory\n"
	case strings.Contains(u.source, "do: compile=stack"):
		stack = 24
	}
	smem := ", 1024 bytes smem"
	if strings.Contains(u.source, "do: racecheck=alone") {
		smem = ""
	}
	var entries []string
	for _, m := range globalEntry.FindAllStringSubmatch(u.source, -1) {
		entries = append(entries, m[1])
		log += fmt.Sprintf("ptxas info    : Compiling entry function '%s' for '%s'\nptxas info    : Function properties for %s\n"+
			"    %d bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 32 registers, used 1 barriers%s\n", m[1], u.arch, m[1], stack, smem)
	}
	if len(entries) == 0 {
		entries = []string{"harness"}
	}
	return compiled{Cubin: fakeCubin(u.source+"// flags: "+strings.Join(u.common(), " ")+"\n", entries), Log: log}, nil
}

// ptx gives the source as comments, and what the candidate wants delays around.
func (fakeCompiler) ptx(_ context.Context, u unit) (string, error) {
	var s strings.Builder
	s.WriteString(".version 8.0\n.target sm_90\n")
	for line := range strings.Lines(u.source) {
		s.WriteString("//" + strings.TrimSuffix(line, "\n") + "\n")
	}
	what := ""
	switch do := doing.FindStringSubmatch(u.source); {
	case do == nil:
	case do[1] == "schedules=waits":
		what = "mbarrier.arrive.shared.b64 _, [%r1];\n"
	case do[1] == "schedules=crowded":
		what = strings.Repeat("mov.u32 %r1, 0;\nmbarrier.arrive.shared.b64 _, [%r1];\n", 8) + "mov.u32 %r1, 0;\n"
	case do[1] == "schedules=numbered":
		what = "#line 5 \"x.ptx\"\ncp.async.bulk.wait_group 0;\n"
	case do[1] == "schedules=broken":
		what = "ld.u32 %r1, [x;\n"
	case strings.HasPrefix(do[1], "schedules="):
		what = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
	}
	for _, m := range globalEntry.FindAllStringSubmatch(u.source, -1) {
		fmt.Fprintf(&s, ".visible .entry %s()\n{\n%sret;\n}\n", m[1], what)
	}
	return s.String(), nil
}

var ptxEntry = regexp.MustCompile(`\.visible \.entry (\w+)\(`)

func (fakeCompiler) name() string { return "the assembler of the tests" }

func (fakeCompiler) assemble(_ context.Context, ptx string, _ unit) (compiled, error) {
	if strings.Contains(ptx, "do: schedules=unassembled") || strings.Contains(ptx, "do: schedules=unbearable") && strings.Contains(ptx, "nanosleep") {
		return compiled{}, &labs.Refusal{Summary: "kernel.ptx(1): error: the fake refuses", Log: "kernel.ptx(1): error: the fake refuses\n"}
	}
	var entries []string
	for _, m := range ptxEntry.FindAllStringSubmatch(ptx, -1) {
		entries = append(entries, m[1])
	}
	log := ""
	if strings.Contains(ptx, "do: schedules=serialized") {
		log = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to the fake\n"
	}
	return compiled{Cubin: fakeCubin(ptx, entries), Log: log}, nil
}

// fakeCubin is an ELF file with a section of code for every entry.
func fakeCubin(text string, entries []string) []byte {
	names := "\x00.shstrtab\x00"
	sections := []elf.Section64{{}, {Name: 1, Type: uint32(elf.SHT_STRTAB)}}
	var body bytes.Buffer
	const headerSize = 64
	for _, e := range entries {
		sections = append(sections, elf.Section64{
			Name: uint32(len(names)), Type: uint32(elf.SHT_PROGBITS), Off: uint64(headerSize + body.Len()), Size: uint64(len(text)),
		})
		names += ".text." + e + "\x00"
		body.WriteString(text)
	}
	sections[1].Off, sections[1].Size = uint64(headerSize+body.Len()), uint64(len(names))
	body.WriteString(names)
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: 190, Version: 1, Shoff: uint64(headerSize + body.Len()), Ehsize: headerSize,
		Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 1,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var out bytes.Buffer
	_ = binary.Write(&out, binary.LittleEndian, h) // a buffer takes everything
	out.Write(body.Bytes())
	_ = binary.Write(&out, binary.LittleEndian, sections)
	return out.Bytes()
}

// A fake is the worker of the tests.
type fake struct {
	out        *os.File
	tool       string
	log        string
	binaries   map[string]string // source by name
	entries    map[string]string
	also       map[string][]string // kernels loaded besides the entry
	candidates int
	race       *wire.TimeRequest // that began it
	pools      map[string]bool   // that races had
	fast, told bool
	// bare is a problem without a reference, whose answers come in files.
	bare    bool
	buffers []wire.Buffer
}

// fakeUUID is the first GPU of the workers with a folder: tests beside each other have no GPU in common.
func fakeUUID(state string) string {
	return fmt.Sprintf("GPU-fake%08x", crc32.ChecksumIEEE([]byte(state)))
}

func fakeWorker() int {
	f := &fake{out: os.Stdout, tool: os.Getenv("EVOTUNE_FAKE_TOOL"), log: os.Getenv("EVOTUNE_FAKE_LOG"), binaries: map[string]string{}, entries: map[string]string{}, also: map[string][]string{}, pools: map[string]bool{}}
	f.report("========= COMPUTE-SANITIZER")
	in := bufio.NewReader(os.Stdin)
	for {
		kind, body, err := wire.Read(in)
		if err != nil {
			return 0
		}
		answer, end := f.answer(kind, body)
		if failure, ok := answer.(wire.Failure); ok {
			kind = wire.Failed
			end = end || failure.Fatal
		}
		if err := wire.Write(f.out, kind, answer); err != nil {
			return 1
		}
		if end {
			return 0
		}
	}
}

// faststart says whether this is the first process that asks.
func (f *fake) faststart() bool {
	f.fast = f.fast || first1("faststart")
	return f.fast
}

// report writes to the tool's log.
func (f *fake) report(lines ...string) {
	if f.log == "" {
		return
	}
	file, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(file, strings.Join(lines, "\n"))
	file.Close()
}

func into[T any](body []byte) T {
	v, err := wire.Decode[T](body)
	if err != nil {
		panic(err)
	}
	return v
}

var doing = regexp.MustCompile(`// do: (\S+)`)

// do says what a binary wants done in a stage: "parity", "memcheck", "time".
func (f *fake) do(binary, stage string) string {
	m := doing.FindStringSubmatch(f.binaries[binary])
	if m == nil {
		return ""
	}
	do, ok := strings.CutPrefix(m[1], stage+"=")
	if !ok {
		return ""
	}
	return do
}

func (f *fake) source(binary string) string { return f.binaries[binary] }

var (
	fatal   = &wire.Fault{Call: "cuCtxSynchronize", Code: 700, Name: "CUDA_ERROR_ILLEGAL_ADDRESS", Fatal: true}
	long    = (21 * time.Second).Nanoseconds() // more than all launches may take
	invalid = &wire.Fault{Call: "cuLaunchKernel", Code: 1, Name: "CUDA_ERROR_INVALID_VALUE"}
)

// end does what no answer comes of.
func (f *fake) end(do string) {
	switch do {
	case "hang":
		time.Sleep(time.Hour)
	case "dawdle":
		time.Sleep(4 * time.Second)
	case "die":
		killOne(os.Getpid())
		time.Sleep(time.Hour)
	case "garbage":
		fmt.Fprintln(f.out, "Segmentation fault, said a library to the wrong stream")
		time.Sleep(10 * time.Millisecond)
	case "otherkind":
		_ = wire.Write(f.out, wire.Launch, wire.LaunchAnswer{})
	}
}

// first says whether something happens for the first time.
func first1(name string) bool {
	f, err := os.OpenFile(filepath.Join(os.Getenv("EVOTUNE_FAKE_STATE"), name), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// launched leaves what it was asked to launch of several kernels for a test to read.
func launched(kind wire.Kind, binary string, g wire.Geometry) {
	if len(g.Then) > 0 {
		file := filepath.Join(os.Getenv("EVOTUNE_FAKE_STATE"), fmt.Sprintf("launched-%s-%s", kind, binary))
		_ = os.WriteFile(file, []byte(g.String()), 0o600)
	}
}

// apart notes when timed work and any other work are under way together: both leave
// a file while they are, and look for those of the others.
func apart(kind wire.Kind) func() {
	dir := os.Getenv("EVOTUNE_FAKE_APART")
	mine, others := "shared-", "timed-"
	switch kind {
	case wire.Time:
		mine, others = others, mine
	case wire.Parity, wire.Launch:
	default:
		return func() {}
	}
	if dir == "" {
		return func() {}
	}
	path := filepath.Join(dir, fmt.Sprint(mine, os.Getpid()))
	_ = os.WriteFile(path, nil, 0o600)
	look := func() {
		if kind == wire.Time {
			starting, _ := filepath.Glob(filepath.Join(dir, "starting-*"))
			for _, f := range starting {
				var pid int
				if _, err := fmt.Sscanf(filepath.Base(f), "starting-%d", &pid); err == nil && !standsStill(pid) {
					_ = os.WriteFile(filepath.Join(dir, fmt.Sprint("clash-", filepath.Base(path), "-", filepath.Base(f))), nil, 0o600)
				}
			}
		}
		found, _ := filepath.Glob(filepath.Join(dir, others+"*"))
		if kind == wire.Time {
			timed, _ := filepath.Glob(filepath.Join(dir, mine+"*"))
			found = append(found, timed...)
		}
		for _, f := range found {
			var pid int
			_, of, _ := strings.Cut(filepath.Base(f), "-")
			if _, err := fmt.Sscanf(of, "%d", &pid); err == nil && pid != os.Getpid() && !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
				_ = os.WriteFile(filepath.Join(dir, fmt.Sprint("clash-", filepath.Base(path), "-", filepath.Base(f))), nil, 0o600)
			}
		}
	}
	look()
	return func() {
		look()
		_ = os.Remove(path)
	}
}

// start takes its time, and leaves a file meanwhile.
func (f *fake) start(d time.Duration) {
	if dir := os.Getenv("EVOTUNE_FAKE_APART"); dir != "" {
		path := filepath.Join(dir, fmt.Sprint("starting-", os.Getpid()))
		_ = os.WriteFile(path, nil, 0o600)
		defer os.Remove(path)
	}
	for ; d > 0; d -= time.Millisecond {
		time.Sleep(time.Millisecond)
	}
}

// reach notes whether it is kept from a file and from the network. It fails
// where the file is what it needs, under a tool or, without a name, by itself.
func (f *fake) reach() error {
	if _, service, ok := strings.Cut(os.Getenv("EVOTUNE_FAKE_SERVICE"), ":"); ok {
		return os.WriteFile(filepath.Join(os.Getenv("EVOTUNE_FAKE_STATE"), "reach-"+f.tool), []byte(reached(strings.Split(service, ","))), 0o600)
	}
	tool, path, ok := strings.Cut(os.Getenv("EVOTUNE_FAKE_FILE"), ":")
	if !ok {
		return nil
	}
	_, err := os.ReadFile(path)
	if tool == "all" {
		fd, refused := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		_ = unix.Close(fd)
		note := fmt.Sprintln(errors.Is(err, unix.EACCES), errors.Is(refused, unix.EACCES))
		return os.WriteFile(filepath.Join(os.Getenv("EVOTUNE_FAKE_STATE"), "reach-"+f.tool), []byte(note), 0o600)
	}
	if tool != f.tool {
		return nil
	}
	return err
}

// reached lists what a worker can reach of a service, by its folder, its port, its
// process and another one.
func reached(service []string) (text string) {
	could := func(what string, err error) {
		if err == nil {
			text += "it could " + what + "\n"
		}
	}
	dir := service[0]
	for _, name := range []string{"store", "token", "public"} {
		_, err := os.ReadFile(filepath.Join(dir, name))
		could("read "+name, err)
		could("truncate "+name, os.Truncate(filepath.Join(dir, name), 0))
		could("remove "+name, os.Remove(filepath.Join(dir, name)))
	}
	could("make a file", os.WriteFile(filepath.Join(dir, "made"), nil, 0o600))
	for kind, name := range map[int]string{unix.SOCK_STREAM: filepath.Join(dir, "socket"), unix.SOCK_SEQPACKET: "@evotune-packets-" + service[1]} {
		fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
		if err == nil {
			if err = unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err == nil {
				err = backendtest.Answered(fd)
			}
			_ = unix.Close(fd)
		}
		could("connect to "+name, err)
	}
	_, err := net.Dial("tcp4", "127.0.0.1:"+service[1])
	could("connect to the port", err)
	for _, process := range service[2:] {
		pid, _ := strconv.Atoi(process)
		could("signal "+process, unix.Kill(pid, unix.SIGUSR1))
		could("trace "+process, unix.PtraceSeize(pid))
		could("limit "+process, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 9, Max: 9}, nil))
		for _, name := range []string{"mem", "environ", "maps"} {
			f, err := os.Open("/proc/" + process + "/" + name)
			could("open "+name+" of "+process, err)
			_ = f.Close()
		}
	}
	for _, v := range os.Environ() {
		if strings.Contains(v, backendtest.Secret) {
			could("read "+v, nil)
		}
	}
	for fd := range 100 {
		b := make([]byte, 100)
		if n, err := unix.Pread(fd, b, 0); err == nil && strings.Contains(string(b[:n]), backendtest.Secret) {
			could(fmt.Sprint("read descriptor ", fd), nil)
		}
	}
	return text + "tried\n"
}

// input is an element of a buffer without a reference: of w that of its file, if it has
// one.
func (f *fake) input(s wire.Shape, seed uint64, buffer, i int) float64 {
	if f.buffers[buffer].Distribution != wire.Made {
		return float64(i+1) / 7 * float64(1+buffer)
	}
	made, err := readElements(s.Made, f.buffers[buffer].DType)
	if n := int(s.Elements[buffer]); err == nil && len(made) == wire.MadeContents*n {
		return made[int(seed%wire.MadeContents)*n+i]
	}
	return math.NaN() // with which nothing is expected
}

// expected looks whether a file has what the reference in C makes of the inputs: twice
// one and once the other, x and w or these exchanged.
func (f *fake) expected(s wire.Shape, seed uint64, file string, x, w int, last ...int64) error {
	if !f.bare {
		if file != "" {
			return errors.New("the reference is on the device, and a file has its outputs")
		}
		return nil
	}
	got, err := readElements(file, "f64")
	if err != nil {
		return err
	}
	n, sets := int(s.Elements[0]), 1
	inputs := make([]float64, 0, 2*n)
	if s.Inputs == "" {
		for b := range 2 {
			for i := range n {
				inputs = append(inputs, f.input(s, seed, b, i))
			}
		}
	} else {
		sets = 3 // as they are, and twice elsewhere by some roundings
		if inputs, err = readElements(s.Inputs, f.buffers[0].DType); err != nil {
			return err
		}
	}
	if len(inputs) != 2*n || len(got) != sets*n {
		return fmt.Errorf("%d inputs, %d outputs of %d elements", len(inputs), len(got), n)
	}
	for b, row := range last {
		for i := 0; row > 0 && i < n; i += 8 { // one row
			inputs[b*n+i] = inputs[b*n+min(i+1, n-2)]
		}
	}
	for k := range sets {
		moved := k == 0 || !slices.ContainsFunc(inputs, func(v float64) bool { return v != 0 })
		for i := range n {
			want, off := 2*inputs[x*n+i]+inputs[w*n+i], 0.0
			if k > 0 {
				off = 0x1p-18 * (2*math.Abs(inputs[x*n+i]) + math.Abs(inputs[w*n+i]))
			}
			if !(math.Abs(got[n*k+i]-want) <= off) && !(math.IsNaN(want) && math.IsNaN(got[n*k+i])) {
				return fmt.Errorf("set %d, element %d: %g, want %g", k, i, got[n*k+i], want)
			}
			moved = moved || got[n*k+i] != want
		}
		if !moved {
			return fmt.Errorf("set %d is that of the inputs as they are", k)
		}
	}
	first1(fmt.Sprint("expected-", s.Name, "-", s.Inputs != "", "-", x, "-", len(last)))
	return nil
}

func (f *fake) answer(kind wire.Kind, body []byte) (answer any, end bool) {
	defer apart(kind)()
	switch kind {
	case wire.Hello:
		twice := os.Getenv("EVOTUNE_FAKE_TWICE") // the tool under which no more than two start
		if os.Getenv("EVOTUNE_FAKE_HELLO") == "fails" || os.Getenv("EVOTUNE_FAKE_HELLO") == "fails-"+os.Getenv("CUDA_VISIBLE_DEVICES") || twice != "" && twice == f.tool && !first1("hello-1") && !first1("hello-2") {
			return wire.Failure{Error: "no device", Fatal: true}, true
		}
		driver, capability := 13000, 90
		for name, to := range map[string]*int{"DRIVER": &driver, "CAPABILITY": &capability} {
			if n, err := strconv.Atoi(os.Getenv("EVOTUNE_FAKE_" + name)); err == nil {
				*to = n
			}
		}
		uuid := fakeUUID(os.Getenv("EVOTUNE_FAKE_STATE"))
		if v := os.Getenv("CUDA_VISIBLE_DEVICES"); v != "" && v != "0" && v != uuid { // another of the same
			uuid += "-" + strings.TrimPrefix(v, uuid+"-")
		}
		return wire.HelloAnswer{Version: wire.Version, PID: os.Getpid(), Device: wire.Device{
			Name: "Fake GPU", UUID: uuid, Capability: capability, SMs: 4, L2Bytes: 1 << 20, MemoryBytes: 8 << 30, SharedOptin: 227 << 10,
			RegistersSM: 65536, ThreadsSM: 2048, CUDADriver: driver, DriverString: "580.0", Mapping: os.Getenv("EVOTUNE_FAKE_MAPPING") != "none",
		}}, false
	case wire.Open:
		f.binaries, f.race = map[string]string{}, nil
		r := into[wire.OpenRequest](body)
		f.bare, f.buffers = r.Reference == "", r.Buffers
		if err := f.reach(); err != nil {
			return wire.Failure{Error: err.Error(), Fatal: true}, true
		}
		if d, err := time.ParseDuration(os.Getenv("EVOTUNE_FAKE_START")); err == nil && f.tool == racecheck {
			f.start(d)
		}
		return wire.OpenAnswer{}, false
	case wire.Load:
		r := into[wire.LoadRequest](body)
		if r.Routine != "" {
			text, err := []byte("13.1.0"), error(nil)
			if !strings.HasPrefix(r.Routine, "cublas") {
				text, err = os.ReadFile(r.Library) // its version, and whether it refuses or fails
			}
			version, rest, _ := strings.Cut(string(text), " ")
			if err != nil || version == "fails" {
				return wire.Failure{Error: "no such library"}, false
			}
			a := wire.LoadAnswer{Version: cmp.Or(version, "9.9.9"), Refused: map[string]string{}}
			for _, s := range r.Shapes {
				if which := os.Getenv("EVOTUNE_FAKE_REFUSES"); s.Name == which || which == "all" || rest == "refuses" {
					a.Refused[s.Name] = "not this one"
				}
			}
			f.binaries[r.Name], f.entries[r.Name] = r.Routine, r.Routine
			return a, false
		}
		file, err := elf.Open(r.Cubin)
		if err != nil {
			return wire.Failure{Error: err.Error()}, false
		}
		defer file.Close()
		section := file.Section(".text." + r.Entry)
		if section == nil || slices.ContainsFunc(r.Also, func(name string) bool { return file.Section(".text."+name) == nil }) {
			return wire.LoadAnswer{Fault: &wire.Fault{Call: "cuModuleGetFunction", Code: 500, Name: "CUDA_ERROR_NOT_FOUND"}}, false
		}
		text, err := section.Data()
		if err != nil {
			return wire.Failure{Error: err.Error()}, false
		}
		f.binaries[r.Name], f.entries[r.Name] = string(text), r.Entry
		f.also[r.Name] = r.Also
		if f.do(r.Name, "load") == "fault" {
			return wire.LoadAnswer{Fault: &wire.Fault{Call: "cuFuncSetAttribute", Code: 1, Name: "CUDA_ERROR_INVALID_VALUE"}}, false
		}
		if strings.HasPrefix(r.Name, "candidate") {
			f.candidates++
		}
		return wire.LoadAnswer{Registers: 32}, false
	case wire.Unload:
		name := into[wire.UnloadRequest](body).Name
		delete(f.binaries, name)
		if f.race != nil && slices.ContainsFunc(f.race.Contenders, func(c wire.Contender) bool { return c.Binary == name }) {
			f.race = nil
		}
		return wire.UnloadAnswer{}, false
	case wire.Parity:
		return f.parity(into[wire.ParityRequest](body))
	case wire.Control:
		r := into[wire.ControlRequest](body)
		if os.Getenv("EVOTUNE_FAKE_CONTROL") == "silent" && r.Seed == 99 {
			return wire.ControlAnswer{Silent: "nothing is finite there"}, false
		}
		err := f.expected(r.Shape, r.Seed, r.Shape.Outputs, 0, 1)
		if err == nil && r.Kind == "swap" {
			err = f.expected(r.Shape, r.Seed, r.Answer, 1, 0)
		} else if err == nil && r.Kind == "left out" {
			err = f.expected(r.Shape, r.Seed, r.Answer, 0, 1, r.Last...)
		}
		if err != nil {
			return wire.Failure{Error: err.Error()}, false
		}
		e := wire.Number(1)
		if os.Getenv("EVOTUNE_FAKE_CONTROL") == "passes" {
			e = 1e-6
		}
		return wire.ControlAnswer{Outputs: []wire.Output{{Name: "y", Error: e, Limit: 1e-5}}}, false
	case wire.Reference:
		r := into[wire.ReferenceRequest](body)
		n := int(r.Shape.Elements[0])
		if r.InputsOnly != f.bare {
			return wire.Failure{Error: "there is no reference here"}, false
		}
		if r.InputsOnly {
			var dump []byte
			for b, buffer := range f.buffers {
				for i := range n {
					v := 0.0
					if buffer.Role == "in" {
						v = f.input(r.Shape, r.Seed, b, i)
					}
					dump = binary.LittleEndian.AppendUint64(dump, math.Float64bits(v))
				}
			}
			if err := os.WriteFile(r.File, dump, 0o600); err != nil {
				return wire.Failure{Error: err.Error()}, false
			}
			return wire.ReferenceAnswer{}, false
		}
		var dump []byte
		put := func(v float64) { dump = binary.LittleEndian.AppendUint64(dump, math.Float64bits(v)) }
		for i := range n {
			put(float64(i) / 7)
		}
		for range n {
			put(0)
		}
		for i := range n {
			v := 2 * (float64(i) / 7)
			if os.Getenv("EVOTUNE_FAKE_REFERENCE") == "wrong" && i == n-1 {
				v *= 1 + 1e-8
			}
			put(v)
		}
		if err := os.WriteFile(r.File, dump, 0o600); err != nil {
			return wire.Failure{Error: err.Error()}, false
		}
		return wire.ReferenceAnswer{}, false
	case wire.Launch:
		return f.launch(into[wire.LaunchRequest](body))
	case wire.Time:
		return f.time(into[wire.TimeRequest](body))
	case wire.Peaks:
		return wire.PeaksAnswer{Peaks: map[string]float64{"f32": 1e12, "read": 1e12, "l2": 4e12}}, false
	case wire.Telemetry:
		a := wire.TelemetryAnswer{State: wire.State{SMClockMHz: 1980, MemoryClockMHz: 2619, PowerWatts: 120, Celsius: 35}}
		// As with NVML, a second look so soon sees no new sample.
		if percent, err := strconv.Atoi(os.Getenv("EVOTUNE_FAKE_OTHER")); err == nil {
			if f.told {
				percent = 0
			}
			a.State.Others = []wire.Process{{PID: 812, Name: "python3", Bytes: 3 << 30, Percent: percent}}
			f.told = true
		}
		return a, false
	case wire.Quit:
		return wire.QuitAnswer{}, true
	}
	return wire.Failure{Error: "unknown kind " + string(kind)}, false
}

// launchedAs is what Triton says of the launch.
var launchedAs = regexp.MustCompile(`// launch: (\d+) (\d+)`)

func (f *fake) parity(r wire.ParityRequest) (any, bool) {
	f.race = nil
	launched(wire.Parity, r.Binary, r.Geometry)
	for _, k := range r.Geometry.Then {
		if !slices.Contains(f.also[r.Binary], k.Entry) {
			return wire.Failure{Error: "no kernel " + k.Entry + " is loaded"}, false
		}
	}
	if m := launchedAs.FindStringSubmatch(f.source(r.Binary)); m != nil && (m[1] != fmt.Sprint(r.Geometry.Block[0]) || m[2] != fmt.Sprint(r.Geometry.Shared)) {
		return wire.Failure{Error: fmt.Sprintf("it is launched as %+v, expected %s threads and %s bytes", r.Geometry, m[1], m[2])}, false
	}
	do := f.do(r.Binary, "parity")
	if r.Mapped != "" { // "guards=end": what it does where buffers end
		do, _ = strings.CutPrefix(f.do(r.Binary, guards), r.Mapped+"-")
		if do == "nowhere" {
			return wire.ParityAnswer{NotMapped: "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2)"}, false
		}
	}
	f.end(do)
	if f.do(r.Binary, "worker") == "flaky" && first1("flaky-parity") {
		f.end("die")
	}
	if strings.Contains(f.source(r.Binary), "nanosleep") {
		if r.Repeat != delayedLaunches {
			return wire.Failure{Error: fmt.Sprintf("%d launches with delays", r.Repeat)}, false
		}
		do = f.do(r.Binary, schedules)
		if do == "large" && r.Shape.Name != "small" {
			do = "different"
		}
		f.end(do)
		out := &wire.Fault{Call: "cuLaunchKernelEx", Code: 701, Name: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}
		switch delays := strings.Count(f.source(r.Binary), "nanosleep"); {
		case do == "tight", do == "crowded" && delays > 7:
			return wire.ParityAnswer{Fault: out}, false
		case do == "cooperative":
			out.Code, out.Name = 720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"
			return wire.ParityAnswer{Fault: out}, false
		}
	}
	if trial, _, _ := strings.Cut(r.Binary, "-"); trial == "clean" || trial == schedules {
		a := wire.ParityAnswer{Outputs: []wire.Output{{Name: "out", Limit: 1}}}
		if blind := os.Getenv("EVOTUNE_FAKE_BLIND"); trial == schedules && blind != schedules && blind != r.Binary || trial == "clean" && blind == "clean" {
			a.Different = 5
		}
		return a, false
	}
	if err := f.expected(r.Shape, r.Seed, r.Shape.Outputs, 0, 1); err != nil {
		return wire.Failure{Error: err.Error()}, false
	}
	if in := r.Shape.Inputs; in != "" { // of x alone
		if info, err := os.Stat(in); err != nil || !f.bare && info.Size() != wire.ElementBytes(f.buffers[0].DType)*r.Shape.Elements[0] {
			return wire.Failure{Error: fmt.Sprint("inputs: ", info, err)}, false
		}
		if do == "bitten" {
			do = "wrong"
		}
	}
	if strings.Contains(f.source(r.Binary), "do: slow") {
		time.Sleep(10 * time.Millisecond)
	}
	o := wire.Output{Name: "y", Error: 1e-7, Limit: 1e-5, RMS: 1, Elements: r.Shape.Elements[1]}
	if os.Getenv("EVOTUNE_FAKE_BASELINE") == "wrong" {
		do = "wrong"
	}
	a := wire.ParityAnswer{}
	y := f.buffers[slices.IndexFunc(f.buffers, func(b wire.Buffer) bool { return b.Name == "y" })]
	if y.UnwrittenNaN {
		o.Skipped = o.Elements / 2
		if os.Getenv("EVOTUNE_FAKE_BASELINE") == "skips" {
			o.Skipped++
		}
		if os.Getenv("EVOTUNE_FAKE_BASELINE") == "writes" {
			o.Surplus = 3
		}
	}
	if y.Repeat > 0 && r.Repeat > 1 {
		a.Apart = wire.Number(y.Repeat / 4)
	}
	switch do {
	case "wrong":
		o.Error = 0.5
	case "nan":
		o.Error, o.NotFinite = wire.Number(math.NaN()), 3
	case "unwritten":
		o.Error, o.NotFinite, o.Unwritten = wire.Number(math.NaN()), 5, 5
	case "guard":
		a.Guard, a.GuardOffset = "y", 260
	case "input":
		a.InputChanged = "x"
	case "different":
		a.Different = 2
	case "fault":
		return wire.ParityAnswer{Fault: invalid}, false
	case "fatal":
		return wire.ParityAnswer{Fault: fatal}, true
	case "assert":
		if !strings.Contains(f.source(r.Binary), "-DNDEBUG") {
			for thread := range 3 {
				fmt.Fprintf(os.Stderr, "kernel.cu:3: void fake(): block: [0,0,0], thread: [%d,0,0] Assertion `i < N` failed.\n", thread)
			}
			return wire.ParityAnswer{Fault: &wire.Fault{Call: "cuCtxSynchronize", Code: 710, Name: "CUDA_ERROR_ASSERT", Fatal: true}}, true
		}
	case "prints": // more than a pipe holds
		fmt.Fprint(os.Stderr, strings.Repeat(fmt.Sprintf("evotune/%d parity 2\n{}\nAssertion of nothing\n", wire.Version), 20_000))
	case "refuse":
		return wire.Failure{Error: "the fake has no memory"}, false
	case "long":
		a.ElapsedNS = long
	}
	a.Outputs = []wire.Output{o}
	return a, false
}

func (f *fake) launch(r wire.LaunchRequest) (any, bool) {
	found := map[string]string{
		memcheck:  "========= Invalid __global__ write of size 4 bytes",
		racecheck: "========= Error: Race reported between Write access at 0x120 in fake and Read access at 0x150 in fake [1 hazards]",
		synccheck: "========= Barrier error detected. Divergent thread(s) in warp.",
		initcheck: "========= Uninitialized __global__ memory read of size 4 bytes",
	}[f.tool]
	details := []string{found, "=========     at 0x2d0 in fake", "=========     by thread (0,0,0) in block (0,0,0)", "========= "}
	launched(wire.Launch, r.Binary, r.Geometry)
	do := f.do(r.Binary, f.tool)
	if strings.HasPrefix(r.Binary, "candidate") {
		first1(fmt.Sprintf("watched-%s-%s-%s-%v%v%v", f.tool, r.Binary, r.Shape.Name, r.Shape.Dims, r.Shape.Elements, r.Geometry.Grid))
	}
	if do == "at-"+r.Shape.Name {
		do = "report"
	}
	planted := f.entries[r.Binary] == f.tool && os.Getenv("EVOTUNE_FAKE_BLIND") != f.tool
	late := os.Getenv("EVOTUNE_FAKE_LATE") == f.tool
	switch {
	case (planted || do == "report") && late:
		// As a tool whose output lies in a buffer until the end.
		return wire.LaunchAnswer{}, f.later(details)
	case planted || do == "report":
		f.report(details...)
		return wire.LaunchAnswer{}, false
	case do == "flood":
		for range 200_000 {
			f.report(details...)
		}
	case do == "late":
		go func() {
			time.Sleep(2 * time.Millisecond)
			f.report(details...)
		}()
		time.Sleep(time.Millisecond)
		return wire.LaunchAnswer{Fault: fatal}, false
	case do == "noise":
		f.report("========= ", "=========     Saved host backtrace up to driver entry point")
	case do == "fatal":
		return wire.LaunchAnswer{Fault: fatal}, true
	case do == "long":
		return wire.LaunchAnswer{ElapsedNS: long}, false
	}
	f.end(do)
	return wire.LaunchAnswer{ElapsedNS: 1000}, false
}

// later writes the report when the process is asked to end.
func (f *fake) later(lines []string) bool {
	_ = wire.Write(f.out, wire.Launch, wire.LaunchAnswer{ElapsedNS: 1000})
	in := bufio.NewReader(os.Stdin)
	if kind, _, err := wire.Read(in); err == nil && kind == wire.Quit {
		f.report(lines...)
		_ = wire.Write(f.out, wire.Quit, wire.QuitAnswer{})
	}
	os.Exit(0)
	return true
}

// time takes rounds of a race. It is as strict as the worker about what a race is.
func (f *fake) time(r wire.TimeRequest) (any, bool) {
	if r.Rounds < 0 || r.Rounds == 0 && !r.Last || r.Continue && f.race == nil || !r.Continue && (len(r.Contenders) == 0 || r.BatchNS < 1) {
		return wire.Failure{Error: fmt.Sprintf("no race: %+v", r)}, false
	}
	if !r.Continue {
		f.race = &r
		if len(r.Contenders) > 1 && (r.Pool == "" || f.pools[r.Pool]) {
			return wire.Failure{Error: fmt.Sprintf("pool %q is none, or was used", r.Pool)}, false
		}
		if slices.ContainsFunc(r.Contenders, func(c wire.Contender) bool { return len(c.Code) < 64 }) {
			return wire.Failure{Error: fmt.Sprintf("contenders without the hash of their code: %+v", r.Contenders)}, false
		}
		f.pools[r.Pool] = true
	}
	if f.bare && r.Reference {
		return wire.Failure{Error: "there is no reference to compare with"}, false
	}
	// Twice the work takes twice the time.
	a := wire.TimeAnswer{
		GPUNS: 1_500_000, Before: wire.State{SMClockMHz: 1980}, After: wire.State{SMClockMHz: 1965, PowerWatts: 300, Celsius: 40},
	}
	contenders := len(f.race.Contenders)
	for n, c := range f.race.Contenders {
		if _, ok := f.binaries[c.Binary]; !ok && c.Binary != "baseline-0" {
			return wire.Failure{Error: "no binary " + c.Binary}, false
		}
		launched(wire.Time, c.Binary, c.Geometry)
		do := f.do(c.Binary, "time")
		f.end(do)
		const batch = 100
		t := wire.Timed{Batch: batch, Sets: 3}
		if n == 0 { // of a vendor's library
			t.Said = os.Getenv("EVOTUNE_FAKE_SAID")
		}
		if n > 0 || r.Last {
			t.After = []wire.Output{{Name: "y", Error: 1e-7, Limit: 1e-5, Elements: f.race.Shape.Elements[1]}}
			if os.Getenv("EVOTUNE_FAKE_BASELINE") == "writes later" && r.Reference {
				t.After[0].Skipped, t.After[0].Surplus = 8, 3
			}
		}
		if n > 0 {
			var err error
			if t.Edges, err = f.edges(r.Edges, n, do); err != nil {
				return wire.Failure{Error: err.Error()}, false
			}
		}
		ns, wall := 10_000.0, 10_100.0
		switch {
		case strings.Contains(f.source(c.Binary), "do: slow"):
			ns, wall = 20_000, 20_100
		case do == "fast", do == "faststart" && f.faststart():
			ns, wall = 1, 1.01
		case do == "clock":
			wall = 15_000
		case do == "after" && n > 0:
			t.After[0].Error = 0.25
		case do == "last" && r.Last, do == "tires" && r.Longer:
			t.After[0].Error = 0.25
		case do == "guard" && n > 0:
			t.Guard, t.GuardOffset = "y", -4
		case do == "input" && n > 0:
			t.InputChanged = "x"
		case do == "long" && n > 0:
			t.LaunchesNS = long
		case do == "fault" && n > 0, do == "fatal":
			f.race = nil
			a.Contenders = append(a.Contenders, wire.Timed{Fault: map[string]*wire.Fault{"fault": invalid, "fatal": fatal}[do]})
			a.Contenders = append(a.Contenders, make([]wire.Timed, contenders-n-1)...)
			return a, do == "fatal"
		}
		rounds := r.Rounds
		if r.Last {
			rounds++
		}
		for i := range rounds {
			wobble := 1 + 0.001*float64((i*7)%5)
			t.SamplesNS, t.WallNS = append(t.SamplesNS, ns*wobble), append(t.WallNS, batch*wall*wobble)
		}
		for range r.Latencies {
			t.LatencyNS = append(t.LatencyNS, 15_000)
		}
		a.Contenders = append(a.Contenders, t)
	}
	time.Sleep(2 * time.Millisecond)
	return a, false
}

// edges answers for edge-case inputs, of x and of w if that is there. A candidate that is "bitten" is wrong on them,
// one that is "grazed" off by less than counts.
func (f *fake) edges(asked []wire.Edge, contender int, do string) (list []wire.Edged, err error) {
	s := f.race.Shape
	for _, e := range asked {
		raw, err := os.ReadFile(e.Inputs)
		n, in := int(s.Elements[0]), 0
		for i, b := range f.buffers {
			if b.Role == "in" {
				in += int(wire.ElementBytes(b.DType) * s.Elements[i])
			}
		}
		if err != nil {
			return nil, err
		}
		if len(raw) != in {
			return nil, fmt.Errorf("edge-case inputs %q: %d bytes, want %d", e.Name, len(raw), in)
		}
		first1("edge-" + e.Name)
		off := map[string]wire.Number{"bitten": 0.5, "grazed": wire.Number(e.Beyond * 0.9e-5)}[do]
		baseline := os.Getenv("EVOTUNE_FAKE_BASELINE") == "bitten"
		a := wire.Edged{Inputs: e.Inputs, Outputs: []wire.Output{{Name: "y", Error: off, Limit: 1e-5}}}
		if baseline {
			a.Outputs[0].Error = 0.25
		}
		switch far := a.Outputs[0].Error > 1e-4; {
		case far && f.bare:
			in := wire.Elements(raw, f.buffers[0].DType)
			var left []float64
			for side := range 2 {
				for i := range n {
					y := 2*in[i] + in[n+i]
					if side == 0 && do == "bitten" || side == 1 && baseline {
						y++
					}
					left = append(left, y)
				}
			}
			a.Left = fmt.Sprintf("%s-%d", e.Left, contender)
			if err := os.WriteFile(a.Left, wire.AppendDoubles(nil, left), 0o600); err != nil {
				return nil, err
			}
		case far:
			a.Reference, a.Baseline = []wire.Output{{Name: "y", Error: off, Limit: 1e-5}}, []wire.Output{{Name: "y", Limit: 1e-5}}
			if baseline {
				a.Baseline[0].Error = 0.25
			}
		}
		list = append(list, a)
	}
	return list, nil
}

func readElements(path, dtype string) ([]float64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return wire.Elements(raw, dtype), nil
}
