package kernels

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/evotune/evotune/genome"
)

// A Definition is a kernel: a problem and its implementations. It is immutable
// and safe for concurrent use.
type Definition struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	License     string `json:"license,omitempty"`
	// Dir says where it was loaded from, for messages.
	Dir string `json:"dir"`
	// Hash is the SHA-256 (hex) over every file of the folder that is used.
	Hash string `json:"hash"`
	// Overrides is the folder of the kernel of the same name that this one
	// replaces; empty when there is none. Only a Catalogue sets it.
	Overrides string `json:"overrides,omitempty"`
	// Uploaded says that the folder was uploaded to a service (UploadedFile): CheckFlag
	// then bounds its flags.
	Uploaded bool    `json:"uploaded,omitempty"`
	Problem  Problem `json:"problem"`
	// Variants holds the problem for each backend where it differs from
	// Problem: in types, shapes, costs or tolerance, never in dimensions or
	// buffers.
	Variants        map[string]*Problem `json:"variants,omitempty"`
	Implementations []*Implementation   `json:"implementations"`
	// Torch adds to the PyTorch operator; nil when there is nothing to add.
	Torch *Torch `json:"torch,omitempty"`

	doc   *document         // kernel.toml, for the positions of Lint's findings
	files map[string]string // the files that were read
}

// A Torch is a Python file of the kernel's folder with functions for the PyTorch operator
// of an exported library. Their parameters are matched by name: buffers, dimensions
// and scalars of the problem.
type Torch struct {
	File string `json:"file"`
	Text string `json:"-"`
	// Forward computes the problem in PyTorch, and Backward its derivatives, with grad_NAME
	// for the gradient of the output NAME; "" when there is none.
	Forward  string `json:"forward,omitempty"`
	Backward string `json:"backward,omitempty"`
}

// Files returns the files that the definition was read from, by their slash-separated paths,
// including those of an include folder beside its own. A folder with just these files has
// the same kernel.
func (d *Definition) Files() map[string]string { return maps.Clone(d.files) }

// An Implementation is one way to compute the problem: a template and its
// space, for one backend.
type Implementation struct {
	Name     string
	Language string // Triton, or "" for C and CUDA
	Backend  string // "cpu", "cuda"
	Target   string // what the backend compiles for: "native", "sm_90a", ...
	Template string // the file
	Entry    string // the function that the harness calls
	// Flags are templates as well; flags that render to nothing are dropped.
	Flags       []string
	Parameters  []genome.Gene
	Constraints []genome.Constraint
	// ThreadsExpr is the expression behind Threads; empty means one thread.
	ThreadsExpr string
	// Include lists the files that are put beside the rendered source.
	Include []string
	// Blocking are compiler diagnostics that reject a candidate.
	Blocking []*regexp.Regexp
	// Starts are encodings of genomes that campaigns propose first, if they are valid.
	Starts []string
	// Launch is the launch geometry; nil for backends without one.
	Launch *Launch
	// TensorMaps are further arguments of the entry (GPU only).
	TensorMaps []TensorMap
	// SanitizeDims are expressions over the dimensions, the parameters and the device's
	// limits, by dimension: see SanitizeShape (GPU only).
	SanitizeDims map[string]string
	// SanitizeBlocks is the largest number of blocks along each axis of the grid that a
	// search launches under tools, the first ones; 0 is all (GPU only).
	SanitizeBlocks int64
	// Binary holds the requirements on the compiled code.
	Binary Binary
	// Profile bounds the profiler's counters for a finalist (GPU only).
	Profile []Bound

	definition *Definition
	in         *implementationTable // nil for a file of its own
	baseline   *Baseline
	main       *unit
	flags      []*unit
	threads    *expression
	files      map[string]string
	params     map[string]*node // where each parameter is declared
	whens      map[string]*expression
	checks     []*expression
	sparing    []bool // which constraints only save search time
	sanitize   map[string]*expression
	triton     *tritonSource // nil in other languages
}

// A unit is a parsed template and its origin.
type unit struct {
	tmpl *template.Template // nil for a text that is not a template
	file string             // for messages
	text string
	at   *node // of a flag, in kernel.toml; nil for a file of its own
}

