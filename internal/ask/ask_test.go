package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

func mustKernel(t testing.TB, name string) *kernels.Definition {
	t.Helper()
	d, err := kernels.Load(kernels.Builtin(), name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The devices of the tests. The second H200 is the first with another driver.
func gpuDevice(name, fingerprint, capability, uuid string) evaluator.Device {
	return evaluator.Device{Name: name, Kind: "cuda", Fingerprint: fingerprint, Facts: map[string]string{"capability": capability, "uuid": uuid}}
}

func cpuDevice(name, fingerprint, architecture, flags string) evaluator.Device {
	return evaluator.Device{Name: name, Kind: "cpu", Fingerprint: fingerprint, Facts: map[string]string{"architecture": architecture, "flags": flags}}
}

var (
	h200  = gpuDevice("NVIDIA H200", "aaaa0001", "9.0", "GPU-1 GPU-2")
	h200b = gpuDevice("NVIDIA H200", "aaaa0002", "9.0", "GPU-1")
	h200c = gpuDevice("NVIDIA H200", "aaaa0003", "9.0", "GPU-9")
	h100  = gpuDevice("NVIDIA H100", "bbbb0001", "9.0", "GPU-3")
	a100  = gpuDevice("NVIDIA A100", "cccc0001", "8.0", "GPU-4")
	a10   = gpuDevice("NVIDIA A10", "cccc0002", "8.6", "GPU-5")
	epyc  = cpuDevice("AMD EPYC", "dddd0001", "amd64", "fpu avx avx2 fma avx512f")
	xeon  = cpuDevice("Intel Xeon", "dddd0002", "amd64", "vmx fma avx2 avx avx512f")
	old   = cpuDevice("Intel Core", "dddd0003", "amd64", "fpu avx")
	arm   = cpuDevice("Neoverse", "eeee0001", "arm64", "asimd sve")
)

func TestCompareDevices(t *testing.T) {
	devices := []evaluator.Device{h200, h200b, h200c, h100, a100, a10, epyc, xeon, old, arm}
	want := []string{
		"device uuid name capability other other other other other other",
		"uuid device name capability other other other other other other",
		"name name device capability other other other other other other",
		"capability capability capability device other other other other other other",
		"other other other other device family other other other other",
		"other other other other family device other other other other",
		"other other other other other other device capability family other",
		"other other other other other other capability device family other",
		"other other other other other other family family device other",
		"other other other other other other other other other device",
	}
	for i, a := range devices {
		var got []string
		for _, b := range devices {
			got = append(got, CompareDevices(a, b).String())
		}
		if s := strings.Join(got, " "); s != want[i] {
			t.Errorf("%s (%s): %s, want %s", a.Name, a.Fingerprint, s, want[i])
		}
	}
	for _, kind := range []string{"cpu", "cuda", "recorded"} {
		unknown := evaluator.Device{Kind: kind}
		if r := CompareDevices(unknown, unknown); r != OtherDevice {
			t.Errorf("two unknown devices: %s", r)
		}
	}
}

func TestFindDevice(t *testing.T) {
	known := []evaluator.Device{h200, h200b, h100, a100, a10, epyc}
	for text, want := range map[string]string{
		"aaaa0002": "NVIDIA H200 aaaa0002", "GPU-2": "NVIDIA H200 ", "nvidia h200": "NVIDIA H200 ", "h200": "NVIDIA H200 ",
		"NVIDIA A10": "NVIDIA A10 cccc0002", "epyc": "AMD EPYC dddd0001", "bbbb": "NVIDIA H100 bbbb0001",
	} {
		d, err := FindDevice(known, text)
		if got := d.Name + " " + d.Fingerprint; err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"A10":  "it may be any of NVIDIA A10 (cccc0002), NVIDIA A100 (cccc0001)",
		"cccc": "write the fingerprint",
		"b300": `no device is called "b300": there are AMD EPYC (dddd0001), NVIDIA A10 (cccc0002)`,
		"":     "no device",
		"GPU-": "no device",
	} {
		if d, err := FindDevice(known, text); !errors.Is(err, ErrDevice) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, d.Name, err, want)
		}
	}
	if _, err := FindDevice(nil, "x"); err == nil || !strings.Contains(err.Error(), "there are none") {
		t.Errorf("none known: %v", err)
	}
	// A name that several fingerprints have serves by name, not by the UUID of one.
	if d, _ := FindDevice(known, "h200"); CompareDevices(d, h200) != SameName || CompareDevices(d, h200b) != SameName || CompareDevices(d, h100) != SameCapability {
		t.Error("a device of several fingerprints is not known by its name")
	}
}

