package ask

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

var (
	// ErrNoCandidate is the error of a question that no stored candidate answers.
	ErrNoCandidate = errors.New("no correct candidate")
	// ErrQuestion is the error of a question that makes no sense.
	ErrQuestion = errors.New("bad question")
)

// A questionError says what is wrong with a question.
type questionError string

func (e questionError) Error() string        { return string(e) }
func (e questionError) Is(target error) bool { return target == ErrQuestion }

// A Source holds campaigns: a store, or a campaign that answers for one.
type Source interface {
	Campaigns() ([]store.Campaign, error)
	Campaign(id string) (store.Campaign, error)
	Best(q store.Query) ([]store.Candidate, error)
}

// A Question asks for the best stored candidates of a kernel. Empty fields leave
// it open.
type Question struct {
	Kernel string
	// Definition is the kernel as it is known now; nil when it is not. Without it
	// shapes have names only.
	Definition *kernels.Definition
	// Device is what the candidates are wanted for; nil is any.
	Device *evaluator.Device
	// Dims is the shape by its dimensions, Shape by its name; Shapes are
	// several that a campaign must have been tuned for together, by their names.
	Dims   map[string]int64
	Shape  string
	Shapes []string
	// DType asks for campaigns whose problem has a buffer of this type. It needs
	// the Definition.
	DType kernels.DType
	// Proven asks for winners of finals only, and for proven ones.
	Proven bool
	// Limit is how many are wanted. Zero means one.
	Limit int
}

// An Answer is a stored candidate, and why it answers.
type Answer struct {
	store.Candidate
	Backend    string
	DeviceName string
	DeviceRule DeviceRule
	// Shape is the one of the campaign's shapes that is nearest to the one asked
	// for, at Distance; empty when none or several were asked for.
	Shape    string
	Distance float64
	// Changed says that the kernel is not what it was when the candidate was
	// measured: sizes are those that its shapes have now.
	Changed bool

	device, shapes string
}

// Rule says which rule served, in one line for people.
func (a Answer) Rule() string {
	rule := a.device + ", " + a.shapes
	switch f := record.FiguresOf(a.Candidate); {
	case !a.Proven:
		rule += ", won no finals"
	case f.Unproven != "":
		rule += ", " + f.Unproven
	}
	if a.Changed {
		rule += ", and the kernel has changed since"
	}
	return rule
}

// better orders the candidates of one rule: winners of finals first, of these the
// significant ones, then by fitness, or by their times where those are relative to different
// baselines. figures are theirs, by id.
func better(figures map[string]record.Figures, oneBaseline bool) func(a, b store.Candidate) int {
	rank := func(c store.Candidate) int {
		switch {
		case !c.Proven, figures[c.ID].Unproven != "":
			return 2
		case !figures[c.ID].Significant:
			return 1
		}
		return 0
	}
	return func(a, b store.Candidate) int {
		x, y := figures[a.ID], figures[b.ID]
		if !oneBaseline {
			x.Fitness, y.Fitness = x.MedianNS, y.MedianNS
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(x.Fitness, y.Fitness))
	}
}

// oneBaseline says whether candidates' fitness may be compared. Times on several devices, or at several sets of
// shapes, would compare no better.
func (q Question) oneBaseline(src Source, found []store.Candidate, of map[string]*source) (bool, error) {
	if q.Definition != nil && !q.Definition.BaselineVaries() {
		return true, nil
	}
	var ids []string
	var first *source
	for _, c := range found {
		s := of[c.Campaign]
		first = cmp.Or(first, s)
		if s.Started.Device != first.Started.Device || !slices.Equal(slices.Sorted(slices.Values(s.Started.Shapes)), slices.Sorted(slices.Values(first.Started.Shapes))) {
			return true, nil
		}
		if !slices.Contains(ids, c.Campaign) {
			ids = append(ids, c.Campaign)
		}
	}
	return record.OneBaseline(src.Campaign, ids)
}

// maxProven bounds how many winners of one rule are compared with each other.
const maxProven = 1000