// MarshalJSON encodes a description of the implementation for people and scripts.
func (im *Implementation) MarshalJSON() ([]byte, error) {
	type gene struct {
		Name    string         `json:"name"`
		Values  []genome.Value `json:"values"`
		Ordinal bool           `json:"ordinal"`
		When    string         `json:"when,omitempty"`
	}
	type constraint struct {
		Expr string `json:"expr"`
		Why  string `json:"why"`
	}
	type sanitize struct {
		Dims   map[string]string `json:"dims,omitempty"`
		Blocks int64             `json:"blocks,omitempty"`
	}
	out := struct {
		Name        string            `json:"name"`
		Language    string            `json:"language,omitempty"`
		Backend     string            `json:"backend"`
		Target      string            `json:"target"`
		Template    string            `json:"template"`
		Entry       string            `json:"entry"`
		Flags       []string          `json:"flags"`
		Threads     string            `json:"threads,omitempty"`
		Include     []string          `json:"include,omitempty"`
		Blocking    []*regexp.Regexp  `json:"blocking,omitempty"`
		Parameters  []gene            `json:"parameters"`
		Constraints []constraint      `json:"constraints,omitempty"`
		Starts      []string          `json:"start,omitempty"`
		Baseline    *Baseline         `json:"baseline,omitempty"`
		Args        map[string]string `json:"args,omitempty"`
		Launch      *Launch           `json:"launch,omitempty"`
		TensorMaps  []TensorMap       `json:"tensor_maps,omitempty"`
		Sanitize    sanitize          `json:"sanitize,omitzero"`
		Binary      Binary            `json:"binary,omitzero"`
		Profile     []Bound           `json:"profile,omitempty"`
	}{
		Name: im.Name, Language: im.Language, Backend: im.Backend, Target: im.Target, Template: im.Template, Entry: im.Entry,
		Flags: im.Flags, Threads: im.ThreadsExpr, Include: im.Include, Blocking: im.Blocking, Starts: im.Starts,
		Baseline: im.baseline, Launch: im.Launch, TensorMaps: im.TensorMaps, Sanitize: sanitize{im.SanitizeDims, im.SanitizeBlocks},
		Binary: im.Binary, Profile: im.Profile,
	}
	if im.triton != nil {
		out.Args = im.triton.describe()
	}
	for _, g := range im.Parameters {
		out.Parameters = append(out.Parameters, gene(g))
	}
	for _, c := range im.Constraints {
		out.Constraints = append(out.Constraints, constraint(c))
	}
	return json.Marshal(out)
}

// A Launch is the launch geometry of a GPU kernel: expressions over the
// dimensions, the parameters and the device's limits.
type Launch struct {
	Grid   []string `json:"grid"`             // up to three
	Block  []string `json:"block"`            // up to three
	Shared string   `json:"shared,omitempty"` // bytes of dynamic shared memory; "" is none
	// Workspace is the size in bytes of a scratch buffer that the entry gets as
	// its last argument, a void pointer; "" is none. It is zero before the
	// first launch and not touched between launches.
	Workspace string `json:"workspace,omitempty"`
	// Entry is the kernel that is launched; "" is the implementation's. All kernels of
	// a candidate have the same parameters.
	Entry string `json:"entry,omitempty"`
	// Cluster is the size of a thread block cluster in blocks, up to three axes, each of
	// which divides the grid's; nil is none.
	Cluster []string `json:"cluster,omitempty"`
	// Cooperative is the condition under which all blocks must be resident at once, so
	// that they can wait for one another; "" is never.
	Cooperative string `json:"cooperative,omitempty"`
	// Dependent is the condition under which the kernel may begin before the previous
	// one in the candidate has ended (programmatic dependent launch); "" is never.
	Dependent string `json:"dependent,omitempty"`
	// Then are the kernels that follow in the same stream. They share the workspace,
	// which the first declares.
	Then []*Launch `json:"then,omitempty"`

	grid, block, cluster   []*expression
	shared, workspace      *expression
	cooperative, dependent *expression
}

