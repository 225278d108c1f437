package wire_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// header begins every message.
var header = fmt.Sprintf("evotune/%d ", wire.Version)

func reader(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }

func TestMessagesArriveAsSent(t *testing.T) {
	want := wire.TimeRequest{
		Contenders: []wire.Contender{{Binary: "base", Geometry: wire.Geometry{
			Grid: [3]int64{4, 2, 1}, Block: [3]int64{128, 1, 1}, Shared: 100 << 10, Workspace: 64,
			Entry: "split", Cluster: [3]int64{2, 1, 1}, Cooperative: true,
			Maps: []wire.TensorMap{{
				Buffer: 1, DType: "bf16", Dims: []int64{64, 3}, Strides: []int64{128}, Box: []int64{64, 1},
				Swizzle: 128, Promotion: 256, NaN: true,
			}},
			Then: []wire.Geometry{{Grid: [3]int64{1, 1, 1}, Block: [3]int64{32, 1, 1}, Entry: "combine", Dependent: true}},
		}}},
		Shape: wire.Shape{Name: "small", Dims: []int64{3, 5}, Elements: []int64{15, 15}, Scalars: []float64{0.5}},
		Seed:  math.MaxUint64, BatchNS: 2e6, Rounds: 3, Last: true, Latencies: 16,
	}
	var b bytes.Buffer
	if err := wire.Write(&b, wire.Time, want); err != nil {
		t.Fatal(err)
	}
	if err := wire.Write(&b, wire.Quit, wire.QuitRequest{}); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(iotest.OneByteReader(&b))
	kind, body, err := wire.Read(r)
	if err != nil || kind != wire.Time {
		t.Fatalf("kind %q, %v; want %q", kind, err, wire.Time)
	}
	got, err := wire.Decode[wire.TimeRequest](body)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the request changed on its way (-sent +got):\n%s", d)
	}
	if kind, _, err := wire.Read(r); kind != wire.Quit || err != nil {
		t.Errorf("second message: kind %q, %v; want %q", kind, err, wire.Quit)
	}
	if _, _, err := wire.Read(r); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestNumbersThatAreNotFinite(t *testing.T) {
	for _, f := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0, -1.5e-300} {
		var b bytes.Buffer
		if err := wire.Write(&b, wire.Parity, wire.ParityAnswer{Outputs: []wire.Output{{Error: wire.Number(f)}}}); err != nil {
			t.Fatal(err)
		}
		_, body, err := wire.Read(bufio.NewReader(&b))
		if err != nil {
			t.Fatal(err)
		}
		a, err := wire.Decode[wire.ParityAnswer](body)
		if err != nil {
			t.Fatal(err)
		}
		got := float64(a.Outputs[0].Error)
		if got != f && !(math.IsNaN(got) && math.IsNaN(f)) {
			t.Errorf("%v arrived as %v", f, got)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in, say string
		err           error
	}{
		{"nothing", "", "EOF", io.EOF},
		{"text of a library", "Error in initialization, please refer to\n", "header", wire.ErrFormat},
		{"text without an end", strings.Repeat("x", 100), "end of line", wire.ErrFormat},
		{"another version", "evotune/99 hello 2\n{}\n", `version "99"`, wire.ErrFormat},
		{"version with a sign", "evotune/+1 hello 2\n{}\n", "version", wire.ErrFormat},
		{"unknown kind", header + "reboot 2\n{}\n", `unknown kind "reboot"`, wire.ErrFormat},
		{"no length", header + "hello\n{}\n", "header", wire.ErrFormat},
		{"length that is none", header + "hello two\n{}\n", `length "two"`, wire.ErrFormat},
		{"negative length", header + "hello -2\n{}\n", `length "-2"`, wire.ErrFormat},
		{"length with a zero before", header + "hello 02\n{}\n", `length "02"`, wire.ErrFormat},
		{"length beyond the limit", fmt.Sprintf("%shello %d\n{}\n", header, wire.MaxLength+1), "more than", wire.ErrFormat},
		{"longer than said", header + "hello 2\n{} \n", "no newline", wire.ErrFormat},
		{"not JSON", header + "hello 2\n{]\n", "not JSON", wire.ErrFormat},
		{"cut in the header", header + "hel", "header", io.ErrUnexpectedEOF},
		{"cut in the body", header + "hello 20\n{}", "2 of 20 bytes", io.ErrUnexpectedEOF},
		{"cut before the newline", header + "hello 2\n{}", "2 of 2 bytes", io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, body, err := wire.Read(reader(c.in))
			if !errors.Is(err, c.err) {
				t.Fatalf("kind %q, body %q, error %v; want %v", kind, body, err, c.err)
			}
			if !strings.Contains(err.Error(), c.say) {
				t.Errorf("error %q does not say %q", err, c.say)
			}
		})
	}
}