func TestParseShape(t *testing.T) {
	attention, sgemm := mustKernel(t, "attention"), mustKernel(t, "sgemm")
	for text, want := range map[string]string{
		"B=2,H=8,S=512,D=64":            "B=2,CAUSAL=0,D=64,H=8,S=512",
		" S = 512 , B=2,H=8,D=64":       "B=2,CAUSAL=0,D=64,H=8,S=512",
		"CAUSAL=1,B=2,H=8,S=512,D=64":   "B=2,CAUSAL=1,D=64,H=8,S=512",
		"B=2,H=8,S=512,D=64,CAUSAL=007": "B=2,CAUSAL=7,D=64,H=8,S=512",
	} {
		dims, err := ParseShape(attention, text)
		if err != nil || dimsText(dims) != want {
			t.Errorf("%q: %v, %v", text, dims, err)
		}
	}
	for text, want := range map[string]string{
		"B=2,H=8,S=512":         "D is missing: the dimensions of attention are B, H, S, D, CAUSAL (0 or 1, 0 when left out)",
		"B=2,H=8,S=512,D=64,":   `"" is not of the form NAME=N`,
		"B=2,B=2,H=8,S=512":     "B is given twice",
		"b=2":                   `there is no dimension "b"`,
		"B=2,H=8,S=512,D=many":  `D is "many"`,
		"B=-1,H=8,S=512,D=64":   `B is "-1", expected an integer from 0`,
		"B=2,H=8,S=512,D=1e3":   `D is "1e3"`,
		"B=2,H=8,S=512,D=2e99":  `D is "2e99"`,
		"B=0,H=8,S=512,D=64":    `axis "B" is 0`,
		"B=2=3,H=8,S=512,D=6":   `B is "2=3"`,
		"B=99999999999999,H=1":  "expected an integer from 0 to 1099511627776",
		"2x8x512x64":            "not of the form",
		"":                      "not of the form",
		"B=2,H=8,S=512,D=64\nX": "X",
	} {
		_, err := ParseShape(attention, text)
		if !errors.Is(err, ErrQuestion) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	// TEAM is 1 or 2: no flag.
	if _, err := ParseShape(sgemm, "M=1,N=2,K=3"); err == nil || !strings.Contains(err.Error(), "TEAM is missing") {
		t.Errorf("no flag was left out: %v", err)
	}
}

// A fixture is a store that tests fill.
type fixture struct {
	testing.TB
	*store.Store
	n int
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "s.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &fixture{TB: t, Store: s}
}

// A tuned is one campaign with its correct candidates: fitness by id, and the one that
// won the finals.
type tuned struct {
	kernel      *kernels.Definition
	device      evaluator.Device
	shapes      []string
	fitness     map[string]float64
	genomes     map[string]string // others get one that their first shape has
	winner      string
	significant bool
	hash        string // the definition's, unless it is given
}

// add puts a campaign into the store.
func (f *fixture) add(c tuned) {
	f.Helper()
	on := c.kernel.On(c.device.Kind)
	var names []string
	for _, im := range on.Implementations {
		names = append(names, im.Name)
	}
	if c.hash == "" {
		c.hash = c.kernel.Hash
	}
	encode := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.n++
	campaign := fmt.Sprintf("%s-%d", c.kernel.Name, f.n)
	events := []store.Event{{Kind: store.KindStarted, Started: &store.Started{
		Kernel: c.kernel.Name, Shapes: c.shapes, Backend: c.device.Kind, Device: c.device.Fingerprint, Name: c.device.Name, Strategy: "random",
		Config:      encode(map[string]string{"hash": c.hash}),
		Description: encode(evaluator.Description{Backend: c.device.Kind, Device: c.device, Implementations: names}),
	}}}
	ids := slices.Sorted(func(yield func(string) bool) {
		for id := range c.fitness {
			if !yield(id) {
				return
			}
		}
	})
	for i, id := range ids {
		g := c.genomes[id]
		if g == "" {
			g = f.genomeFor(on, c.shapes[0])
		}
		events = append(events, store.Event{Kind: store.KindAsked, Asked: &store.Asked{Index: i, Candidate: id, Genome: g, Operator: "random"}},
			store.Event{Kind: store.KindTold, Told: &store.Told{Index: i, Candidate: id, Verdict: "correct", Fitness: c.fitness[id], MedianNS: 1e3 * c.fitness[id], BaselineNS: 1e3}})
	}
	if c.winner != "" {
		x := c.fitness[c.winner]
		events = append(events, store.Event{Kind: store.KindFinals, Finals: &store.Finals{
			Winner: c.winner, Fitness: x, MedianNS: 1e3 * x, BaselineNS: 1e3, Significant: c.significant, Finalists: []string{c.winner},
		}})
	}
	for i := range events {
		events[i].Campaign = campaign
	}
	if _, err := f.Append(events...); err != nil {
		f.Fatal(err)
	}
}

// genomeFor is some genome of a kernel that can compute a shape.
func (f *fixture) genomeFor(on *kernels.Definition, shape string) string {
	f.Helper()
	s, err := on.Problem.Shape(shape)
	if err != nil {
		f.Fatal(err)
	}
	space, err := on.Space(on.Implementations, []kernels.Shape{s}, nil)
	if err != nil {
		f.Fatal(err)
	}
	return space.Random(rand.New(rand.NewSource(1))).String()
}

func TestAsk(t *testing.T) {
	attention, softmax := mustKernel(t, "attention"), mustKernel(t, "softmax")
	s := newFixture(t)
	s.add(tuned{kernel: attention, device: h200, shapes: []string{"2x8x512x64"}, fitness: map[string]float64{"a1": 0.5, "a2": 0.4}, winner: "a1", significant: true})
	s.add(tuned{kernel: attention, device: h200b, shapes: []string{"2x8x2048x64"}, fitness: map[string]float64{"b1": 0.3}})
	s.add(tuned{kernel: attention, device: h100, shapes: []string{"2x8x512x64"}, fitness: map[string]float64{"c1": 0.2}, winner: "c1"})
	s.add(tuned{kernel: attention, device: h200, shapes: []string{"2x8x512x128"}, fitness: map[string]float64{"d1": 0.1}})
	s.add(tuned{kernel: attention, device: a100, shapes: []string{"2x8x512x64", "2x8x2048x64"}, fitness: map[string]float64{"e1": 0.6}})
	s.add(tuned{kernel: attention, device: epyc, shapes: []string{"2x8x512x64"}, fitness: map[string]float64{"f1": 0.7}, hash: "another"})
	s.add(tuned{kernel: softmax, device: a10, shapes: []string{"4096x1024"}, fitness: map[string]float64{"g1": 0.7}})
	s.add(tuned{kernel: softmax, device: arm, shapes: []string{"1024x1024"}, fitness: map[string]float64{"g2": 0.7}})

	at := func(S, D, causal int64) map[string]int64 {
		return map[string]int64{"B": 2, "H": 8, "S": S, "D": D, "CAUSAL": causal}
	}
	for _, c := range []struct {
		name string
		q    Question
		want string // ids
		rule string // of the first
	}{
		{"anything", Question{}, "a1", "any device (NVIDIA H200), any shape (2x8x512x64)"},
		{"significant winners, winners, others", Question{Limit: 9}, "a1 c1 d1 b1 a2 e1 f1", ""},
		{"proven", Question{Limit: 9, Proven: true}, "a1 c1", ""},
		{"same shape by name", Question{Device: &h200, Shape: "2x8x512x64"}, "a1", "same device, same shape 2x8x512x64"},
		{"same shape by dimensions", Question{Device: &h200, Dims: at(512, 64, 0), Limit: 2}, "a1 a2", "same device, same shape 2x8x512x64"},
		// A head of another size is another kernel: d1 is nearer than b1, and cannot.
		{"nearest shape", Question{Device: &h200, Dims: at(1023, 64, 0), Limit: 9}, "a1 a2 b1 c1", "same device, nearest shape 2x8x512x64 (distance 1.00 doublings)"},
		{"the device before the shape", Question{Device: &h200, Dims: at(2048, 64, 0)}, "a1", "same device, nearest shape 2x8x512x64 (distance 2.00 doublings)"},
		{"able ones only", Question{Device: &h200, Dims: at(512, 128, 0), Limit: 2}, "d1", "same device, same shape 2x8x512x128, won no finals"},
		{
			"another side of a flag",
			Question{Device: &h100, Dims: at(512, 64, 1)},
			"c1",
			"same device, nearest shape 2x8x512x64 (distance 65.00 doublings, 64 of them for each flag: CAUSAL is 0 there)",
		},
		{"a shape of the kernel that nobody tuned", Question{Device: &h100, Shape: "4x16x512x64"}, "c1", "same device, nearest shape 2x8x512x64 (distance 1.65 doublings)"},
		{"same name", Question{Device: &h200c, Shape: "2x8x512x64"}, "a1", "same name NVIDIA H200, same shape 2x8x512x64"},
		{
			"same capability",
			Question{Device: &evaluator.Device{Kind: "cuda", Name: "NVIDIA GH200", Facts: map[string]string{"capability": "9.0"}}},
			"a1",
			"same compute capability 9.0, any shape (2x8x512x64)",
		},
		{
			"same family",
			Question{Device: &a10, Dims: at(2048, 64, 0)},
			"e1",
			"same family: compute capability 8.0 for 8.6, same shape 2x8x2048x64, tuned together with 2x8x512x64, won no finals",
		},
		{"instruction sets", Question{Device: &xeon}, "f1", "same instruction sets (amd64), any shape (2x8x512x64), won no finals, and the kernel has changed since"},
		{"architecture", Question{Device: &old}, "f1", "same family: architecture amd64, any shape (2x8x512x64), won no finals, and the kernel has changed since"},
		{
			"several shapes",
			Question{Shapes: []string{"2x8x2048x64", "2x8x512x64"}},
			"e1",
			"any device (NVIDIA A100), same shapes 2x8x2048x64 and 2x8x512x64, won no finals",
		},
		{"a type", Question{DType: kernels.F32}, "f1", ""},
		{"another type", Question{DType: kernels.F16, Limit: 9}, "a1 c1 d1 b1 a2 e1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.Kernel, c.q.Definition = "attention", attention
			got, err := Ask(s, c.q)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, a := range got {
				ids = append(ids, a.ID)
			}
			if s := strings.Join(ids, " "); s != c.want {
				t.Errorf("%s, want %s", s, c.want)
			}
			if c.rule != "" && got[0].Rule() != c.rule {
				t.Errorf("rule %q, want %q", got[0].Rule(), c.rule)
			}
		})
	}
	for name, c := range map[string]struct {
		q    Question
		kind error
		text string
	}{
		"unknown kernel":  {Question{Kernel: "nobody"}, ErrNoCandidate, `of "nobody": no campaign has tuned it`},
		"another family":  {Question{Kernel: "attention", Device: &arm}, ErrNoCandidate, "for Neoverse: there are some for NVIDIA H200 (2x8x512x64, 2x8x2048x64, 2x8x512x128), NVIDIA H100 (2x8x512x64), "},
		"unknown shape":   {Question{Kernel: "attention", Definition: attention, Shape: "2x8"}, ErrQuestion, `no shape "2x8": there are 2x8x512x64, `},
		"without a shape": {Question{Kernel: "attention", Shape: "512"}, ErrNoCandidate, "at 512"},
		"no such type":    {Question{Kernel: "attention", Definition: attention, DType: kernels.I8}, ErrNoCandidate, "in i8"},
		"nobody able":     {Question{Kernel: "attention", Definition: attention, Device: &h200, Dims: at(512, 96, 0)}, ErrNoCandidate, "at B=2,CAUSAL=0,D=96,H=8,S=512 for NVIDIA H200"},
		"not proven":      {Question{Kernel: "softmax", Proven: true}, ErrNoCandidate, "that won finals"},
	} {
		if _, err := Ask(s, c.q); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", name, err, c.text)
		}
	}
	// A kernel that is not known has names only.
	if got, err := Ask(s, Question{Kernel: "attention", Shape: "2x8x512x128"}); err != nil || got[0].ID != "d1" {
		t.Errorf("by name alone: %v", err)
	}
}