// A Geometry is the launch geometry of one genome at one shape.
type Geometry struct {
	Grid           [3]int64      `json:"grid"`
	Block          [3]int64      `json:"block"`
	SharedBytes    int64         `json:"shared"`
	WorkspaceBytes int64         `json:"workspace,omitempty"`
	Entry          string        `json:"entry,omitempty"`  // "" is the implementation's
	Cluster        [3]int64      `json:"cluster,omitzero"` // zero without clusters
	Cooperative    bool          `json:"cooperative,omitempty"`
	Dependent      bool          `json:"dependent,omitempty"`
	Maps           []MapGeometry `json:"tensor_maps,omitempty"`
	Then           []Geometry    `json:"then,omitempty"` // only the first has WorkspaceBytes and Maps
}

// A TensorMap is a descriptor by which the tensor memory accelerator copies boxes of a
// buffer: one more argument of the entry, const __grid_constant__ evotune_tensor_map NAME,
// between the scalars and the workspace. Dims, Strides and Box are expressions over the
// dimensions, the parameters and the device's limits, the innermost axis first.
type TensorMap struct {
	Name   string `json:"name"`
	Buffer string `json:"buffer"`
	// DType is how elements are read; "" is the buffer's type.
	DType DType    `json:"dtype,omitempty"`
	Dims  []string `json:"dims"` // elements, one to five axes
	// Strides are the elements from one index to the next, for every axis but the
	// first; nil means a packed array.
	Strides []string `json:"strides,omitempty"`
	Box     []string `json:"box"` // elements, 1 to 256 along each axis
	// Swizzle (0, 32, 64 or 128) and Promotion (0, 64, 128 or 256) are bytes; "" is 0.
	Swizzle   string `json:"swizzle,omitempty"`
	Promotion string `json:"promotion,omitempty"`
	// Fill is the value outside of the array: "zeros" (also "") or "nan".
	Fill string `json:"fill,omitempty"`

	dims, strides, box []*expression
	swizzle, promotion *expression
}

// A MapGeometry is a tensor map of one genome at one shape. Strides are in bytes.
type MapGeometry struct {
	Buffer    int     `json:"buffer"` // index among the problem's
	DType     DType   `json:"dtype"`
	Dims      []int64 `json:"dims"`
	Strides   []int64 `json:"strides,omitempty"` // one fewer
	Box       []int64 `json:"box"`
	Swizzle   int64   `json:"swizzle,omitempty"`
	Promotion int64   `json:"promotion,omitempty"` // bytes
	NaN       bool    `json:"nan,omitempty"`       // the value outside of the array, instead of 0
}

// at evaluates the geometry of a kernel and of those that follow. With an error it
// returns the expression that failed.
func (l *Launch) at(env map[string]any) (Geometry, *expression, error) {
	geo, failed, err := l.alone(env)
	for _, next := range l.Then {
		if err != nil {
			break
		}
		var one Geometry
		if one, failed, err = next.at(env); err == nil {
			geo.Then = append(geo.Then, one)
		}
	}
	return geo, failed, err
}

// maxCluster is the largest size of a cluster, in blocks, that every device with
// clusters supports.
const maxCluster = 8