// Ask answers with the best stored candidates for a question, at least one: those
// of the nearest device by CompareDevices first, of these those of the nearest
// shape by Distance, then winners of finals, then the smaller fitness. What failed
// in finals does not answer, nor what has the code of a finalist that did. A
// candidate that was tuned for another shape than the one asked for must be able to
// compute this one. The error wraps ErrNoCandidate or ErrQuestion.
func Ask(src Source, q Question) ([]Answer, error) {
	q.Limit = max(1, q.Limit)
	all, err := src.Campaigns()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(c store.Campaign) bool { return c.Started.Kernel != q.Kernel })
	if len(all) == 0 {
		return nil, fmt.Errorf("%w of %q: no campaign has tuned it", ErrNoCandidate, q.Kernel)
	}
	if err := q.checkShape(all); err != nil {
		return nil, err
	}
	var near []*source
	devices := map[string]evaluator.Device{}
	for _, c := range all {
		s, err := q.source(src, c, devices)
		if err != nil {
			return nil, err
		}
		if s != nil {
			near = append(near, s)
		}
	}
	slices.SortStableFunc(near, (*source).compare)
	var out []Answer
	looked := near
	for len(near) > 0 && len(out) < q.Limit {
		n := 1
		for n < len(near) && near[0].compare(near[n]) == 0 {
			n++
		}
		found, err := q.gather(src, near[:n], q.Limit-len(out))
		if err != nil {
			return nil, err
		}
		out, near = append(out, found...), near[n:]
	}
	if len(out) == 0 {
		fallen := 0
		for _, s := range looked {
			fallen += len(s.fallen)
		}
		what := offer(all)
		if fallen > 0 {
			what += fmt.Sprintf(", of which %d failed in the finals", fallen)
		}
		return nil, fmt.Errorf("%w of %q%s: %s", ErrNoCandidate, q.Kernel, q.text(), what)
	}
	return out, nil
}

// checkShape refuses the name of a shape that neither the kernel nor any of its
// campaigns has.
func (q Question) checkShape(all []store.Campaign) error {
	for _, name := range append(slices.Clone(q.Shapes), q.Shape) {
		if name == "" || q.Definition == nil || slices.ContainsFunc(all, func(c store.Campaign) bool { return slices.Contains(c.Started.Shapes, name) }) {
			continue
		}
		var known []string
		for _, backend := range kernels.Backends() {
			for _, s := range q.Definition.ProblemOn(backend).Shapes {
				if !slices.Contains(known, s.Name) {
					known = append(known, s.Name)
				}
			}
		}
		if !slices.Contains(known, name) {
			return questionError(fmt.Sprintf("kernel %s has no shape %q: there are %s, and NAME=N,... gives any other", q.Kernel, name, strings.Join(known, ", ")))
		}
	}
	return nil
}

// text repeats what was asked for.
func (q Question) text() string {
	var s string
	if q.DType != "" {
		s += " in " + string(q.DType)
	}
	switch {
	case q.Dims != nil:
		s += " at " + dimsText(q.Dims)
	case q.Shape != "":
		s += " at " + q.Shape
	case len(q.Shapes) > 0:
		s += " at " + strings.Join(q.Shapes, " and ")
	}
	if q.Device != nil {
		s += " for " + q.Device.Name
	}
	if q.Proven {
		s += " that won finals"
	}
	return s
}

func dimsText(dims map[string]int64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		out = append(out, fmt.Sprintf("%s=%d", name, dims[name]))
	}
	return strings.Join(out, ",")
}

// offer says what there is.
func offer(all []store.Campaign) string {
	const most = 4
	var devices []string
	shapes := map[string][]string{}
	for _, c := range all {
		if c.Best == nil {
			continue
		}
		if shapes[c.Started.Name] == nil {
			devices = append(devices, c.Started.Name)
		}
		if s := strings.Join(c.Started.Shapes, " and "); !slices.Contains(shapes[c.Started.Name], s) {
			shapes[c.Started.Name] = append(shapes[c.Started.Name], s)
		}
	}
	if len(devices) == 0 {
		return "its campaigns found none"
	}
	some := func(list []string) string {
		if len(list) > most {
			list = append(slices.Clone(list[:most]), fmt.Sprintf("%d more", len(list)-most))
		}
		return strings.Join(list, ", ")
	}
	for i, name := range devices {
		devices[i] = fmt.Sprintf("%s (%s)", name, some(shapes[name]))
	}
	return "there are some for " + some(devices)
}

