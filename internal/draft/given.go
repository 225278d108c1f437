package draft

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/naming"
	"github.com/evotune/evotune/internal/sources"
	"github.com/evotune/evotune/internal/strict"
	"github.com/evotune/evotune/internal/tomltext"
	"github.com/evotune/evotune/kernels"
)

// Given is what a source does not say about its kernel. With it [From] leaves
// nothing to fill in. What has a default may be left out; the draft says what was
// assumed.
type Given struct {
	Description string `json:"description"`
	// Dims are the dimensions, in their order.
	Dims []string `json:"dims"`
	// Operations, Bytes and Pipe are those of the problem. Without operations their
	// floor is not checked; the default for bytes is those of the buffers, each
	// moved once.
	Operations string         `json:"operations"`
	Bytes      string         `json:"bytes"`
	Pipe       string         `json:"pipe"`
	Reference  GivenReference `json:"reference"`
	Torch      GivenTorch     `json:"torch"`
	// Files are further files of the folder, such as the reference.
	Files map[string]string `json:"files"`
	// Shapes are the shapes with their uses. If there is none to verify, or none for
	// the sanitizers, one is made.
	Shapes []kernels.Shape `json:"shapes"`
	// Buffers and Scalars are arguments of the source's function, by name.
	Buffers []GivenBuffer `json:"buffers"`
	Scalars []GivenScalar `json:"scalars"`
	// Aliases are other names for arguments of the source's function, by the source's name: for
	// one that no dimension can have, such as len or in.
	Aliases map[string]string `json:"aliases"`
	// Tolerance is by type; a type that it does not name has the usual one.
	Tolerance map[kernels.DType]float64 `json:"tolerance"`
	// Parameters are what to tune: template parameters of the function, macros or
	// constants of the source, or names in the actions of a source that is a template.
	// If there are none, comments in the source name them.
	Parameters  []GivenParameter    `json:"parameters"`
	Constraints []genome.Constraint `json:"constraints"`
	// Baseline is the baseline's genome; by default the first valid one, parameters and
	// values in their order.
	Baseline map[string]json.RawMessage `json:"baseline"`
	Target   string                     `json:"target"`
	Flags    []string                   `json:"flags"`
	// Grid, Block and Shared are the launch geometry of a kernel in CUDA.
	Grid   []string `json:"grid"`
	Block  []string `json:"block"`
	Shared string   `json:"shared"`
	// Args are the arguments of an implementation in Triton: names or expressions as texts,
	// numbers and booleans.
	Args map[string]json.RawMessage `json:"args"`
	// Python says that the constraints and the launch are written in Python.
	Python  bool  `json:"python"`
	watched int64 // blocks of each axis that a search launches under tools; 0 is all
	// open says that texts that begin with kernels.FillIn are left to fill in. why says of assumed values, as "data of x", what
	// they are; sizes has what is to fill in for a shape.
	open       bool
	why, sizes map[string]string
}

// A GivenReference has the keys of [problem.reference].
type GivenReference struct {
	Source  string `json:"source"`
	Python  string `json:"python"`
	Entry   string `json:"entry"`
	Library string `json:"library"`
	// Baseline says that there is no reference: the kernel itself with its baseline's
	// values is the oracle. Grid and Block are then its launch in C, for a kernel in
	// CUDA, over the dimensions and the macros of the source.
	Baseline bool            `json:"baseline"`
	Grid     []string        `json:"grid"`
	Block    []string        `json:"block"`
	device   *kernels.Launch // launch of the same on a GPU; nil if there is none
}

// A GivenTorch has the keys of [torch], which is written if it has a source.
type GivenTorch struct {
	Source   string `json:"source"`
	Forward  string `json:"forward"`
	Backward string `json:"backward"`
}

// A GivenBuffer has the keys of [[problem.buffer]].
type GivenBuffer struct {
	Name      string        `json:"name"`
	DType     kernels.DType `json:"dtype"`
	Shape     []string      `json:"shape"`
	Role      kernels.Role  `json:"role"`
	Data      string        `json:"data"`
	Domain    string        `json:"domain"`
	Tolerance *float64      `json:"tolerance"`
}

// A GivenScalar has the keys of [[problem.scalar]].
type GivenScalar struct {
	Name  string        `json:"name"`
	DType kernels.DType `json:"dtype"`
	Value string        `json:"value"`
	Also  []float64     `json:"also"`
}