// alone evaluates the geometry of one kernel.
func (l *Launch) alone(env map[string]any) (Geometry, *expression, error) {
	geo := Geometry{Grid: [3]int64{1, 1, 1}, Block: [3]int64{1, 1, 1}, Entry: l.Entry}
	var failed *expression
	var fault error
	eval := func(e *expression, to *int64, what string, least int64) {
		if e == nil || fault != nil {
			return
		}
		n, err := e.prog.Int(env)
		switch {
		case err != nil:
			failed, fault = e, fmt.Errorf("%s: %w", what, err)
		case n < least:
			failed, fault = e, fmt.Errorf("%s: %q gives %d, expected at least %d", what, e.src, n, least)
		}
		*to = n
	}
	for i, e := range l.grid {
		eval(e, &geo.Grid[i], "grid", 1)
	}
	for i, e := range l.block {
		eval(e, &geo.Block[i], "block", 1)
	}
	eval(l.shared, &geo.SharedBytes, "shared", 0)
	eval(l.workspace, &geo.WorkspaceBytes, "workspace", 0)
	cluster, blocks := [3]int64{1, 1, 1}, int64(1)
	for i, e := range l.cluster {
		eval(e, &cluster[i], "cluster", 1)
		if fault != nil {
			break
		}
		// Each factor is at most 8 here, so the product cannot overflow.
		switch n := cluster[i]; {
		case n > maxCluster || n*blocks > maxCluster:
			failed, fault = e, advised{fmt.Errorf("cluster: %s gives more than %d blocks, the most that a cluster has", strings.Join(l.Cluster[:i+1], " * "), maxCluster), "choose a smaller one"}
		case geo.Grid[i]%n != 0:
			failed, fault = e, advised{fmt.Errorf("cluster: %q gives %d blocks, which do not divide the grid's %d", e.src, n, geo.Grid[i]), "round the grid up, or add a constraint"}
		default:
			blocks *= n
		}
	}
	if blocks > 1 { // a cluster of one block is launched without clusters
		geo.Cluster = cluster
	}
	condition := func(e *expression, to *bool, what string) {
		if e == nil || fault != nil {
			return
		}
		var err error
		if *to, err = e.holds(env); err != nil {
			failed, fault = e, fmt.Errorf("%s: %w", what, err)
		}
	}
	condition(l.cooperative, &geo.Cooperative, "cooperative")
	condition(l.dependent, &geo.Dependent, "dependent")
	return geo, failed, fault
}

// Binary holds requirements on the compiled code. A backend that cannot check
// one of them refuses the definition.
type Binary struct {
	// Require lists patterns of mnemonics: each must occur in the entry's code. Those
	// of Forbid must not occur.
	Require []Requirement    `json:"require,omitempty"`
	Forbid  []*regexp.Regexp `json:"forbid,omitempty"`
	// MaxStack bounds the stack frame in bytes: of any function (CPU), of a
	// thread (GPU). MaxRegisters bounds the registers of a thread and MaxSpill
	// the bytes that it spills (GPU only). Nil sets no bound.
	MaxStack     *int64 `json:"max_stack,omitempty"`
	MaxRegisters *int64 `json:"max_registers,omitempty"`
	MaxSpill     *int64 `json:"max_spill,omitempty"`
}

// A Requirement is a pattern that some mnemonic of the entry's code must match.
type Requirement struct {
	Pattern *regexp.Regexp `json:"pattern"`
	// When is a condition over the parameters; empty means always.
	When string `json:"when,omitempty"`

	when *expression
}

// Counters lists the counters that a definition can bound in the profile of a finalist.
// The first four and the last are percentages of what the device can sustain; bank
// conflicts are a count over the launch.
func Counters() []string {
	return []string{"SM busy", "tensor pipe active", "DRAM throughput", "L2 throughput", "shared memory bank conflicts", "achieved occupancy"}
}

// A Bound is the range in which a counter of a finalist's profile must lie. A counter
// that could not be read breaks no bound.
type Bound struct {
	Counter string `json:"counter"` // one of Counters
	// Min and Max are in the counter's unit; nil sets no bound.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// When is a condition over the parameters; empty means always.
	When string `json:"when,omitempty"`

	when *expression
}

// A BaselineKind says what a baseline is.
type BaselineKind string

// The kinds of baselines.
const (
	BaselineGenome  BaselineKind = "genome"  // the implementation with fixed parameters
	BaselineSource  BaselineKind = "source"  // a C file of its own
	BaselineLibrary BaselineKind = "library" // a function of an installed library
)

// A Baseline is the reference for the speedups of a problem on a backend.
type Baseline struct {
	Kind BaselineKind `json:"kind"`
	// Genome gives every active parameter its value (BaselineGenome, or
	// BaselineLibrary, where it stands in for a library that is not installed or does not
	// compute a shape). If the parameter's values are integers and the given one is text,
	// it is an expression over the dimensions; see [Baseline.At].
	Genome map[string]any `json:"genome,omitempty"`
	// Source and Flags are a C file with the entry's signature, and how to
	// compile it (BaselineSource). The flags are not templates.
	Source *Source  `json:"source,omitempty"`
	Flags  []string `json:"flags,omitempty"`
	// Library and Symbol name a shared library and the function in it that has
	// the kernel's signature (BaselineLibrary).
	Library string `json:"library,omitempty"`
	Symbol  string `json:"symbol,omitempty"`

	owner *Implementation
	exprs map[string]*expression // of Genome
}