// A source is a campaign that may answer.
type source struct {
	store.Campaign
	rule     DeviceRule
	device   evaluator.Device
	shape    string
	distance float64
	changed  bool
	// wanted is the shape asked for, when it is another than the campaign's.
	wanted *kernels.Shape
	// searched are the implementations that the campaign searched.
	searched []string
	limits   map[string]any
	on       *kernels.Definition
	fallen   map[string]bool // the candidates that failed in finals, or have the code of one that did
	refused  []string        // those of the code, once asked
	asked    bool
}

func (s *source) compare(o *source) int {
	return cmp.Or(cmp.Compare(s.rule, o.rule), cmp.Compare(s.distance, o.distance))
}

// source looks at a campaign; nil when none of its candidates can answer.
func (q Question) source(src Source, c store.Campaign, devices map[string]evaluator.Device) (*source, error) {
	if c.Best == nil {
		return nil, nil
	}
	s := &source{Campaign: c, fallen: map[string]bool{}, device: evaluator.Device{Name: c.Started.Name}}
	var problem *kernels.Problem
	if q.Definition != nil {
		s.on = q.Definition.On(c.Started.Backend)
		problem = &s.on.Problem
	}
	if q.DType != "" && (problem == nil || !slices.ContainsFunc(problem.Buffers, func(b kernels.Buffer) bool { return b.DType == q.DType })) {
		return nil, nil
	}
	if len(q.Shapes) > 0 && !sameSet(q.Shapes, c.Started.Shapes) {
		return nil, nil
	}
	wanted := q.Dims
	if q.Shape != "" || q.Dims != nil {
		if wanted == nil {
			wanted = q.named(problem)
		}
		if s.shape, s.distance = Nearest(q.Shape, wanted, c.Started.Shapes, dimsIn(problem)); math.IsInf(s.distance, 1) {
			return nil, nil
		}
	}
	if q.Device != nil {
		if err := s.compareDevice(src, *q.Device, devices); err != nil || s.rule == OtherDevice {
			return nil, err
		}
	}
	if s.distance > 0 {
		s.wanted = &kernels.Shape{Name: cmp.Or(q.Shape, dimsText(wanted)), Dims: wanted}
	}
	return s, nil
}

// compareDevice settles by which rule the campaign's device serves. devices are those
// that were read before, by fingerprint.
func (s *source) compareDevice(src Source, wanted evaluator.Device, devices map[string]evaluator.Device) error {
	d, known := devices[s.Started.Device]
	// What a fingerprint does not tell is which of several equal GPUs it was.
	if !known || wanted.Facts["uuid"] != "" && s.Started.Device != wanted.Fingerprint {
		full, err := src.Campaign(s.ID) // with its payloads
		if err != nil {
			return err
		}
		if d, err = deviceOf(full); err != nil {
			return err
		}
		devices[s.Started.Device] = d
	}
	s.device, s.rule = d, CompareDevices(wanted, d)
	return nil
}

// load reads what is needed of a campaign that answers, and tells whether another
// shape than its own can be judged.
func (s *source) load(src Source) (bool, error) {
	if s.on == nil {
		return true, nil
	}
	full, err := src.Campaign(s.ID)
	if err != nil {
		return false, err
	}
	job, err := record.ReadJob(s.ID, &full.Started)
	if err != nil {
		return s.wanted == nil, nil //nolint:nilerr // a campaign that cannot be read cannot be shown to compute another shape
	}
	s.changed = job.Hash != "" && job.Hash != s.on.Hash
	if s.wanted == nil {
		return true, nil
	}
	about, err := record.ReadDescription(s.ID, &full.Started)
	if err != nil {
		return false, nil //nolint:nilerr // as above
	}
	s.searched = about.Implementations
	if len(job.Limits) > 0 {
		s.limits = map[string]any{}
	}
	for name, v := range job.Limits {
		s.limits[name] = v
	}
	return true, nil
}

// refusedCode lists the candidates that were in no finals and whose code the newest ones
// have found wrong.
func (s *source) refusedCode(src Source) ([]string, error) {
	if s.Finals == nil || s.asked {
		return s.refused, nil
	}
	full, err := src.Campaign(s.ID)
	if err != nil {
		return nil, err
	}
	f, err := record.ReadFinals(s.ID, full.Finals)
	if err != nil {
		return nil, err
	}
	if s.asked = true; f != nil {
		s.refused = f.Refused
	}
	return s.refused, nil
}