func TestReadPassesOnErrorsOfTheStream(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, s := range []string{"", header + "he", header + "hello 9\n{"} {
		r := bufio.NewReader(io.MultiReader(strings.NewReader(s), iotest.ErrReader(broken)))
		if _, _, err := wire.Read(r); !errors.Is(err, broken) {
			t.Errorf("after %q: %v, want %v", s, err, broken)
		}
	}
}

func TestDecodeIsStrict(t *testing.T) {
	if _, err := wire.Decode[wire.HelloRequest]([]byte(`{"version":1,"color":"red"}`)); err == nil ||
		!strings.Contains(err.Error(), "color") {
		t.Errorf("a field that does not exist: %v", err)
	}
	if _, err := wire.Decode[wire.HelloRequest]([]byte(`{"version":1}{}`)); err == nil {
		t.Error("two values were taken for one")
	}
	if _, err := wire.Decode[wire.HelloRequest]([]byte(`{"version":"1"}`)); err == nil {
		t.Error("a string was taken for a number")
	}
}

func TestWriteRefuses(t *testing.T) {
	if err := wire.Write(io.Discard, "reboot", wire.QuitRequest{}); err == nil {
		t.Error("an unknown kind was sent")
	}
	if err := wire.Write(io.Discard, wire.Launch, wire.LaunchRequest{Shape: wire.Shape{Scalars: []float64{math.NaN()}}}); err == nil {
		t.Error("a NaN was sent, which JSON does not have")
	}
	if err := wire.Write(io.Discard, wire.Failed, wire.Failure{Error: strings.Repeat("x", wire.MaxLength)}); err == nil {
		t.Error("a message beyond the limit was sent")
	}
}

// FuzzRead holds that what is read is either refused for a stated reason or
// can be sent again and read as the same.
func FuzzRead(f *testing.F) {
	f.Add([]byte(header + "hello 13\n{\"version\":1}\n"))
	f.Add([]byte(header + "failed 33\n{\"error\":\"no device\",\"fatal\":true}\n"))
	f.Add([]byte(header + "quit 2\n{}\n" + header + "quit 2\n{}\n"))
	f.Add([]byte(header + "parity 99999999999999999999\n"))
	f.Add([]byte(header + "time 67108865\n{"))
	f.Add([]byte(header + "hello 2\n{}\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReader(bytes.NewReader(in))
		for {
			kind, body, err := wire.Read(r)
			if err != nil {
				if !errors.Is(err, wire.ErrFormat) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("an error of no known kind: %v", err)
				}
				return
			}
			message := fmt.Appendf(nil, "evotune/%d %s %d\n%s\n", wire.Version, kind, len(body), body)
			if !bytes.Contains(in, message) {
				t.Fatalf("read %s %q, which is not what was sent", kind, body)
			}
			if request, err := wire.Decode[wire.ParityRequest](body); err == nil {
				var b bytes.Buffer
				if err := wire.Write(&b, wire.Parity, request); err != nil {
					t.Fatalf("what was decoded cannot be sent: %v", err)
				}
				if _, again, err := wire.Read(bufio.NewReader(&b)); err != nil {
					t.Fatalf("what was sent cannot be read: %v", err)
				} else if second, err := wire.Decode[wire.ParityRequest](again); err != nil || !cmp.Equal(request, second) {
					t.Fatalf("decoded again: %v\n%s", err, cmp.Diff(request, second))
				}
			}
		}
	})
}