// At returns the values of the baseline's genome at a shape.
func (b *Baseline) At(s Shape) (map[string]any, error) {
	values := maps.Clone(b.Genome)
	for name, e := range b.exprs {
		n, err := e.prog.Int(s.env())
		if err != nil {
			return nil, b.owner.fail(e.at, "the baseline's %s at shape %s: %v", name, s.Name, err)
		}
		values[name] = n
	}
	return values, nil
}

// Implementation returns the implementation that declares the baseline.
func (b *Baseline) Implementation() *Implementation { return b.owner }

// String describes the baseline in a few words.
func (b *Baseline) String() string {
	switch b.Kind {
	case BaselineGenome:
		return b.Instead()
	case BaselineSource:
		return b.Source.File
	}
	return b.Symbol + " of " + b.Library
}

// BaselineVaries says whether a genome stands in for a library that is not installed: the baseline
// then depends on the machine.
func (d *Definition) BaselineVaries() bool {
	return slices.ContainsFunc(d.Implementations, func(im *Implementation) bool { return im.Baseline().Varies() })
}

// Varies says whether a genome stands in for the library.
func (b *Baseline) Varies() bool { return b.Kind == BaselineLibrary && b.Genome != nil }

// Instead describes the baseline's genome in a few words.
func (b *Baseline) Instead() string {
	return b.owner.Name + " with its baseline genome"
}

// Baseline returns the baseline of the problem on the implementation's backend,
// whichever implementation declares it. There always is one.
func (im *Implementation) Baseline() *Baseline {
	for _, other := range im.definition.Implementations {
		if other.Backend == im.Backend && other.baseline != nil {
			return other.baseline
		}
	}
	return nil // Load prevents this
}

// Definition returns the kernel that the implementation belongs to.
func (im *Implementation) Definition() *Definition { return im.definition }

// ProblemOn returns the problem for a backend.
func (d *Definition) ProblemOn(backend string) *Problem {
	if p := d.Variants[backend]; p != nil {
		return p
	}
	return &d.Problem
}

// Flags lists the dimensions that are flags on all backends, such as a causal mask:
// those that are 0 or 1 in every shape on every backend, and 0 in some.
func (d *Definition) Flags() []string {
	problems := append(slices.Collect(maps.Values(d.Variants)), &d.Problem)
	return slices.DeleteFunc(slices.Clone(d.Problem.Dims), func(dim string) bool {
		sizes := sizesOf(dim, problems...)
		delete(sizes, 1)
		return len(sizes) != 1 || !sizes[0]
	})
}

// Flags lists the dimensions that are flags in the problem's own shapes: those that are
// 0 in some shapes and 1 in all others, with at least one of each.
func (p *Problem) Flags() []string {
	return slices.DeleteFunc(slices.Clone(p.Dims), func(dim string) bool {
		sizes := sizesOf(dim, p)
		return len(sizes) != 2 || !sizes[0] || !sizes[1]
	})
}

// sizesOf returns the sizes that a dimension has in the shapes of problems.
func sizesOf(dim string, problems ...*Problem) map[int64]bool {
	all := map[int64]bool{}
	for _, p := range problems {
		for _, s := range p.Shapes {
			all[s.Dims[dim]] = true
		}
	}
	return all
}

// On returns the kernel for a backend: its problem and its implementations, possibly
// none.
func (d *Definition) On(backend string) *Definition {
	c := *d
	c.Problem, c.Variants, c.Implementations = *d.ProblemOn(backend), nil, nil
	for _, im := range d.Implementations {
		if im.Backend == backend {
			c.Implementations = append(c.Implementations, im)
		}
	}
	return &c
}

// Problem returns the problem for the implementation's backend.
func (im *Implementation) Problem() *Problem { return im.definition.ProblemOn(im.Backend) }

// Limiting lists the constraints that say what can be computed: all except those that
// only save search time.
func (im *Implementation) Limiting() []genome.Constraint {
	var list []genome.Constraint
	for i, c := range im.Constraints {
		if !im.sparing[i] {
			list = append(list, c)
		}
	}
	return list
}