// deviceOf gives the device of a campaign with all its payloads.
func deviceOf(c store.Campaign) (evaluator.Device, error) {
	d, err := record.ReadDescription(c.ID, &c.Started)
	if err != nil {
		return d.Device, err
	}
	d.Device.Name, d.Device.Fingerprint = c.Started.Name, c.Started.Device
	d.Device.Kind = cmp.Or(d.Device.Kind, c.Started.Backend)
	return d.Device, nil
}

// Devices lists the devices of a store's campaigns, the newest first: of each
// fingerprint one or, where they are told apart by UUIDs, one for each of these.
func Devices(src Source, uuids bool) ([]evaluator.Device, error) {
	all, err := src.Campaigns()
	if err != nil {
		return nil, err
	}
	var out []evaluator.Device
	for _, c := range slices.Backward(all) {
		if !uuids && slices.ContainsFunc(out, func(o evaluator.Device) bool { return o.Fingerprint == c.Started.Device }) {
			continue
		}
		full, err := src.Campaign(c.ID)
		if err != nil {
			return nil, err
		}
		d, err := deviceOf(full)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o evaluator.Device) bool {
			return o.Fingerprint == d.Fingerprint && o.Facts["uuid"] == d.Facts["uuid"]
		}) {
			out = append(out, d)
		}
	}
	return out, nil
}

// named gives the dimensions of the shape asked for by name: those that it has on
// the problem's backend, else on another; nil when they are not known.
func (q Question) named(problem *kernels.Problem) map[string]int64 {
	dims := dimsIn(problem)(q.Shape)
	if problem == nil || dims != nil {
		return dims
	}
	for _, backend := range kernels.Backends() {
		if dims = dimsIn(q.Definition.ProblemOn(backend))(q.Shape); dims != nil {
			return dims
		}
	}
	return nil
}