// What was correct in the search and wrong in the finals is not an answer.
func TestAskAfterFinals(t *testing.T) {
	for _, c := range []struct {
		name     string
		verdicts []string // of a and b, in the finals
		refused  string   // others
		want     string
	}{
		{"the best fell", []string{"parity", "correct"}, "", "b c"},
		{"both fell", []string{"parity", "launch"}, "", "c"},
		{"the machine failed", []string{"infrastructure", "correct"}, "", "a b c"},
		{"none fell", []string{"correct", "correct"}, "", "a b c"},
		{"another has the code of the best, which fell", []string{"sanitizer", "correct"}, `"c"`, "b"},
	} {
		s := newFixture(t)
		s.add(tuned{kernel: mustKernel(t, "softmax"), device: h200, shapes: []string{"4096x1024"}, fitness: map[string]float64{"a": 0.1, "b": 0.2, "c": 0.3}})
		detail := fmt.Sprintf(`{"entries":[{"verdict":%q},{"verdict":%q}],"refused":[%s],"winner":-1}`, c.verdicts[0], c.verdicts[1], c.refused)
		if _, err := s.Append(store.Event{Kind: store.KindFinals, Campaign: "softmax-1", Finals: &store.Finals{Finalists: []string{"a", "b"}, Detail: json.RawMessage(detail)}}); err != nil {
			t.Fatal(err)
		}
		answers, err := Ask(s, Question{Kernel: "softmax", Limit: 5})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range answers {
			got = append(got, a.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
	s := newFixture(t)
	s.add(tuned{kernel: mustKernel(t, "softmax"), device: h200, shapes: []string{"4096x1024"}, fitness: map[string]float64{"a": 0.1}})
	if _, err := s.Append(store.Event{Kind: store.KindFinals, Campaign: "softmax-1", Finals: &store.Finals{
		Finalists: []string{"a"}, Detail: json.RawMessage(`{"entries":[{"verdict":"parity"}],"winner":-1}`),
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(s, Question{Kernel: "softmax"}); !errors.Is(err, ErrNoCandidate) || !strings.HasSuffix(err.Error(), ", of which 1 failed in the finals") {
		t.Error(err)
	}
}

// A winner at whose shape a negative control passes comes after those that are proven, and is not proven itself.
func TestAskUnproven(t *testing.T) {
	s := newFixture(t)
	const why = "not proven: this"
	for n, c := range []tuned{
		{kernel: mustKernel(t, "softmax"), device: h200, shapes: []string{"4096x1024"}, fitness: map[string]float64{"a": 0.1}},
		{kernel: mustKernel(t, "softmax"), device: h200, shapes: []string{"4096x1024"}, fitness: map[string]float64{"b": 0.2}},
	} {
		s.add(c)
		f := &store.Finals{Winner: []string{"a", "b"}[n], Fitness: 0.1, Significant: true, Finalists: []string{[]string{"a", "b"}[n]}, Detail: json.RawMessage(`{"entries":[{"verdict":"correct"}]}`)}
		if n == 0 {
			f.Unproven = why
		}
		if _, err := s.Append(store.Event{Kind: store.KindFinals, Campaign: fmt.Sprintf("softmax-%d", n+1), Finals: f}); err != nil {
			t.Fatal(err)
		}
	}
	for proven, want := range map[bool]string{false: "b a", true: "b"} {
		answers, err := Ask(s, Question{Kernel: "softmax", Limit: 5, Proven: proven})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range answers {
			if got = append(got, a.ID); strings.HasSuffix(a.Rule(), ", "+why) != (a.ID == "a") {
				t.Errorf("%s: %s", a.ID, a.Rule())
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("proven %t: %v, want %s", proven, got, want)
		}
	}
	f, err := CompileFilter("proven")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"a": false, "b": true} {
		c, err := s.Candidate(id)
		if err != nil {
			t.Fatal(err)
		}
		if is, err := f.Match(&c, &store.Started{}); err != nil || is != want {
			t.Errorf("%s is proven: %t, %v", id, is, err)
		}
	}
}

// TestAskIsTheNearest compares answers on random stores with all there are, looked at one by one.
func TestAskIsTheNearest(t *testing.T) {
	softmax := mustKernel(t, "softmax")
	devices := []evaluator.Device{h200, h200b, h200c, h100, a100, a10}
	shapes := softmax.On("cuda").Problem.Shapes
	encoding := (&fixture{TB: t}).genomeFor(softmax.On("cuda"), shapes[0].Name)
	rapid.Check(t, func(rt *rapid.T) {
		m := &memory{}
		wanted := rapid.SampledFrom(devices).Draw(rt, "device")
		dims := map[string]int64{"ROWS": rapid.Int64Range(1, 1<<20).Draw(rt, "ROWS"), "COLS": rapid.Int64Range(1, 1<<20).Draw(rt, "COLS")}
		type place struct {
			rule     DeviceRule
			distance float64
			rank     int
			fitness  float64
		}
		where := map[string]place{}
		for i := range rapid.IntRange(1, 8).Draw(rt, "campaigns") {
			d, shape := rapid.SampledFrom(devices).Draw(rt, "of"), rapid.SampledFrom(shapes).Draw(rt, "at")
			var found []store.Candidate
			for j := range rapid.IntRange(0, 3).Draw(rt, "candidates") {
				c := store.Candidate{ID: fmt.Sprintf("%d.%d", i, j), Campaign: fmt.Sprint(i), Asked: store.Asked{Genome: encoding}}
				p := place{CompareDevices(wanted, d), Distance(dims, shape.Dims), rapid.IntRange(0, 2).Draw(rt, "rank"), float64(rapid.IntRange(1, 5).Draw(rt, "fitness"))}
				c.Told = &store.Told{Verdict: "correct", Fitness: p.fitness}
				if p.rank < 2 {
					c.Proven, c.Finals = true, &store.Finals{Winner: c.ID, Fitness: p.fitness, Significant: p.rank == 0}
				}
				if p.rule != OtherDevice {
					where[c.ID] = p
				}
				found = append(found, c)
			}
			m.add(softmax, d, shape.Name, found)
		}
		limit := rapid.IntRange(1, 12).Draw(rt, "limit")
		got, err := Ask(m, Question{Kernel: "softmax", Definition: softmax, Device: &wanted, Dims: dims, Limit: limit})
		if len(where) == 0 {
			if !errors.Is(err, ErrNoCandidate) {
				rt.Fatalf("nothing is near enough: %v", err)
			}
			return
		}
		if err != nil || len(got) != min(limit, len(where)) {
			rt.Fatalf("%d of %d answers, at most %d: %v", len(got), len(where), limit, err)
		}
		less := func(a, b place) bool {
			if a.rule != b.rule {
				return a.rule < b.rule
			}
			if a.distance != b.distance {
				return a.distance < b.distance
			}
			return a.rank < b.rank || a.rank == b.rank && a.fitness < b.fitness
		}
		for i, a := range got {
			p := where[a.ID]
			delete(where, a.ID)
			if p.rule != a.DeviceRule || math.Abs(p.distance-a.Distance) > 0 {
				rt.Errorf("%s is by rule %s at %g, not %s at %g", a.ID, p.rule, p.distance, a.DeviceRule, a.Distance)
			}
			for id, other := range where {
				if less(other, p) {
					rt.Errorf("answer %d is %s (%+v), and %s is nearer (%+v)", i, a.ID, p, id, other)
				}
			}
		}
	})
}

// memory is a Source of a few campaigns.
type memory struct {
	campaigns  []store.Campaign
	candidates []store.Candidate
}

func (m *memory) add(kernel *kernels.Definition, d evaluator.Device, shape string, found []store.Candidate) {
	var names []string
	for _, im := range kernel.On(d.Kind).Implementations {
		names = append(names, im.Name)
	}
	about, err := json.Marshal(evaluator.Description{Device: d, Implementations: names})
	if err != nil {
		panic(err) // plain values
	}
	c := store.Campaign{ID: fmt.Sprint(len(m.campaigns)), Started: store.Started{
		Kernel: kernel.Name, Shapes: []string{shape}, Backend: d.Kind, Device: d.Fingerprint, Name: d.Name, Description: about,
	}}
	if len(found) > 0 {
		c.Best = found[0].Told
	}
	m.campaigns = append(m.campaigns, c)
	m.candidates = append(m.candidates, found...)
}

func (m *memory) Campaigns() ([]store.Campaign, error) { return slices.Clone(m.campaigns), nil }

func (m *memory) Campaign(id string) (store.Campaign, error) {
	return m.campaigns[slices.IndexFunc(m.campaigns, func(c store.Campaign) bool { return c.ID == id })], nil
}

func (m *memory) Best(q store.Query) ([]store.Candidate, error) {
	out := slices.DeleteFunc(slices.Clone(m.candidates), func(c store.Candidate) bool {
		return !slices.Contains(q.Campaigns, c.Campaign) || q.ProvenOnly && !c.Proven
	})
	slices.SortStableFunc(out, func(a, b store.Candidate) int { return int(a.Told.Fitness - b.Told.Fitness) })
	return out[:min(len(out), max(1, q.Limit))], nil
}

// TestDifferentBaselines: what is faster relative to an easier baseline does not beat what is faster.
func TestDifferentBaselines(t *testing.T) {
	kernel := mustKernel(t, "attention")
	for _, c := range []struct{ first, second, want string }{
		{"mma with its baseline genome", "attention of libcudnn.so 9.19.0", "fast"},
		{"attention of libcudnn.so 9.19.0", "attention of libcudnn.so 9.19.0", "ratio"},
		{"", "attention of libcudnn.so 9.19.0", "ratio"}, // not recorded
	} {
		m := &memory{}
		told := func(id string, ns, baseline float64) []store.Candidate {
			return []store.Candidate{{ID: id, Campaign: fmt.Sprint(len(m.campaigns)), Proven: true, Told: &store.Told{
				Candidate: id, Verdict: "correct", Fitness: ns / baseline, MedianNS: ns, BaselineNS: baseline,
			}}}
		}
		m.add(kernel, h200, "2x8x512x64", told("ratio", 6000, 9200))
		m.add(kernel, h200, "2x8x512x64", told("fast", 5000, 5400))
		for i, baseline := range []string{c.first, c.second} {
			about, err := json.Marshal(evaluator.Description{Device: h200, Implementations: []string{"mma", "hopper"}, Baseline: baseline})
			if err != nil {
				t.Fatal(err)
			}
			m.campaigns[i].Started.Description = about
		}
		got, err := Ask(m, Question{Kernel: "attention", Definition: kernel, Shape: "2x8x512x64"})
		if err != nil || got[0].ID != c.want {
			t.Errorf("%q and %q: %+v, %v; want %s", c.first, c.second, got, err, c.want)
		}
	}
}