// Supports says why the implementation, with a genome, cannot compute a shape:
// the constraint over the dimensions that does not hold there. It is nil when
// it can. Constraints that only save search time are not checked.
func (im *Implementation) Supports(g genome.Genome, s Shape, limits map[string]any) error {
	return im.holds(g, s, limits, false)
}

// holds is Supports, with sparing also of the constraints that only save search time.
func (im *Implementation) holds(g genome.Genome, s Shape, limits map[string]any, sparing bool) error {
	env := s.env()
	known, err := withDefaults(limits)
	if err != nil {
		return err
	}
	maps.Copy(env, known)
	maps.Copy(env, g.Map())
	for i, e := range im.checks {
		dims := slices.ContainsFunc(e.prog.Names(), func(n string) bool { _, ok := s.Dims[n]; return ok })
		active := !slices.ContainsFunc(e.prog.Names(), func(n string) bool { _, ok := env[n]; return !ok })
		if !dims || !active || im.sparing[i] && !sparing {
			continue
		}
		ok, err := e.prog.Bool(env)
		if err != nil {
			return im.fail(e.at, "at shape %s: %v", s.Name, err)
		}
		if !ok {
			c := im.Constraints[i]
			return fmt.Errorf("at shape %s it breaks the constraint %s (%s)", s.Name, c.Expr, c.Why)
		}
	}
	return nil
}

// Computable says whether some genome of an implementation could compute a shape. If
// constraints over the dimensions alone exclude a shape, its reference, which may support
// only some sizes, is never needed.
func Computable(list []*Implementation, s Shape) bool {
	return slices.ContainsFunc(list, func(im *Implementation) bool { return im.Supports(genome.Genome{}, s, nil) == nil })
}

// ImplementationGene is the gene that selects the implementation in a space over
// several.
const ImplementationGene = "implementation"

// Space returns the space of one implementation, or of several; its first gene,
// "implementation", then selects one of them. A constraint must hold for every shape.
// Limits describe the device (see [Limits]); missing ones have their defaults, and nil
// stands for the least device that the target of a single implementation can run on.
// The error wraps genome.ErrEmpty when no genome is valid; of several implementations it
// is an *EmptyError as soon as one has none.
func (d *Definition) Space(impls []*Implementation, shapes []Shape, limits map[string]any) (*genome.Space, error) {
	if len(impls) == 0 {
		return nil, fmt.Errorf("kernel %s: no implementation was chosen", d.Name)
	}
	if len(shapes) == 0 {
		return nil, fmt.Errorf("kernel %s: no shape was chosen", d.Name)
	}
	if limits == nil && len(impls) == 1 {
		limits = leastLimits(impls[0].Target)
	}
	known, err := withDefaults(limits)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", d.Name, err)
	}
	envs := make([]map[string]any, len(shapes))
	for i, s := range shapes {
		envs[i] = s.env()
		maps.Copy(envs[i], known)
	}
	var space *genome.Space
	if len(impls) == 1 {
		space, err = genome.NewSpace(impls[0].Parameters, impls[0].Constraints, envs...)
	} else {
		alts := make([]genome.Alternative, len(impls))
		for i, im := range impls {
			alts[i] = genome.Alternative{Name: im.Name, Genes: im.Parameters, Constraints: im.Constraints}
		}
		space, err = genome.NewUnion(ImplementationGene, alts, envs...)
		if errors.Is(err, genome.ErrEmpty) {
			return nil, newEmptyError(d.Name, impls, shapes, envs)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", d.Name, err)
	}
	return space, nil
}

// fitDraws is how many genomes Fits looks at before it compiles a space.
const fitDraws = 64

