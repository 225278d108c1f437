package evotune

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/internal/ask"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// A FamilyPlan is what all campaigns of a family record.
type FamilyPlan = record.Family

// A Family is a list of shapes of one kernel that are tuned under one budget, each by a
// campaign of its own, which begins with the winners of its neighbors. All state of a
// family is in the logs of these campaigns.
type Family struct {
	// Plan names the shapes in their order, and the budget.
	Plan FamilyPlan

	machine *Machine
	job     Job // of every campaign, except name, shapes and budget
	// order is the order of the shapes in the first round; see centerFirst.
	order []int
}

// A FamilySpec describes the family to make.
type FamilySpec struct {
	// Grids are the shapes to tune for, together: a grid is the values of every
	// dimension ("S=512,2048 D=64,128 B=2 H=8"), or names of shapes ("512 1024"). Flags
	// may be left out. With the backend Replay, Grids are files of further tables.
	Grids []string
	// Between, in the same form, are the shapes at which the winners of the nearest tuned
	// shapes are compared. Nil means the shapes of the grids with a value added between any
	// two of a dimension that are more than a doubling apart; empty and not nil means none.
	Between []string
}

// compared is the largest number of winners that are compared at a shape.
const compared = 4

// A family reserves finalsTime of its time for the finals of each tuned shape and for each
// comparison, since one usually takes that long, but searches get at least the share searchShare.
const (
	finalsTime  = 10 * time.Second
	searchShare = 1.0 / 3
)