// A GivenParameter is a parameter with its values: numbers, texts or booleans, of one
// kind.
type GivenParameter struct {
	Name   string            `json:"name"`
	Values []json.RawMessage `json:"values"`
}

// ParseGiven reads a Given from JSON. An unknown key is an error, and so is one that is there twice.
func ParseGiven(text []byte) (*Given, error) {
	d := json.NewDecoder(strings.NewReader(strings.TrimPrefix(string(text), "\uFEFF")))
	d.DisallowUnknownFields()
	g := &Given{}
	err := strict.Check(text, g)
	if err == nil {
		err = d.Decode(g)
	}
	if err != nil {
		return nil, fmt.Errorf("what is given of a kernel: %w", err)
	}
	return g, nil
}

// Translate replaces the Python expressions by those of a definition: the restrictions
// all at once, those of the launch one by one.
func (g *Given) Translate(restrictions func(python []string) ([]string, error), expression func(python string) (string, error)) error {
	if !g.Python {
		return nil
	}
	of := func(what string, at *string) error {
		text, err := expression(*at)
		if err != nil {
			return fmt.Errorf("%s %q: %w", what, *at, err)
		}
		*at = text
		return nil
	}
	texts := make([]string, len(g.Constraints))
	for i, c := range g.Constraints {
		texts[i] = c.Expr
	}
	texts, err := restrictions(texts)
	if err != nil {
		return err
	}
	for i, text := range texts {
		g.Constraints[i].Expr = text
	}
	for _, list := range [][]string{g.Grid, g.Block} {
		for i := range list {
			if err := of("of the launch", &list[i]); err != nil {
				return err
			}
		}
	}
	g.Python = false
	return nil
}

// scalarJSON reads a number, a text or a boolean.
func scalarJSON(raw json.RawMessage) (any, error) {
	text := string(raw)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	} else if errors.Is(err, strconv.ErrRange) {
		return nil, fmt.Errorf("%s does not fit into 64 bits: give a smaller number", text)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	switch v.(type) {
	case float64, string, bool:
		return v, nil
	}
	return nil, fmt.Errorf("%s is neither a number, a text nor true or false", text)
}

// givenParameters takes the parameters from what is given.
func (s *source) givenParameters() error {
	g := s.given
	texts := []string{s.text, g.Shared}
	for _, text := range s.included {
		texts = append(texts, text)
	}
	for _, c := range g.Constraints {
		texts = append(texts, c.Expr)
	}
	whole := strings.Join(slices.Concat(texts, g.Grid, g.Block, g.Flags), "\n")
	if err := s.givenValues(); err != nil {
		return err
	}
	for i := range s.params {
		if err := s.place(&s.params[i], whole); err != nil {
			return err
		}
	}
	return nil
}

// givenValues takes the values of the parameters.
func (s *source) givenValues() error {
	for _, p := range s.given.Parameters {
		t := tuned{name: p.Name, at: s.entry.name}
		if !expr.IsName(p.Name) {
			return s.fault(-1, "%q cannot name a parameter: use letters, digits and _, not a digit first", p.Name)
		}
		for _, raw := range p.Values {
			v, err := scalarJSON(raw)
			if err != nil {
				return s.fault(-1, "the parameter %s: %v", p.Name, err)
			}
			t.values = append(t.values, v)
		}
		if len(t.values) == 0 {
			return s.fault(-1, "the parameter %s has no values: give at least one", p.Name)
		}
		// One number that is not an integer makes it a list of floats.
		if slices.ContainsFunc(t.values, func(v any) bool { _, float := v.(float64); return float }) {
			for i, v := range t.values {
				if n, whole := v.(int64); whole {
					t.values[i] = float64(n)
				}
			}
		}
		t.base = t.values[0]
		s.params = append(s.params, t)
	}
	return nil
}