// The text of a launch without anything new is what it was when there was nothing new:
// it is part of what a candidate is known by. With something new it has all of it.
func TestGeometryText(t *testing.T) {
	old := wire.Geometry{Grid: [3]int64{4, 2, 1}, Block: [3]int64{128, 1, 1}, Shared: 1024, Workspace: 64}
	for _, c := range []struct{ got, want string }{
		{fmt.Sprintf("%v", old), "{[4 2 1] [128 1 1] 1024 64}"},
		{fmt.Sprint(wire.Geometry{}), "{[0 0 0] [0 0 0] 0 0}"},
		{fmt.Sprint(wire.Shape{Name: "s", Reference: old}), "{s [] [] [] {[4 2 1] [128 1 1] 1024 64}    []}"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	seen := map[string]bool{fmt.Sprint(old): true}
	tile := wire.TensorMap{DType: "f16", Dims: []int64{8, 8}, Strides: []int64{16}, Box: []int64{8, 8}}
	mapped := func(change func(*wire.TensorMap)) func(*wire.Geometry) {
		return func(g *wire.Geometry) {
			m := tile
			change(&m)
			g.Maps = []wire.TensorMap{m}
		}
	}
	for name, change := range map[string]func(*wire.Geometry){
		"entry":       func(g *wire.Geometry) { g.Entry = "other" },
		"cluster":     func(g *wire.Geometry) { g.Cluster = [3]int64{2, 1, 1} },
		"cooperative": func(g *wire.Geometry) { g.Cooperative = true },
		"dependent":   func(g *wire.Geometry) { g.Dependent = true },
		"maps":        mapped(func(*wire.TensorMap) {}),
		"buffer":      mapped(func(m *wire.TensorMap) { m.Buffer = 1 }),
		"dtype":       mapped(func(m *wire.TensorMap) { m.DType = "bf16" }),
		"dims":        mapped(func(m *wire.TensorMap) { m.Dims = []int64{8, 7} }),
		"strides":     mapped(func(m *wire.TensorMap) { m.Strides = []int64{32} }),
		"box":         mapped(func(m *wire.TensorMap) { m.Box = []int64{8, 4} }),
		"swizzle":     mapped(func(m *wire.TensorMap) { m.Swizzle = 32 }),
		"promotion":   mapped(func(m *wire.TensorMap) { m.Promotion = 64 }),
		"nan":         mapped(func(m *wire.TensorMap) { m.NaN = true }),
		"then":        func(g *wire.Geometry) { g.Then = []wire.Geometry{old} },
		"then's grid": func(g *wire.Geometry) { g.Then = []wire.Geometry{{}} },
	} {
		g := old
		change(&g)
		text := fmt.Sprint(g)
		if seen[text] || !strings.HasPrefix(text, fmt.Sprint(old)+" ") {
			t.Errorf("%s: %q is the text of another launch, or does not begin with the old one", name, text)
		}
		seen[text] = true
	}
}

// The files of inputs hold every number of a type, such as those that a float lacks.
func TestElements(t *testing.T) {
	for dtype, list := range map[string][]float64{
		"f64": {0.1, 1e300}, "i64": {1 << 53}, "i32": {math.MaxInt32, math.MinInt32}, "u32": {math.MaxUint32}, "u16": {math.MaxUint16}, "i16": {math.MinInt16}, "f32": {0.5},
	} {
		b := wire.AppendElements(nil, dtype, list)
		if got := wire.Elements(b, dtype); !slices.Equal(got, list) || int64(len(b)) != wire.ElementBytes(dtype)*int64(len(list)) {
			t.Errorf("%s: %v of %v", dtype, got, list)
		}
	}
}