// Family makes a family of a job, whose Shapes must be empty. Its Budget, in evaluations or as a
// time, is that of the family. The same job and shapes give the same family, which continues
// from what the store has of it. Family builds nothing, but looks for a GPU. The
// error is an ErrInput.
func (m *Machine) Family(ctx context.Context, job Job, spec FamilySpec) (*Family, error) {
	switch {
	case len(job.Shapes) > 0:
		return nil, badInput(errors.New("a family has the shapes of its grid: leave out --shape"))
	case job.Sweep:
		return nil, badInput(errors.New("a sweep has no family"))
	}
	f := &Family{machine: m, job: job}
	f.Plan.Budget, f.job.Budget = job.Budget, Budget{}
	t, err := m.Target(f.job)
	if err != nil {
		return nil, err
	}
	t.Job.Budget = Budget{}
	f.job = t.Job
	if t.table != nil {
		err = f.tables(spec)
	} else {
		err = f.shapes(t, spec)
	}
	if err != nil {
		return nil, badInput(err)
	}
	if n := f.size(); n < 2 {
		return nil, badInput(fmt.Errorf("the family has %s: a family has two at least, and --shape is for one", words.Plural(n, "shape")))
	}
	if f.Plan.Budget.IsZero() {
		f.Plan.Budget.Time = time.Duration(f.size()) * DefaultTime
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, f.name(ctx, t)
}

// check refuses a budget that a family cannot share out.
func (f *Family) check() error {
	b := f.Plan.Budget
	switch n := f.size(); {
	case b != Budget{Evaluations: b.Evaluations} && b != Budget{Time: b.Time}:
		return badInput(errors.New("a family ends by --evaluations or by --time alone: give one of the two, and no other budget"))
	case b.Validate() != nil:
		return badInput(b.Validate())
	case b.Evaluations > 0 && b.Evaluations < 2*n:
		return badField("evaluations", "%d is too few for a family of %d: give %d at least", b.Evaluations, n, 2*n)
	}
	return nil
}

func (f *Family) size() int { return max(len(f.Plan.Tuned), len(f.Plan.Tables)) }

// tables makes a family of recorded spaces.
func (f *Family) tables(spec FamilySpec) error {
	if len(spec.Between) > 0 {
		return errors.New("recorded tables have nothing between them: leave out --between")
	}
	f.job.Shapes = nil
	hashes := []string{f.job.Hash}
	f.Plan.Tables = []string{f.job.Table}
	for _, file := range spec.Grids {
		t, err := f.machine.Target(Job{Table: file})
		if err != nil {
			return err
		}
		if slices.Contains(hashes, t.Job.Hash) {
			return fmt.Errorf("the table %s is in the family already", file)
		}
		hashes = append(hashes, t.Job.Hash)
		f.Plan.Tables = append(f.Plan.Tables, t.Job.Table)
	}
	f.job.Hash = ""
	for i := range f.Plan.Tables {
		f.order = append(f.order, i)
	}
	return nil
}

// shapes makes a family of grids.
func (f *Family) shapes(t *Target, spec FamilySpec) error {
	f.job.Shapes = nil
	var grids []grid
	for _, text := range spec.Grids {
		g, err := readGrid(&t.definition.Problem, text)
		if err != nil {
			return err
		}
		grids = append(grids, g)
	}
	tuned, err := f.points(t, grids)
	if err != nil {
		return err
	}
	f.Plan.Tuned = tuned
	if spec.Between == nil {
		for _, g := range grids {
			for _, name := range g.between() {
				if names, err := f.points(t, []grid{{names: []string{name}}}); err == nil { // a shape that no genome computes has nothing to compare
					f.Plan.Between = append(f.Plan.Between, names...)
				}
			}
		}
	} else {
		var asked []grid
		for _, text := range spec.Between {
			g, err := readGrid(&t.definition.Problem, text)
			if err != nil {
				return err
			}
			asked = append(asked, g)
		}
		if f.Plan.Between, err = f.points(t, asked); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	f.Plan.Between = slices.DeleteFunc(f.Plan.Between, func(name string) bool {
		was := seen[name]
		seen[name] = true
		return was || slices.Contains(f.Plan.Tuned, name)
	})
	f.order = centerFirst(f.Plan.Tuned, t.dims)
	return nil
}

// points are the names of the shapes of grids, each once. Each must be one that some
// genome computes.
func (f *Family) points(t *Target, grids []grid) (names []string, err error) {
	for _, g := range grids {
		for _, text := range g.names {
			at := *t
			at.Job.Shapes = []string{text}
			if t.left != nil { // at its own shape
				at.chosen = slices.Concat(t.chosen, t.left.Left)
			}
			at.fit()
			shapes, err := at.shapes()
			if err == nil {
				_, err = at.space()
			}
			if err != nil {
				return nil, fmt.Errorf("the family's shape %s: %w", text, err)
			}
			if name := shapes[0].Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// name gives the family its ID: the same for the same kernel, device, search and shapes.
func (f *Family) name(ctx context.Context, t *Target) error {
	_, here, err := t.here(ctx)
	if err != nil {
		return err
	}
	job := f.job
	job.Definitions, job.Table = nil, "" // their location does not matter
	text, err := json.Marshal([]any{job, here.Device.Fingerprint, f.Plan.Tuned, f.Plan.Tables})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	f.Plan.ID = f.job.Kernel + "-family-" + hex.EncodeToString(sum[:4])
	return nil
}

// FamilyOf returns the name of the family that a campaign is a part of; empty for none.
func FamilyOf(c store.Campaign) string {
	if job, err := RecordedJob(c); err == nil && job.Family != nil {
		return job.Family.ID
	}
	return ""
}

// ContinueFamily returns the family of that name whose campaigns the store holds, or nil
// for none. A budget that is not zero replaces the family's.
func (m *Machine) ContinueFamily(s *store.Store, id string, b Budget) (*Family, error) {
	all, err := s.Campaigns()
	if err != nil {
		return nil, err
	}
	for _, brief := range slices.Backward(all) {
		if !strings.HasPrefix(brief.ID, id+"-") || strings.HasPrefix(brief.ID, id+"-at-") {
			continue
		}
		c, err := s.Campaign(brief.ID)
		if err != nil {
			return nil, err
		}
		job, err := RecordedJob(c)
		if err != nil || job.Family == nil || job.Family.ID != id {
			continue
		}
		t, err := m.Recorded(c)
		if err != nil {
			return nil, err
		}
		f := &Family{Plan: *job.Family, machine: m, job: job}
		if !b.IsZero() {
			f.Plan.Budget = b
		}
		f.job.ID, f.job.Shapes, f.job.Start, f.job.Budget, f.job.Family = "", nil, nil, Budget{}, nil
		if f.order = centerFirst(f.Plan.Tuned, t.dims); len(f.Plan.Tables) > 0 {
			f.job.Hash = ""
			for i := range f.Plan.Tables {
				f.order = append(f.order, i)
			}
		}
		return f, f.check()
	}
	return nil, nil
}

// centerFirst orders shapes: first the one that is nearest to all others, then always the
// nearest to one that came before.
func centerFirst(names []string, dims func(string) map[string]int64) (order []int) {
	distance := func(i, j int) float64 { return ask.Distance(dims(names[i]), dims(names[j])) }
	for len(order) < len(names) {
		next, least := -1, math.Inf(1)
		for i := range names {
			if slices.Contains(order, i) {
				continue
			}
			d := math.Inf(1)
			for _, j := range order {
				d = min(d, distance(i, j))
			}
			if len(order) == 0 {
				d = 0
				for j := range names {
					d += distance(i, j)
				}
			}
			if next < 0 || d < least {
				next, least = i, d
			}
		}
		order = append(order, next)
	}
	return order
}

// A grid is a list of shapes, by their names or dimensions.
type grid struct {
	names  []string
	dims   []string
	values map[string][]int64 // in order; nil for a list of names
}

// readGrid reads "S=512,2048 D=64 B=2 H=8", or "512 1024".
func readGrid(p *kernels.Problem, text string) (g grid, err error) {
	wrong := func(format string, args ...any) (grid, error) { //nolint:unparam // as its callers return
		return grid{}, fmt.Errorf("the family %q: %s: write the values of each dimension, such as %q, or names of shapes", text, fmt.Sprintf(format, args...), p.Dims[0]+"=512,1024")
	}
	fields := strings.Fields(text)
	switch named := !strings.Contains(text, "="); {
	case len(fields) == 0:
		return wrong("it is empty")
	case named:
		return grid{names: strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })}, nil
	}
	g.values, g.dims = map[string][]int64{}, p.Dims
	for _, field := range fields {
		name, list, ok := strings.Cut(field, "=")
		switch {
		case !ok:
			return wrong("%q is not of the form NAME=N,N", field)
		case !slices.Contains(p.Dims, name):
			return wrong("there is no dimension %q: there are %s", name, strings.Join(p.Dims, ", "))
		case g.values[name] != nil:
			return wrong("%s is given twice", name)
		}
		for part := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil || n < 0 {
				return wrong("%s is %q, expected whole numbers with commas between them", name, list)
			}
			g.values[name] = append(g.values[name], n)
		}
		slices.Sort(g.values[name])
		g.values[name] = slices.Compact(g.values[name])
	}
	for _, name := range p.Dims {
		switch {
		case g.values[name] != nil:
		case slices.Contains(p.Flags(), name):
			g.values[name] = []int64{0}
		default:
			return wrong("%s is missing", name)
		}
	}
	if n := g.count(); n > mostShapes {
		return wrong("it has %d shapes, and %d are the most", n, mostShapes)
	}
	g.names = product(p.Dims, g.values)
	return g, nil
}

// mostShapes is the largest number of shapes of a grid: nobody has the time for more.
const mostShapes = 1000

func (g grid) count() int {
	n := 1
	for _, list := range g.values {
		n = min(n*len(list), mostShapes+1)
	}
	return n
}

// product lists all shapes of a grid; the first dimension's values change slowest.
func product(dims []string, values map[string][]int64) []string {
	out := []string{""}
	for _, d := range dims {
		var next []string
		for _, head := range out {
			for _, n := range values[d] {
				next = append(next, strings.TrimPrefix(head+","+d+"="+strconv.FormatInt(n, 10), ","))
			}
		}
		out = next
	}
	return out
}

// between are the shapes that the grid gains with a value added between any two of a
// dimension that are more than a doubling apart.
func (g grid) between() []string {
	finer := map[string][]int64{}
	for d, values := range g.values {
		for i, hi := range values {
			if i > 0 && values[i-1] > 1 && hi > 2*values[i-1] {
				finer[d] = append(finer[d], middleOf(values[i-1], hi))
			}
			finer[d] = append(finer[d], hi)
		}
	}
	if g.values == nil || (grid{values: finer}).count() > mostShapes {
		return nil
	}
	return slices.DeleteFunc(product(g.dims, finer), func(name string) bool { return slices.Contains(g.names, name) })
}

// middleOf is the geometric mean of two sizes, rounded to an eighth of a power of two as sizes
// usually are.
func middleOf(lo, hi int64) int64 {
	m := math.Sqrt(float64(lo) * float64(hi))
	unit := math.Max(1, math.Exp2(math.Floor(math.Log2(m))-3))
	return int64(math.Round(m/unit) * unit)
}

// A FamilyRound is a completed part of the work on a family.
type FamilyRound struct {
	// Phase is "search", "finals" or "compare".
	Phase  string `json:"phase"`
	Number int    `json:"number"` // 1 for the first of this process
	Shape  string `json:"shape"`
	// More describes its budget, Why says why this shape was chosen.
	More     string   `json:"more,omitempty"`
	Why      string   `json:"why"`
	Finished Finished `json:"finished"`
}

// A FamilyPoint is what the store holds of one shape of a family.
type FamilyPoint struct {
	Shape string
	// Evaluated is how many candidates the search at this shape evaluated.
	Evaluated int
	// Campaign is the one that decided: the newest comparison, else the search; without an
	// ID if there is neither. From is the shape that its winner was tuned for.
	Campaign store.Campaign
	From     string
}

// A FamilyOutcome says how far a Run got.
type FamilyOutcome struct {
	// Complete is false when the Run was interrupted.
	Complete bool
	// Left are the shapes at which nothing was compared because the time was over.
	Left []string
}

// Run works on a family until its budget is spent, or o.Drain is closed. It continues where the
// last Run stopped, whatever ended it. A part of a time budget is reserved for finals and for
// comparisons. Finals that don't fit their share of it end early. No comparison begins when the time
// is over: the next Run makes those. Tell is called after every part.
func (f *Family) Run(ctx context.Context, s *store.Store, o Options, tell func(FamilyRound)) (out FamilyOutcome, err error) {
	r := familyRun{Family: f, s: s, o: o, tell: tell, begun: time.Now()}
	for _, phase := range []func(context.Context) (bool, error){r.search, r.finals, r.compare} {
		if complete, err := phase(ctx); err != nil || !complete {
			return FamilyOutcome{}, err
		}
	}
	return FamilyOutcome{Complete: true, Left: r.left}, nil
}

// Points returns what the store holds of the family, the tuned shapes first.
func (f *Family) Points(s *store.Store) (tuned, between []FamilyPoint, err error) {
	all, err := s.Campaigns()
	if err != nil {
		return nil, nil, err
	}
	for i := range f.size() {
		p := FamilyPoint{Shape: f.shapeName(i), From: f.shapeName(i)}
		if p.Campaign, err = campaignOrNone(s, f.member(i)); err != nil {
			return nil, nil, err
		}
		p.Evaluated = p.Campaign.Evaluated
		if err := f.compared(s, all, &p); err != nil {
			return nil, nil, err
		}
		tuned = append(tuned, p)
	}
	for _, name := range f.Plan.Between {
		p := FamilyPoint{Shape: name}
		if err := f.compared(s, all, &p); err != nil {
			return nil, nil, err
		}
		between = append(between, p)
	}
	return tuned, between, nil
}

// compared looks for the newest comparison at a point.
func (f *Family) compared(s *store.Store, all []store.Campaign, p *FamilyPoint) error {
	for _, c := range slices.Backward(all) {
		if !strings.HasPrefix(c.ID, f.Plan.ID+"-at-") || !slices.Equal(c.Started.Shapes, []string{p.Shape}) || c.Finals == nil || c.Finals.Winner == "" {
			continue
		}
		won, err := s.Candidate(c.Finals.Winner)
		if err != nil {
			return err
		}
		p.Campaign, p.From = c, p.Shape
		for _, id := range won.Asked.Parents {
			from, err := s.Candidate(id)
			if err != nil {
				return err
			}
			p.From = strings.Join(from.Shapes, " ")
		}
		return nil
	}
	return nil
}

func campaignOrNone(s *store.Store, id string) (store.Campaign, error) {
	c, err := s.Campaign(id)
	if errors.Is(err, store.ErrNotFound) {
		return store.Campaign{}, nil
	}
	return c, err
}

// member names the campaign of a shape.
func (f *Family) member(i int) string { return fmt.Sprintf("%s-%02d", f.Plan.ID, i+1) }

func (f *Family) shapeName(i int) string {
	if len(f.Plan.Tables) > 0 {
		return f.Plan.Tables[i]
	}
	return f.Plan.Tuned[i]
}

// A familyRun is one process that works on a family.
type familyRun struct {
	*Family
	s      *store.Store
	o      Options
	tell   func(FamilyRound)
	begun  time.Time
	number int
	left   []string // shapes whose comparison waits for the next Run
}

// drained says that no further part should begin.
func (r *familyRun) drained(ctx context.Context) bool {
	select {
	case <-r.o.Drain:
		return true
	default:
		return ctx.Err() != nil
	}
}

// search runs the parts of the plan.
func (r *familyRun) search(ctx context.Context) (bool, error) {
	o := r.o
	o.searchOnly = true
	budget := r.Plan.Budget
	kept := finalsTime * time.Duration(r.size()+len(r.Plan.Tuned)+len(r.Plan.Between))
	budget.Time = max(budget.Time-kept, time.Duration(float64(budget.Time)*searchShare))
	for !r.drained(ctx) {
		members := make([]campaign.Member, r.size())
		for i := range members {
			var err error
			if members[i], err = campaign.ReadMember(record.Events(r.s, r.member(i))); err != nil && !errors.Is(err, store.ErrNotFound) {
				return false, err
			}
		}
		part, more := campaign.NextPart(members, r.order, budget)
		if !more {
			return true, nil
		}
		fin, err := r.part(ctx, o, part)
		if err != nil {
			return false, err
		}
		if !strings.HasPrefix(fin.Reason, campaign.SearchedBy) {
			return false, nil // interrupted
		}
		fin.Reason = strings.TrimPrefix(fin.Reason, campaign.SearchedBy)
		r.told(FamilyRound{Phase: "search", Shape: r.shapeName(part.Member), More: part.More, Why: part.Why, Finished: fin})
	}
	return false, nil
}

func (r *familyRun) told(round FamilyRound) {
	r.number++
	round.Number = r.number
	if r.tell != nil {
		r.tell(round)
	}
}

// part begins a campaign, or continues it.
func (r *familyRun) part(ctx context.Context, o Options, part campaign.Part) (Finished, error) {
	id := r.member(part.Member)
	if c, err := campaignOrNone(r.s, id); err != nil {
		return Finished{}, err
	} else if c.ID != "" {
		return r.machine.Resume(ctx, r.s, id, part.Budget, o)
	}
	job := r.jobFor(id)
	if job.WarmStart == nil && job.Strategy != "random" { // recorded spaces as well
		job.WarmStart = new(DefaultWarmStart)
	}
	if job.Budget = part.Budget; len(r.Plan.Tables) > 0 {
		job.Kernel, job.Table = "", r.Plan.Tables[part.Member]
	} else {
		job.Shapes = []string{r.Plan.Tuned[part.Member]}
	}
	return r.machine.Run(ctx, r.s, job, o)
}

func (r *familyRun) jobFor(id string) Job {
	job := r.job
	plan := r.Plan
	job.ID, job.Family = id, &plan
	return job
}

// finals measures the best of every campaign again.
func (r *familyRun) finals(ctx context.Context) (bool, error) {
	for n, i := range r.order {
		c, err := campaignOrNone(r.s, r.member(i))
		if err != nil {
			return false, err
		}
		if c.ID == "" || c.State == store.Finished {
			continue
		}
		if r.drained(ctx) {
			return false, nil
		}
		budget := Budget{Evaluations: max(1, c.Evaluated)}
		if budget.Time, err = r.finalsShare(i, len(r.order)-n); err != nil {
			return false, err
		}
		fin, err := r.machine.Resume(ctx, r.s, c.ID, budget, r.o)
		if err != nil || !fin.Complete {
			return false, err
		}
		r.told(FamilyRound{Phase: "finals", Shape: r.shapeName(i), Why: fmt.Sprintf("%d of %d", n+1, len(r.order)), Finished: fin})
	}
	return true, nil
}

// finalsShare is the time for a member with its finals, when those of so many members and all
// comparisons are still to come: an equal share of what is left, but not less than finals are kept
// free. It is 0 where the family's budget is not a time.
func (r *familyRun) finalsShare(member, waiting int) (time.Duration, error) {
	left := r.Plan.Budget.Time
	if left == 0 {
		return 0, nil
	}
	own := time.Duration(0)
	for i := range r.size() {
		m, err := campaign.ReadMember(record.Events(r.s, r.member(i)))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return 0, err
		}
		left -= m.Spent
		if i == member {
			own = m.Spent
		}
	}
	return own + max(finalsTime, left/time.Duration(waiting+len(r.Plan.Tuned)+len(r.Plan.Between))), nil
}

// compare compares winners of the family at the shapes between tuned ones, and at tuned ones where
// the neighbors' winners were not evaluated. Each comparison is a campaign that begins with these
// winners and does not search.
func (r *familyRun) compare(ctx context.Context) (bool, error) {
	if r.job.FinalsOf() < 1 {
		return true, nil
	}
	for n, name := range slices.Concat(r.Plan.Between, r.Plan.Tuned) {
		if r.drained(ctx) {
			return false, nil
		}
		job := r.jobFor("")
		job.Shapes = []string{name}
		var err error
		if job.Start, err = r.winnersNear(ctx, job); err != nil {
			return false, err
		}
		why := fmt.Sprintf("%d of %d between, %s of its neighbors", n+1, len(r.Plan.Between), words.Plural(len(job.Start), "winner"))
		if i := n - len(r.Plan.Between); i >= 0 {
			if job.Start, err = r.unseen(i, job.Start); err != nil {
				return false, err
			}
			why = fmt.Sprintf("%d of %d tuned, with %s of its neighbors", i+1, len(r.Plan.Tuned), words.Plural(max(0, len(job.Start)-1), "winner"))
		}
		if job.Start = job.Start[:min(len(job.Start), compared)]; len(job.Start) == 0 {
			continue // there is no winner, or nothing to compare
		}
		job.Budget.Evaluations, job.Finalists = len(job.Start), new(len(job.Start))
		text := name
		for _, s := range job.Start {
			text += "\n" + s.Genome
		}
		sum := sha256.Sum256([]byte(text))
		job.ID = r.Plan.ID + "-at-" + hex.EncodeToString(sum[:4])
		c, err := campaignOrNone(r.s, job.ID)
		switch t := r.Plan.Budget.Time; {
		case err != nil:
			return false, err
		case c.State == store.Finished:
			continue
		case t > 0 && time.Since(r.begun) > t:
			r.left = append(r.left, name)
			continue
		}
		var fin Finished
		if c.ID != "" {
			fin, err = r.machine.Resume(ctx, r.s, c.ID, Budget{}, r.o)
		} else {
			fin, err = r.machine.Run(ctx, r.s, job, r.o)
		}
		if err != nil || !fin.Complete {
			return false, err
		}
		r.told(FamilyRound{Phase: "compare", Shape: name, Why: why, Finished: fin})
	}
	return true, nil
}

// unseen are the winners that are worth a comparison at tuned shape i: its own, and those
// that its campaign has not evaluated; none if its own is the only one.
func (r *familyRun) unseen(i int, list []Start) ([]Start, error) {
	c, err := campaignOrNone(r.s, r.member(i))
	if err != nil || c.Finals == nil {
		return nil, err
	}
	seen := map[string]bool{}
	for e, err := range r.s.Events(c.ID, 0, store.WithoutDetail()) {
		if err != nil {
			return nil, err
		}
		if e.Asked != nil && e.Asked.Candidate != c.Finals.Winner {
			seen[e.Asked.Genome] = true
		}
	}
	list = slices.DeleteFunc(list, func(s Start) bool { return seen[s.Genome] })
	if len(list) < 2 {
		return nil, nil
	}
	return list, nil
}

// winnersNear are the winners of the family's tuned shapes, the nearest first.
func (r *familyRun) winnersNear(ctx context.Context, job Job) ([]Start, error) {
	t, err := r.machine.Target(job)
	if err != nil {
		return nil, err
	}
	space, here, err := t.here(ctx)
	if err != nil {
		return nil, err
	}
	var from []store.Campaign
	won := map[string]bool{}
	for i := range r.Plan.Tuned {
		c, err := campaignOrNone(r.s, r.member(i))
		if err != nil {
			return nil, err
		}
		if c.Finals != nil && c.Finals.Winner != "" {
			from = append(from, c)
			won[c.Finals.Winner] = true
		}
	}
	list, err := campaign.WarmStartFrom(r.s, from, space, here, t.Job, t.dims, math.MaxInt)
	list = slices.DeleteFunc(list, func(s Start) bool { return !won[s.Candidate] })
	return list, err
}

// Best is the time of a point's winner, in nanoseconds, with its speedup over the
// baseline; 0 for none.
func (p FamilyPoint) Best() (ns, speedup float64) {
	switch c := p.Campaign; {
	case c.Finals != nil && c.Finals.Winner != "":
		return c.Finals.MedianNS, 1 / c.Finals.Fitness
	case c.Best != nil:
		return c.Best.MedianNS, 1 / c.Best.Fitness
	}
	return 0, 0
}