// place finds a parameter in the source, and inserts its value.
func (s *source) place(t *tuned, whole string) error {
	if i := slices.IndexFunc(s.templates, func(p tuned) bool { return p.name == t.name }); i >= 0 {
		s.templates[i].fixed, s.templates[i].values = "", t.values
		t.at = s.templates[i].at
		return nil
	}
	word := regexp.MustCompile(`\b` + t.name + `\b`)
	if s.actions {
		if !word.MatchString(whole) {
			return s.fault(-1, "nothing reads the parameter %s: write {{.%s}} where its value belongs", t.name, t.name)
		}
		return nil
	}
	value := "{{." + t.name + "}}"
	if _, is := t.base.(bool); is { // C has true and false only with a header
		value = "{{if ." + t.name + "}}1{{else}}0{{end}}"
	}
	found := false
	for _, at := range regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+`+t.name+`\b([ \t]+[^\r\n/]*[^\r\n/ \t])?`).FindAllStringSubmatchIndex(s.text, -1) {
		if at[2] < 0 {
			at[2], at[3] = at[1], at[1]
		}
		s.edits = append(s.edits, edit{at[2], at[3], " " + value})
		t.at, found = at[0], true
	}
	for _, at := range regexp.MustCompile(`\bconst(?:expr)?\b[^;=(){}]*?\b`+t.name+`\s*=\s*([^;]*?)\s*;`).FindAllStringSubmatchIndex(s.bare, -1) {
		s.edits = append(s.edits, edit{at[2], at[3], value})
		t.at, found = at[2], true
	}
	if found {
		return nil
	}
	if !word.MatchString(whole) {
		return s.fault(-1, "nothing reads the parameter %s: neither the source, the launch, a flag nor a constraint has its name", t.name)
	}
	s.defines += "#define " + t.name + " " + value + "\n"
	return nil
}

// template says whether a source is a template itself: it has actions that name parameters.
func (g *Given) template(text string) bool {
	for _, p := range g.Parameters {
		if regexp.MustCompile(`\{\{[^}]*\.` + regexp.QuoteMeta(p.Name) + `\b`).MatchString(text) {
			return true
		}
	}
	return false
}

var action = regexp.MustCompile(`(?s)\{\{.*?\}\}`)

// match matches the arguments of the source's function by name with what is given.
func (s *source) match() error {
	g := s.given
	var buffers, numbers []string
	for _, b := range g.Buffers {
		buffers = append(buffers, b.Name)
	}
	numbers = append(numbers, g.Dims...)
	for _, sc := range g.Scalars {
		numbers = append(numbers, sc.Name)
	}
	passed := map[string]bool{}
	for _, a := range s.arguments {
		passed[a.name] = true
		i := slices.Index(buffers, a.name)
		switch {
		case a.pointer && i < 0:
			return s.fault(s.entry.name, "the pointer %s of %s is neither an input nor an output: name one of them like it; there are %s", a.name, s.entry.id, strings.Join(buffers, ", "))
		case !a.pointer && !slices.Contains(numbers, a.name):
			return s.fault(s.entry.name, "the argument %s of %s is neither a dimension nor a scalar: give it as one; there are %s", a.name, s.entry.id, strings.Join(numbers, ", "))
		case a.pointer && a.dtype != "" && a.dtype != g.Buffers[i].DType && (!a.cast || a.dtype.Size() != g.Buffers[i].DType.Size()):
			return s.fault(s.entry.name, "%s of %s points to %s, and is given as %s: correct one of the two", a.name, s.entry.id, a.ctype, g.Buffers[i].DType)
		case a.pointer && a.input && g.Buffers[i].Role != kernels.In:
			return s.fault(s.entry.name, "%s of %s points to const, and is given as an output: correct one of the two", a.name, s.entry.id)
		}
	}
	for name, alias := range g.Aliases {
		if !slices.ContainsFunc(s.arguments, func(a argument) bool { return a.source == name }) {
			return s.fault(s.entry.name, "%s has no argument %s, which is to be named %s: correct the name", s.entry.id, name, alias)
		}
	}
	returned := s.result
	s.result = nil
	for i, name := range buffers {
		if !passed[name] && returned != nil && g.Buffers[i].Role == kernels.Out {
			if returned.dtype != g.Buffers[i].DType {
				return s.fault(s.entry.name, "%s returns %s, and %s is given as %s: correct one of the two", s.entry.id, returned.ctype, name, g.Buffers[i].DType)
			}
			returned.name, s.result, returned = name, returned, nil
			continue
		}
		if !passed[name] {
			return s.fault(s.entry.name, "%s has no argument %s: %s", s.entry.id, name, naming.Suggest(name, slices.Sorted(maps.Keys(passed))))
		}
	}
	return nil
}

// passed lists the parameters of the function that evotune calls, and the arguments with
// which it calls the source's.
func (s *source) passed() (params, call []string) {
	for _, d := range s.given.Dims {
		params = append(params, "int64_t "+d)
	}
	for _, b := range s.given.Buffers {
		star := " *"
		if s.cuda && slices.ContainsFunc(s.arguments, func(a argument) bool { return a.name == b.Name && a.restrict }) {
			star = " *__restrict__ "
		}
		ctype := b.DType.C()
		if s.cuda && b.DType.Float() {
			ctype = deviceType(b.DType)
		}
		if b.Role == kernels.In {
			ctype = "const " + ctype
		}
		params = append(params, ctype+star+b.Name)
	}
	for _, sc := range s.given.Scalars {
		params = append(params, sc.DType.C()+" "+sc.Name)
	}
	for _, a := range s.arguments {
		switch {
		case a.nested: // whatever the array's sizes
			call = append(call, "(void *)"+a.name)
		case a.pointer:
			call = append(call, "("+s.instance(a.ctype)+" *)"+a.name)
		default:
			call = append(call, a.name)
		}
	}
	return params, call
}

// deviceType is a floating-point type's name in CUDA.
func deviceType(t kernels.DType) string {
	switch t {
	case kernels.F16:
		return "__half"
	case kernels.BF16:
		return "__nv_bfloat16"
	case kernels.E4M3, kernels.E5M2:
		return "__nv_fp8_" + string(t)
	}
	return t.C()
}

// sizesTried are the sizes of a made shape, dimension by dimension; smaller sizes of the
// tuned shape are kept. Tiles begin and end within the first; the others are smaller, or
// for kernels that compute only whole tiles, as constraints say.
var sizesTried = map[kernels.Use][][]int64{
	kernels.Verify:   {{131, 203, 77}, {192, 320, 128}, {256}, {1024}},
	kernels.Sanitize: {{139, 149, 67}, {67, 139, 35}, {33, 47, 21}, {9, 11, 7}, {128}, {64}, {256}, {32}, {16}},
}

// like makes a shape with the given sizes from a tuned one.
func (g *Given) like(tuned kernels.Shape, use kernels.Use, sizes []int64) kernels.Shape {
	s := kernels.Shape{Name: string(use), Use: use, Dims: map[string]int64{}}
	for i, d := range g.Dims {
		s.Dims[d] = min(sizes[i%len(sizes)], tuned.Dims[d])
	}
	return s
}

// bytesOf is the size of the buffers, each moved once.
func (g *Given) bytesOf() string {
	by := map[int64][]string{}
	for _, b := range g.Buffers {
		factors := make([]string, len(b.Shape))
		for i, x := range b.Shape {
			factors[i] = x
			if !expr.IsName(x) && !wholeNumber.MatchString(x) {
				factors[i] = "(" + x + ")"
			}
		}
		n := b.DType.Size()
		by[n] = append(by[n], strings.Join(factors, "*"))
		if b.Role == kernels.InOut {
			by[n] = append(by[n], strings.Join(factors, "*"))
		}
	}
	var sums []string
	for _, n := range slices.Sorted(maps.Keys(by)) {
		sums = append(sums, fmt.Sprintf("%d*(%s)", n, strings.Join(by[n], " + ")))
	}
	return strings.Join(sums, " + ")
}

// scaffoldGiven writes the folder of a source with everything given.
func (s *source) scaffoldGiven(dir, name string, included map[string]string) (*Draft, error) {
	g := s.given
	load := func(d *drafted, keep bool, look func(*kernels.Definition) error) error {
		return newFolder(dir, name, d.files(), func(temp string) error {
			def, err := kernels.LoadDir(temp)
			var e *kernels.Error
			if errors.As(err, &e) && s.python && filepath.Base(e.File) == pythonTemplate {
				return &kernels.Error{File: s.file, Line: e.Line, Msg: e.Msg, Err: kernels.ErrDefinition} // the text is the same
			} else if errors.As(err, &e) {
				return s.fault(-1, "no definition can be made of it: %s", e.Msg)
			}
			if err != nil || look == nil {
				return err
			}
			return look(def)
		}, keep)
	}
	tuned := slices.IndexFunc(g.Shapes, func(x kernels.Shape) bool { return x.Use == kernels.Tune })
	if tuned < 0 {
		return nil, s.fault(-1, "no shape is to be tuned for: give one with the sizes %s", strings.Join(g.Dims, ", "))
	}
	made := map[kernels.Use]bool{}
	for _, use := range []kernels.Use{kernels.Verify, kernels.Sanitize} {
		made[use] = !slices.ContainsFunc(g.Shapes, func(x kernels.Shape) bool { return x.Use == use })
		if made[use] { // as a tuned one, until the definition can say what it computes
			x := g.like(g.Shapes[tuned], use, []int64{math.MaxInt64})
			g.Shapes = append(g.Shapes, x)
		}
	}
	if g.Reference.Baseline { // a placeholder, until the baseline is known
		g.Reference.Source, g.Reference.Entry = "reference.c", "reference"
		g.Files = maps.Clone(g.Files)
		if g.Files == nil {
			g.Files = map[string]string{}
		}
		g.Files["reference.c"] = "void reference();\n"
	}
	genes := map[string]any{}
	if len(g.Baseline) > 0 {
		for name, raw := range g.Baseline {
			v, err := scalarJSON(raw)
			if err != nil {
				return nil, s.fault(-1, "the baseline's %s: %v", name, err)
			}
			genes[name] = v
		}
	}
	// The first load is for the space, whose first genome is the baseline.
	err := load(s.folder(g, name, included, nil, made), false, func(def *kernels.Definition) error {
		im := def.Implementations[0]
		space, err := def.Space(def.Implementations, def.Problem.ShapesFor(kernels.Tune), nil)
		if err != nil {
			return s.fault(-1, "no definition can be made of it: %v", err)
		}
		var base genome.Genome
		if len(genes) > 0 {
			base, err = space.FromMap(genes)
		} else {
			base, err = first(space)
		}
		if err != nil {
			return s.fault(-1, "the baseline: %v", err)
		}
		genes = base.Map()
		if g.Reference.Baseline {
			if g.Files["reference.c"], err = s.ownReference(im, base); err != nil {
				return err
			}
			text, launch, err := s.ownDeviceReference(&def.Problem, im, base)
			if err != nil {
				return err
			}
			if g.Reference.device = launch; launch != nil {
				g.Files["reference.cu"] = text
			}
		}
		var verify []kernels.Shape
		if !made[kernels.Verify] {
			verify = def.Problem.ShapesFor(kernels.Verify)
		}
		for _, use := range []kernels.Use{kernels.Verify, kernels.Sanitize} {
			if made[use] {
				g.fit(def, im, base, use, verify)
			}
		}
		if s.cuda && slices.ContainsFunc(g.Shapes, func(x kernels.Shape) bool { return x.Use == kernels.Sanitize && !small(&def.Problem, x) }) {
			g.watched = fewBlocks
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for use := range made {
		made[use] = made[use] && slices.ContainsFunc(g.Shapes, func(x kernels.Shape) bool { return x.Use == use })
	}
	d := s.folder(g, name, included, genes, made)
	if err := load(d, true, nil); err != nil {
		return nil, err
	}
	draft := &Draft{Entry: s.at(s.entry.name, "%s", s.entry.id), Taken: s.taken, Missing: []kernels.Finding{}}
	for _, f := range d.assumed {
		f.File = filepath.Join(dir, f.File)
		draft.Taken = append(draft.Taken, f)
	}
	return draft, nil
}

// tries lists what a made shape may be, the best first: of those for the sanitizers the given ones to verify,
// and then sizes that have with these whatever divides all given sizes of a dimension, since a
// kernel or its reference may need that.
func (g *Given) tries(tuned kernels.Shape, use kernels.Use, verify []kernels.Shape) (list []kernels.Shape) {
	if use == kernels.Sanitize {
		for _, v := range verify {
			list = append(list, kernels.Shape{Name: string(use), Use: use, Dims: v.Dims})
		}
	}
	for _, sizes := range sizesTried[use] {
		x := g.like(tuned, use, sizes)
		for _, d := range g.Dims {
			if len(verify) == 0 {
				break
			}
			by := tuned.Dims[d]
			for _, s := range g.Shapes {
				if s.Use == kernels.Tune || s.Use == kernels.Verify {
					by = gcd(by, s.Dims[d])
				}
			}
			if by > 1 {
				x.Dims[d] = max(x.Dims[d]/by, 1) * by
			}
		}
		list = append(list, x)
	}
	return list
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// fit gives a made shape the first sizes that the baseline can compute. verify are the shapes to verify
// that are given, and not made.
func (g *Given) fit(def *kernels.Definition, im *kernels.Implementation, base genome.Genome, use kernels.Use, verify []kernels.Shape) {
	i := slices.IndexFunc(g.Shapes, func(x kernels.Shape) bool { return x.Use == use })
	for _, x := range g.tries(def.Problem.ShapesFor(kernels.Tune)[0], use, verify) {
		load, err := def.Problem.SanitizerLoad(x)
		if err == nil && (use != kernels.Sanitize || load <= 0.25) && im.Supports(base, x, nil) == nil {
			g.Shapes[i] = x
			return
		}
	}
}

// small says whether a shape is small enough for sanitizers.
func small(p *kernels.Problem, s kernels.Shape) bool {
	load, _ := p.SanitizerLoad(s) // evaluated when loading
	return load <= 1
}

// fewBlocks is how many blocks along each axis a search launches under tools at a shape that is
// not small: enough for neighbors in every direction. racecheck takes seconds for a block that
// multiplies a strip of 4,096 columns.
const fewBlocks = 2

// mostTried bounds the genomes that are tried to find the first valid one.
const mostTried = 1 << 20

// first returns the first valid genome; the last parameter varies fastest.
func first(space *genome.Space) (genome.Genome, error) {
	genes := space.Genes()
	ix := make([]int, len(genes))
	for range mostTried {
		values := map[string]any{}
		for i, g := range genes {
			values[g.Name] = g.Values[ix[i]].Any()
		}
		if g, err := space.FromMap(values); err == nil {
			return g, nil
		}
		i := len(ix) - 1
		for ; i >= 0; i-- {
			if ix[i]++; ix[i] < len(genes[i].Values) {
				break
			}
			ix[i] = 0
		}
		if i < 0 {
			break
		}
	}
	if g, ok := space.At(0); ok {
		return g, nil
	}
	return genome.Genome{}, errors.New("no genome is valid: loosen the constraints")
}

// folder makes the folder's files. Without genes the baseline is a placeholder, for a
// definition that is loaded only for its space.
func (s *source) folder(g *Given, name string, included map[string]string, genes map[string]any, made map[kernels.Use]bool) *drafted {
	d := &drafted{others: map[string]string{}}
	maps.Copy(d.others, included)
	if genes == nil && g.Reference.Baseline {
		maps.Copy(d.others, s.markIncluded())
	}
	maps.DeleteFunc(d.others, func(file, _ string) bool { return s.lent[file] })
	maps.Copy(d.others, g.Files)
	base := filepath.Base(s.file)
	entry := s.wrapper(name)
	if s.python {
		entry = s.entry.id
	}
	text := func(key, value string) {
		if value != "" {
			d.add("%s = %s", key, tomltext.Quote(value))
		}
	}
	guessed := func(key, value, why string) { // assumed if there is a reason
		if why == "" {
			text(key, value)
		} else {
			d.assume(why, "%s = %s", key, tomltext.Quote(value))
		}
	}
	list := func(key string, values []string) {
		if len(values) == 1 && strings.HasPrefix(values[0], kernels.FillIn) {
			text(key, values[0])
		} else {
			d.add("%s = %s", key, tomltext.List(values))
		}
	}
	if g.open {
		d.add("# Made from %s. What begins with %q is left to fill in; docs/kernels.md", base, strings.TrimSpace(kernels.FillIn))
		d.add("# of evotune explains every key.")
	} else {
		d.add("# Made from %s; docs/kernels.md of evotune explains every key.", base)
	}
	d.add("format = 1")
	d.add("name = %s", tomltext.Quote(name))
	if g.Description == "" {
		g.Description = s.entry.id + " of " + base
	}
	text("description", g.Description)
	d.add("")
	if g.Torch.Source != "" {
		d.add("[torch]")
		text("source", g.Torch.Source)
		text("forward", g.Torch.Forward)
		text("backward", g.Torch.Backward)
		d.add("")
	}
	d.add("[problem]")
	d.add("dims = %s", tomltext.List(g.Dims))
	if g.Operations == "" {
		d.assumed = append(d.assumed, kernels.Finding{File: kernels.DefinitionFile, Line: len(d.lines), Msg: "assumed: no operations" + g.why["operations"] + ": the floor that they set for the time is not run"})
	}
	text("operations", g.Operations)
	if g.Bytes == "" {
		d.assume("every buffer is moved once", "bytes = %s", tomltext.Quote(g.bytesOf()))
	}
	text("bytes", g.Bytes)
	guessed("pipe", g.Pipe, g.why["pipe"])
	if g.Reference.Baseline {
		d.assume("no independent reference: candidates are compared with the kernel itself and the values of its baseline", `oracle = "baseline"`)
	}
	d.add("")
	d.add("[problem.reference]")
	text("source", g.Reference.Source)
	text("python", g.Reference.Python)
	text("entry", g.Reference.Entry)
	text("library", g.Reference.Library)
	if l := g.Reference.device; l != nil {
		d.add("")
		d.add("[problem.reference.cuda]")
		text("source", "reference.cu")
		text("entry", "reference")
		d.add("grid = %s", tomltext.List(l.Grid))
		d.add("block = %s", tomltext.List(l.Block))
	}
	for _, x := range g.Shapes {
		var sizes []string
		for _, dim := range g.Dims {
			if n, ok := x.Dims[dim]; ok {
				sizes = append(sizes, fmt.Sprintf("%s = %d", dim, n))
			}
		}
		for _, dim := range slices.Sorted(maps.Keys(x.Dims)) { // which loading refuses
			if !slices.Contains(g.Dims, dim) {
				sizes = append(sizes, fmt.Sprintf("%s = %d", tomltext.Quote(dim), x.Dims[dim]))
			}
		}
		d.add("")
		d.add("[[problem.shape]]")
		d.add("name = %s", tomltext.Quote(x.Name))
		if g.sizes[x.Name] != "" {
			text("dims", g.sizes[x.Name])
		} else if made[x.Use] {
			what := "sizes at which tiles end within"
			if x.Use == kernels.Sanitize {
				what = "small, for the sanitizers"
			}
			d.assume(what, "dims = { %s }", strings.Join(sizes, ", "))
		} else {
			d.add("dims = { %s }", strings.Join(sizes, ", "))
		}
		d.add("use = %s", tomltext.Quote(string(x.Use)))
	}
	for _, b := range g.Buffers {
		d.add("")
		d.add("[[problem.buffer]]")
		d.add("name = %s", tomltext.Quote(b.Name))
		d.add("dtype = %s", tomltext.Quote(string(b.DType)))
		list("shape", b.Shape)
		guessed("role", string(b.Role), g.why["role of "+b.Name])
		if (b.Role == kernels.In || b.Role == kernels.InOut) && b.Data == "" && b.DType.Float() {
			d.assume("what "+b.Name+" is filled with", `data = "normal(0,1)"`)
		}
		guessed("data", b.Data, g.why["data of "+b.Name])
		text("domain", b.Domain)
		if b.Tolerance != nil {
			d.add("tolerance = %s", tomlValue(*b.Tolerance))
		}
	}
	for _, sc := range g.Scalars {
		d.add("")
		d.add("[[problem.scalar]]")
		d.add("name = %s", tomltext.Quote(sc.Name))
		d.add("dtype = %s", tomltext.Quote(string(sc.DType)))
		d.add("value = %s", tomltext.Quote(sc.Value))
		if len(sc.Also) > 0 {
			list := make([]string, len(sc.Also))
			for i, x := range sc.Also {
				list[i] = tomlValue(x)
			}
			d.add("also = [%s]", strings.Join(list, ", "))
		}
	}
	d.add("")
	d.add("[problem.tolerance]")
	done := map[kernels.DType]bool{}
	for _, b := range g.Buffers {
		if b.Role == kernels.In || b.Tolerance != nil || done[b.DType] {
			continue
		}
		done[b.DType] = true
		if t, ok := g.Tolerance[b.DType]; ok {
			d.add("%s = %s", b.DType, tomlValue(t))
		} else if t := usualTolerance[b.DType]; t != "" {
			d.assume("the largest error, relative to the output's scale", "%s = %s", b.DType, t)
		} else {
			d.add("%s = 0.0", b.DType)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(g.Tolerance)) { // lint reports it
		if !done[t] {
			d.add("%s = %s", t, tomlValue(g.Tolerance[t]))
		}
	}
	for _, kind := range []kernels.ControlKind{kernels.Zeros, kernels.Mean} {
		d.add("")
		d.add("[[problem.control]]")
		d.add("kind = %s", tomltext.Quote(string(kind)))
	}
	d.add("")
	d.add("[[implementation]]")
	d.add("name = %q", "main")
	template := "kernel.c.tmpl"
	if s.cuda {
		template = "kernel.cu.tmpl"
		d.add(`backend = "cuda"`)
		if g.Target == "" {
			d.assume("the least architecture", `target = "sm_80"`)
		}
		text("target", g.Target)
	} else {
		d.add(`backend = "cpu"`)
		d.add(`target = "native"`)
	}
	if s.python {
		template = pythonTemplate
		d.add("language = %q", kernels.Triton)
	}
	d.add("template = %q", template)
	d.add("entry = %q", entry)
	switch {
	case len(g.Flags) > 0:
		d.add("flags = %s", tomltext.List(g.Flags))
	case !s.cuda:
		d.assume("how it is compiled", `flags = ["-std=gnu11", "-O3", "-march=native"]`)
	}
	if len(included) > 0 {
		d.add("include = %s", tomltext.List(slices.Sorted(maps.Keys(included))))
	}
	var baseline []string
	d.parameters(s.params)
	for _, p := range s.params {
		if v, ok := genes[p.name]; ok {
			baseline = append(baseline, p.name+" = "+tomlValue(v))
		}
	}
	for _, c := range g.Constraints {
		d.add("")
		d.add("[[implementation.constraint]]")
		d.add("expr = %s", tomltext.Quote(c.Expr))
		d.add("why = %s", tomltext.Quote(c.Why))
	}
	if s.cuda {
		d.add("")
		d.add("[implementation.launch]")
		list("grid", g.Grid)
		if len(g.Block) > 0 || !s.python {
			list("block", g.Block)
		}
		text("shared", g.Shared)
		if g.watched > 0 {
			d.add("")
			d.add("[implementation.sanitize]")
			d.assume("the shape for the sanitizers is large, so that a search launches these first blocks of each axis alone under them", "blocks = %d", g.watched)
		}
	}
	if len(g.Args) > 0 {
		d.add("")
		d.add("[implementation.args]")
		for _, name := range slices.Sorted(maps.Keys(g.Args)) {
			v, err := scalarJSON(g.Args[name])
			if err != nil {
				v = string(g.Args[name]) // which loading refuses
			}
			if !expr.IsName(name) {
				name = tomltext.Quote(name)
			}
			d.add("%s = %s", name, tomlValue(v))
		}
	}
	d.add("")
	d.add("[implementation.baseline]")
	switch {
	case genes == nil:
		d.add(`library = "libnone.so:none"`)
	case len(g.Baseline) == 0:
		d.assume("the first valid values", "genome = { %s }", strings.Join(baseline, ", "))
	default:
		d.add("genome = { %s }", strings.Join(baseline, ", "))
	}
	if s.python {
		d.others[template] = s.text
	} else {
		// The first folder is for the kernel as its own reference, which says where its lines come from.
		d.others[template] = s.template(entry, genes == nil && g.Reference.Baseline)
	}
	return d
}

// tomlNumber writes a float so that it stays one.
func tomlNumber(x float64) string {
	text := strconv.FormatFloat(x, 'g', -1, 64)
	if x == math.Trunc(x) && !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// A Signature is the signature of a source's function.
type Signature struct {
	Entry     string     `json:"entry"`
	Line      int        `json:"line"`
	Arguments []Argument `json:"arguments"`
}

// An Argument is one of a source's function.
type Argument struct {
	Name string `json:"name"`
	Type string `json:"type"` // as written, without const and restrict
	// DType is the type of the elements or of the number; "" if the source names the
	// type itself. Integers that are passed by value are I64.
	DType   kernels.DType `json:"dtype,omitempty"`
	Pointer bool          `json:"pointer"`
	Const   bool          `json:"const"`   // points to const
	Written bool          `json:"written"` // the function assigns to its elements
}

// ReadSignature reads the signature of a function in a source in C or CUDA. The error is
// a *kernels.Error.
func ReadSignature(file, entry string) (*Signature, error) {
	text, included, _, err := kernels.ReadSource(file, "")
	if err != nil {
		return nil, err
	}
	s := &source{file: file, text: text, included: included, cuda: strings.HasSuffix(file, ".cu"), given: &Given{}}
	s.bare = sources.Bare(text)
	if err := s.findFunctions(); err != nil {
		return nil, err
	}
	if err := s.choose(entry); err != nil {
		return nil, err
	}
	if err := s.listArguments(); err != nil {
		return nil, err
	}
	out := &Signature{Entry: s.entry.id, Line: s.line(s.entry.name)}
	for _, a := range s.arguments {
		out.Arguments = append(out.Arguments, Argument{a.name, a.ctype, a.dtype, a.pointer, a.input, a.pointer && s.assigns(a.source) > 0})
	}
	return out, nil
}