// Fits says whether each of the implementations has genomes for one more shape than those of their
// space, as the error of Space would: a genome of the space that is valid there shows it.
func (d *Definition) Fits(space *genome.Space, impls []*Implementation, shapes []Shape, more Shape, limits map[string]any) bool {
	at := limits
	if at == nil && len(impls) == 1 {
		at = leastLimits(impls[0].Target)
	}
	fit := map[*Implementation]bool{}
	rng := rand.New(rand.NewSource(1))
	for range fitDraws {
		g := space.Random(rng)
		if im := d.Implementation(g, impls); !fit[im] && im.holds(g, more, at, true) == nil {
			fit[im] = true
		}
		if len(fit) == len(impls) {
			return true
		}
	}
	_, err := d.Space(impls, append(slices.Clone(shapes), more), limits)
	return err == nil
}

// An EmptyError says which of several implementations cannot compute some shapes: none of
// their genomes is valid there.
type EmptyError struct {
	Kernel string
	Shapes []string // their names
	// Left are these implementations, and Why, in the same order, what excludes
	// their genomes.
	Left []*Implementation
	Why  []error
}

func newEmptyError(kernel string, impls []*Implementation, shapes []Shape, envs []map[string]any) *EmptyError {
	e := &EmptyError{Kernel: kernel}
	for _, s := range shapes {
		e.Shapes = append(e.Shapes, s.Name)
	}
	for _, im := range impls {
		if _, err := genome.NewSpace(im.Parameters, im.Constraints, envs...); err != nil {
			e.Left, e.Why = append(e.Left, im), append(e.Why, err)
		}
	}
	return e
}

// Lines says of each implementation in one line why it cannot compute the shapes.
func (e *EmptyError) Lines() []string {
	lines := make([]string, len(e.Left))
	for i, im := range e.Left {
		lines[i] = fmt.Sprintf("%s cannot compute %s: %s", im.Name, strings.Join(e.Shapes, ", "), strings.TrimPrefix(e.Why[i].Error(), "space: "))
	}
	return lines
}

func (e *EmptyError) Error() string {
	return "kernel " + e.Kernel + ": " + strings.Join(e.Lines(), "; ")
}

// Unwrap gives the reasons.
func (e *EmptyError) Unwrap() []error { return e.Why }

// Implementation returns the one of impls that a genome of their space selects; nil
// when the genome names none of them.
func (d *Definition) Implementation(g genome.Genome, impls []*Implementation) *Implementation {
	if len(impls) == 1 {
		return impls[0]
	}
	v, _ := g.Get(ImplementationGene)
	for _, im := range impls {
		if v == genome.Str(im.Name) {
			return im
		}
	}
	return nil
}

// Threads returns how many threads a candidate starts, including its own.
func (im *Implementation) Threads(g genome.Genome) (int, error) {
	if im.threads == nil {
		return 1, nil
	}
	n, err := im.threads.prog.Int(g.Map())
	if err != nil {
		return 0, im.fail(im.threads.at, "threads: %v", err)
	}
	if n < 1 || n > maxThreads {
		return 0, im.fail(im.threads.at, "threads: %q gives %d for the genome %s, expected 1 to %d", im.threads.src, n, g, maxThreads)
	}
	return int(n), nil
}

// maxThreads bounds the threads of a candidate.
const maxThreads = 1024

// Geometry computes the launch geometry of a genome at a shape, on a device with the
// given limits (see [Limits]); missing ones have their defaults. It fails for
// implementations without a launch.
func (im *Implementation) Geometry(g genome.Genome, s Shape, limits map[string]any) (Geometry, error) {
	if im.Launch == nil {
		return Geometry{}, fmt.Errorf("implementation %s has no launch geometry", im.Name)
	}
	env := s.env()
	known, err := withDefaults(limits)
	if err != nil {
		return Geometry{}, err
	}
	maps.Copy(env, known)
	maps.Copy(env, g.Map())
	geo, failed, err := im.Launch.at(env)
	if err == nil {
		geo.Maps, failed, err = im.maps(env, s)
	}
	if err != nil {
		advice, a := "", advised{}
		if errors.As(err, &a) {
			advice = ": " + a.advice
		}
		return geo, im.fail(failed.at, "%v, for the genome %s at shape %s%s", err, g, s.Name, advice)
	}
	return geo, nil
}

// fail makes a rendering error for a place in kernel.toml.
func (im *Implementation) fail(at *node, format string, args ...any) error {
	e := im.definition.doc.fault(at.at, format, args...)
	e.Err = ErrRender
	return e
}