// dimsIn gives the dimensions of a problem's shapes by their names, nil for those that
// it does not have or no longer has. A problem that is not known has none.
func dimsIn(problem *kernels.Problem) func(shape string) map[string]int64 {
	return func(shape string) map[string]int64 {
		if problem == nil {
			return nil
		}
		s, _ := problem.Shape(shape)
		return s.Dims
	}
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// gather takes at most limit candidates of sources that are equally near.
func (q Question) gather(src Source, near []*source, limit int) ([]Answer, error) {
	of := map[string]*source{}
	var ids []string
	for _, s := range near {
		able, err := s.load(src)
		if err != nil {
			return nil, err
		}
		if able {
			of[s.ID] = s
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	figures := map[string]record.Figures{}
	able := func(found []store.Candidate) ([]store.Candidate, error) {
		var out []store.Candidate
		for _, c := range found {
			s := of[c.Campaign]
			if s == nil {
				return nil, fmt.Errorf("candidate %s is of campaign %s, which was not asked for", c.ID, c.Campaign)
			}
			failed, err := record.FailedFinals(c)
			if err != nil {
				return nil, err
			}
			if !failed && c.Finals == nil {
				refused, err := s.refusedCode(src)
				if err != nil {
					return nil, err
				}
				failed = slices.Contains(refused, c.ID)
			}
			if failed {
				s.fallen[c.ID] = true
			}
			figures[c.ID] = record.FiguresOf(c)
			failed = failed || q.Proven && figures[c.ID].Unproven != ""
			if !failed && (s.wanted == nil || s.computes(c)) {
				out = append(out, c)
			}
		}
		return out, nil
	}
	won, err := src.Best(store.Query{Campaigns: ids, ProvenOnly: true, Limit: maxProven})
	if err != nil {
		return nil, err
	}
	found, err := able(won)
	if err != nil {
		return nil, err
	}
	come := map[string]bool{}
	for _, c := range found {
		come[c.ID] = true
	}
	// Some may not be able to compute the shape, and some have come already.
	for wanted := limit + len(won); !q.Proven && len(found) < limit; wanted *= 4 {
		others, err := src.Best(store.Query{Campaigns: ids, Limit: wanted})
		if err != nil {
			return nil, err
		}
		usable, err := able(others)
		if err != nil {
			return nil, err
		}
		for _, c := range usable {
			if !come[c.ID] {
				found, come[c.ID] = append(found, c), true
			}
		}
		if len(others) < wanted {
			break
		}
	}
	one, err := q.oneBaseline(src, found, of)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, better(figures, one))
	out := make([]Answer, min(len(found), limit))
	for i := range out {
		s := of[found[i].Campaign]
		out[i] = Answer{
			Candidate: found[i], Backend: s.Started.Backend, DeviceName: s.Started.Name, DeviceRule: s.rule,
			Shape: s.shape, Distance: s.distance, Changed: s.changed,
			device: AnyDevice.text(evaluator.Device{}, s.device), shapes: q.shapeText(s),
		}
		if q.Device != nil {
			out[i].device = s.rule.text(*q.Device, s.device)
		}
	}
	return out, nil
}

// computes says whether a candidate can compute the wanted shape.
func (s *source) computes(c store.Candidate) bool {
	values, err := genome.Decode(c.Asked.Genome)
	if err != nil {
		return false
	}
	var genes []genome.Gene
	for _, name := range slices.Sorted(maps.Keys(values)) {
		genes = append(genes, genome.Gene{Name: name, Values: []genome.Value{values[name]}})
	}
	one, err := genome.NewListed(genes, [][]int{make([]int, len(genes))})
	if err != nil {
		return false
	}
	g, _ := one.At(0)
	for _, im := range s.on.Implementations {
		// The choice is a gene only where there is one.
		name, chosen := values[kernels.ImplementationGene]
		if chosen && name == genome.Str(im.Name) || !chosen && slices.Equal(s.searched, []string{im.Name}) {
			return im.Supports(g, *s.wanted, s.limits) == nil
		}
	}
	return false
}

// shapeText says how near a campaign's shapes are to what was asked for.
func (q Question) shapeText(s *source) string {
	switch {
	case len(q.Shapes) > 0:
		return "same shapes " + strings.Join(q.Shapes, " and ")
	case s.shape == "":
		return "any shape (" + strings.Join(s.Started.Shapes, " and ") + ")"
	}
	text := "same shape " + s.shape
	if s.distance > 0 {
		precision := 2
		if s.distance < 0.01 {
			precision = 4
		}
		text = fmt.Sprintf("nearest shape %s (distance %.*f doublings%s)", s.shape, precision, s.distance, s.flagText())
	}
	if others := slices.DeleteFunc(slices.Clone(s.Started.Shapes), func(n string) bool { return n == s.shape }); len(others) > 0 {
		text += ", tuned together with " + strings.Join(others, " and ")
	}
	return text
}

// flagText names the dimensions that are 0 in one of the two shapes only.
func (s *source) flagText() string {
	at, err := s.on.Problem.Shape(s.shape)
	if err != nil {
		return ""
	}
	var flags []string
	for _, name := range s.on.Problem.Dims {
		if a, b := s.wanted.Dims[name], at.Dims[name]; (a == 0) != (b == 0) {
			flags = append(flags, fmt.Sprintf("%s is %d there", name, b))
		}
	}
	if len(flags) == 0 {
		return ""
	}
	return ", 64 of them for each flag: " + strings.Join(flags, ", ")
}

// ParseShape reads a shape that is written by its dimensions: "B=2,H=8,S=512". Every
// dimension of the kernel must be given, but flags, which are 0 when left out.
// The error wraps ErrQuestion and lists the dimensions.
func ParseShape(d *kernels.Definition, text string) (map[string]int64, error) {
	flags := d.Flags()
	known := make([]string, len(d.Problem.Dims))
	for i, name := range d.Problem.Dims {
		known[i] = name
		if slices.Contains(flags, name) {
			known[i] += " (0 or 1, 0 when left out)"
		}
	}
	wrong := func(format string, args ...any) error {
		return questionError(fmt.Sprintf("shape %q: %s: the dimensions of %s are %s", text, fmt.Sprintf(format, args...), d.Name, strings.Join(known, ", ")))
	}
	dims, err := d.Problem.ReadDims(text, flags)
	if err != nil {
		return nil, wrong("%v", err)
	}
	return dims, nil
}
