package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/kernels"
)

// Whether a candidate's source could be had.
const (
	// SourceRebuilt: rendered again, and its hash is the recorded one.
	SourceRebuilt = "rebuilt"
	// SourceLeftOut: not the source that was judged, or none at all.
	SourceLeftOut = "left out"
)

// A Source is what a candidate was compiled from.
type Source struct {
	Status string `json:"status"`
	// Why says why it was left out, or what is to be known of it.
	Why string `json:"why,omitempty"`
	// Recorded is the hash in the result, Now that of what was rendered again:
	// SHA-256 over source, header, entry, flags, threads and included files.
	Recorded string `json:"recorded_hash,omitempty"`
	Now      string `json:"rendered_hash,omitempty"`
	// Definition is the hash of the kernel's folder when the campaign started,
	// DefinitionNow that of today.
	Definition     string   `json:"definition_hash,omitempty"`
	DefinitionNow  string   `json:"definition_hash_now,omitempty"`
	Implementation string   `json:"implementation,omitempty"`
	Target         string   `json:"target,omitempty"`
	Entry          string   `json:"entry,omitempty"`
	Flags          []string `json:"flags,omitempty"`
	Threads        int      `json:"threads,omitempty"`
	// Files lists what lies in the folder source/.
	Files []SourceFile `json:"files,omitempty"`
	// Winners are the descriptions of how to launch a GPU kernel.
	Winners []Winner `json:"winners,omitempty"`

	whole string // winnerSource
}

// A SourceFile is one file of the source.
type SourceFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	text   string
}

// LeftOut is a source that could not be had.
func LeftOut(recorded, format string, args ...any) Source {
	return Source{Status: SourceLeftOut, Recorded: recorded, Why: fmt.Sprintf(format, args...)}
}

// NewSource takes what was rendered again from the definition as it is now. It
// is kept only if its hash is the recorded one. definition is the recorded
// hash of the definition.
func NewSource(r kernels.Rendered, recorded, definition string) Source {
	im := r.Implementation
	s := Source{Status: SourceLeftOut, Recorded: recorded, Now: r.Hash, Definition: definition, DefinitionNow: im.Definition().Hash}
	changed := definition != "" && definition != s.DefinitionNow
	switch {
	case recorded == "":
		s.Why = "no source was recorded with the result"
		return s
	case recorded != r.Hash && changed:
		s.Why = fmt.Sprintf("the kernel %s has changed since (definition %.12s, now %.12s) and renders to another source (%.12s, now %.12s)", im.Definition().Name, definition, s.DefinitionNow, recorded, r.Hash)
		return s
	case recorded != r.Hash:
		s.Why = fmt.Sprintf("rendered again it has another hash (%.12s, now %.12s): this evotune renders otherwise than the one that judged it", recorded, r.Hash)
		return s
	}
	s.Status = SourceRebuilt
	if changed {
		s.Why = "the definition has changed since, but not what this candidate renders to"
	}
	s.Implementation, s.Target, s.Entry, s.Flags, s.Threads = im.Name, im.Target, r.Entry, r.Flags, r.Threads
	s.add("kernel"+extension(im), r.Source)
	if r.Triton != nil {
		s.add("evotune_call.py", r.Header)
	} else {
		s.add(kernels.HeaderFile, r.Header)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		s.add(name, r.Files[name])
	}
	return s
}

func (s *Source) add(name, text string) {
	sum := sha256.Sum256([]byte(text))
	s.Files = append(s.Files, SourceFile{Name: name, SHA256: hex.EncodeToString(sum[:]), text: text})
}

func extension(im *kernels.Implementation) string {
	if im.Language == kernels.Triton {
		return ".py"
	}
	if f := backend.Of(im.Backend); f.Accelerator {
		return f.Source
	}
	if e := path.Ext(strings.TrimSuffix(im.Template, ".tmpl")); e != "" {
		return e
	}
	return ".c"
}

// SetWinners describes the launches of a rebuilt GPU kernel at the tuned
// shapes, on a device with the limits given. For other sources it does nothing.
func (s *Source) SetWinners(r kernels.Rendered, limits map[string]any, candidate string, shapes []kernels.Shape) error {
	im := r.Implementation
	if s.Status != SourceRebuilt || !backend.Of(im.Backend).Has(backend.Launch) || r.Triton != nil { // whose launch is not known without its code
		return nil
	}
	p := im.Problem()
	for _, shape := range shapes {
		geo, err := im.Geometry(r.Genome, shape, limits)
		if err != nil {
			return err
		}
		w, err := newWinner(im.Definition().Name, p, shape)
		if err != nil {
			return err
		}
		w.Source, w.Entry, w.Grid, w.Block, w.Shared = winnerSource, r.Entry, geo.Grid, geo.Block, geo.SharedBytes
		w.Workspace, w.Cluster, w.Cooperative, w.TensorMaps, w.Then = geo.WorkspaceBytes, geo.Cluster, geo.Cooperative, geo.Maps, geo.Then
		w.Genome, w.Flags, w.Target, w.Candidate = r.Genome.String(), append([]string{}, r.Flags...), im.Target, candidate
		s.Winners = append(s.Winners, w)
	}
	s.whole = r.Directives(r.Entry) + r.SelfContained()
	return nil
}

// newWinner has the problem at a shape, and no launch.
func newWinner(kernel string, p *kernels.Problem, shape kernels.Shape) (Winner, error) {
	w := Winner{Kernel: kernel, Shape: shape.Name, Dims: shape.Dims, DimsOrder: p.Dims, Buffers: []WinnerBuffer{}, Scalars: []WinnerScalar{}}
	for _, b := range p.Buffers {
		n, err := p.Elements(b, shape)
		if err != nil {
			return w, err
		}
		data, err := p.DataAt(b, shape)
		if err != nil {
			return w, err
		}
		wb := WinnerBuffer{Name: b.Name, DType: string(b.DType), Role: string(b.Role), Elements: n, Data: data.String(), Unwritten: b.Unwritten}
		if b.Role != kernels.In {
			wb.Tolerance, _ = p.ToleranceOf(b)
			if w.Tolerance == 0 || wb.Tolerance < w.Tolerance {
				w.Tolerance = wb.Tolerance
			}
		}
		w.Buffers = append(w.Buffers, wb)
	}
	values, err := p.ScalarValues(shape)
	if err != nil {
		return w, err
	}
	for i, sc := range p.Scalars {
		w.Scalars = append(w.Scalars, WinnerScalar{Name: sc.Name, DType: string(sc.DType), Value: values[i]})
	}
	w.Bytes, err = p.Bytes(shape)
	return w, err
}

// winnerSource is the file that a Winner names.
const winnerSource = "winner.cu"

// A Winner says how to launch a GPU kernel at one shape: winner.json, which
// programs that bring their own harness read.
type Winner struct {
	Kernel    string           `json:"kernel"`
	Shape     string           `json:"shape"`
	Dims      map[string]int64 `json:"dims"`
	DimsOrder []string         `json:"dims_order"`
	Source    string           `json:"source"`
	Cubin     string           `json:"cubin"`
	Entry     string           `json:"entry"`
	Grid      [3]int64         `json:"grid"`
	Block     [3]int64         `json:"block"`
	Shared    int64            `json:"shared"`
	Workspace int64            `json:"workspace"`
	// Cluster, Cooperative, TensorMaps and Then, the kernels that follow, are what the
	// expressions of kernel.toml give, strides in bytes; most kernels have none of them.
	Cluster     [3]int64              `json:"cluster,omitzero"`
	Cooperative bool                  `json:"cooperative,omitempty"`
	TensorMaps  []kernels.MapGeometry `json:"tensor_maps,omitempty"`
	Then        []kernels.Geometry    `json:"then,omitempty"`
	Buffers     []WinnerBuffer        `json:"buffers"`
	Scalars     []WinnerScalar        `json:"scalars"`
	Genome      string                `json:"genome"`
	Flags       []string              `json:"flags"`
	Target      string                `json:"target"`
	Candidate   string                `json:"candidate"`
	// Tolerance bounds max|output - reference| / RMS(reference); of several
	// outputs with tolerances of their own it is the least.
	Tolerance float64 `json:"tolerance"`
	// Bytes are what one launch must move between the device and its memory.
	Bytes float64 `json:"bytes"`
}

// A WinnerBuffer is an array argument, in the order of the prototype.
type WinnerBuffer struct {
	Name     string `json:"name"`
	DType    string `json:"dtype"`
	Role     string `json:"role"`
	Elements int64  `json:"elements"`
	// Data is what an input holds, as in kernel.toml, with numbers for expressions:
	// "normal(0,1)", "permutation(1024)".
	Data string `json:"data,omitempty"`
	// Tolerance is the output's own. Unwritten says that elements which the reference
	// leaves NaN are no part of the answer.
	Tolerance float64 `json:"tolerance,omitempty"`
	Unwritten bool    `json:"unwritten,omitempty"`
}

// A WinnerScalar is a number argument after the buffers.
type WinnerScalar struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Value float64 `json:"value"`
}
