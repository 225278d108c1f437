package record

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evotune/evotune/internal/option"
)

// A Job says what is tuned and how. It is self-contained: it is what a person asks for, what a service is sent, and what a
// campaign records. The tags of its fields declare the options of `tune run`, as package option reads them: everything
// else that knows an option reads it here. Fields without a doc are filled in where the campaign begins; a service takes
// none of them.
type Job struct {
	// ID names the campaign in the store. Empty means "<kernel>-<8 random hex digits>".
	ID     string `json:"id,omitempty"`
	Kernel string `json:"kernel,omitempty" doc:"the kernel's name; with a table it is the table's"`

	Backend         string   `json:"backend,omitempty" flag:"backend,auto" doc:"where candidates run: cuda, cpu, replay for recorded tables, or auto, which is the GPU where there is one and the kernel is for it, else the CPU"`
	Table           string   `json:"table,omitempty" doc:"the file of a recorded space, for the backend replay; a service needs the scope author for it"`
	Shapes          []string `json:"shapes,omitempty" flag:"shape" maxItems:"1024" doc:"tune for this <SHAPE>, together with the others: a name, or dimensions such as M=64,N=512 (default: the kernel's first)"`
	Implementations []string `json:"implementations,omitempty" flag:"implementation" maxItems:"1024" doc:"search only this implementation (default: all for the backend that the device can run)"`
	// Definitions are folders with definitions of kernels. They replace built-in kernels of the same name, and those of
	// the machine.
	Definitions []string `json:"definitions,omitempty"`
	// Hash is that of the definition or the table. A job with a hash is refused when the kernel's differs. Empty means any.
	Hash string `json:"hash,omitempty"`
	// Limits are the device's properties for constraints, as in kernels.Limits. Nil means those of the device that the
	// campaign begins on; an empty map means the values that kernels assume for an unknown device.
	Limits map[string]int64 `json:"limits,omitempty"`
	Sweep  bool             `json:"sweep,omitempty" doc:"measure every genome, or a uniform sample of as many as the evaluations of the budget, and slow genomes as often as others; strategy, finals, warm start and other budgets must be left out"`

	Strategy string `json:"strategy,omitempty" flag:"strategy,evolution" doc:"how the space is searched: evolution, hillclimb or random"`
	Seed     *int64 `json:"seed,omitempty" flag:"seed,1" doc:"fixes the search's path, and the data that candidates see"`
	// WarmStart is nil for the default, and zero for none.
	WarmStart *int `json:"warm_start,omitempty" flag:"warm-start,auto" minimum:"0" maximum:"1024" doc:"begin with up to <N> genomes that won in earlier campaigns, for other shapes and devices or here; auto is 8, or none for random search and recorded tables; off, or 0, gives the path of an empty store"`
	// Window: proposal k is made after exactly the results 0..k-Window were told, so the
	// path depends on the window but never on the number of workers.
	Window    int  `json:"window,omitempty" flag:"window" minimum:"0" maximum:"1024" doc:"proposals in flight; part of the search's path, unlike the number of workers (0: 8, or 32 for each GPU)"`
	Finalists *int `json:"finalists,omitempty" flag:"finalists,4" minimum:"0" maximum:"1024" doc:"measure the best <N> again at the end (0: no finals)"`
	// Sanitize: see its values. Empty means SanitizeAll. Sweeps and tables take only that.
	Sanitize Sanitize `json:"sanitize,omitempty" flag:"sanitize,all" enum:"all,contenders" doc:"sanitize all candidates that match the reference, or only contenders: slow ones are then timed unsanitized, and can never win"`
	// Strict: otherwise the campaign says so, and its winner is not proven. Tables take no Strict.
	Strict bool   `json:"strict,omitempty" flag:"strict" doc:"refuse a kernel that proves nothing at a tuned shape, where an input returned as output or work left out is within the tolerance, before anything is searched"`
	Budget Budget `json:"budget,omitzero" doc:"what ends the search: the limit that is reached first; without any it is the time, or for a sweep the end of the space"`

	// Start are genomes that are proposed before all others, by the operator "warm" and with the stored candidates that
	// they were taken from as parents, which the log must have. Those that a definition names have none. Nil means those
	// of WarmStart and then those of the definition, which a campaign records here; empty says that there are none. The
	// strategy "random", recorded tables and sweeps use none of the definition's.
	Start []Start `json:"start,omitzero"`
	// Family is what the campaign is a part of; nil for one of its own.
	Family *Family `json:"family,omitempty"`
	// Arch is the processor architecture (GOARCH) that the search runs on: paths are computed in
	// floating point, which others may round otherwise. Empty where a store from before the first release was
	// converted, which did not say it.
	Arch string `json:"arch,omitempty"`
}

// Check lists the fields that are wrong whatever the kernel and the strategies are.
func (j Job) Check() []option.Wrong {
	wrong := j.Budget.check(option.Check(j))
	if strings.ContainsAny(j.ID, "/\x00 \n") {
		wrong = append(wrong, option.Wrong{Field: option.Field{Name: "id"}, Why: fmt.Sprintf("is %q: it must not have a space, a slash or a control character", j.ID)})
	}
	return wrong
}

// SearchSeed is the job's Seed, also where that is left to its default.
func (j Job) SearchSeed() int64 {
	if j.Seed == nil {
		option.Fill(&j)
	}
	return *j.Seed
}

// FinalsOf is how many candidates the finals measure, also where Finalists is left to its default; zero without finals.
func (j Job) FinalsOf() int {
	if j.Finalists == nil {
		option.Fill(&j)
	}
	return *j.Finalists
}

// Sanitize says which candidates the sanitizers see.
type Sanitize string

// The values of Sanitize.
const (
	// SanitizeAll: every candidate that passes parity.
	SanitizeAll Sanitize = "all"
	// SanitizeContenders: those whose first readings are not far slower than the best that
	// was known when they were proposed, as in [evaluator.Plan.Contenders].
	SanitizeContenders Sanitize = "contenders"
)

// Sanitized is the job's Sanitize, also where that is empty; empty for a recorded table, whose results
// nothing checks.
func (j Job) Sanitized() Sanitize {
	if j.Table != "" {
		return ""
	}
	return cmp.Or(j.Sanitize, SanitizeAll)
}

// A Family is a list of problems that are tuned together under one budget, each by a
// campaign of its own. All of these record it. It is the root package's FamilyPlan.
type Family struct {
	ID string `json:"id"`
	// Tuned and Between are names of shapes. Those of Between are searched by nobody: the
	// winners of their neighbors are compared there.
	Tuned   []string `json:"tuned,omitempty"`
	Between []string `json:"between,omitempty"`
	// Tables are those of a family of recorded spaces, which have no shapes.
	Tables []string `json:"tables,omitempty"`
	// Budget is what the searches of all share: Evaluations, or Time.
	Budget Budget `json:"budget"`
}

// A Start is a genome that the search proposes before all others, and where it
// comes from.
type Start struct {
	// Genome is the canonical encoding, in the campaign's own space.
	Genome string `json:"genome"`
	// Candidate is the stored candidate that the genome was taken from; the log
	// names it as the parent. Campaign, Shapes and Device, a name, are those of
	// that candidate.
	Candidate string   `json:"candidate,omitempty"`
	Campaign  string   `json:"campaign,omitempty"`
	Shapes    []string `json:"shapes,omitempty"`
	Device    string   `json:"device,omitempty"`
}

// A Budget combines limits: the first one that is reached ends the search. A
// zero field sets no limit.
type Budget struct {
	Evaluations int `json:"evaluations,omitempty" flag:"evaluations" minimum:"0" maximum:"100000000" doc:"stop after <N> candidates (0: no limit)"`
	// Time is the wall time of the whole campaign over all resumptions: preparation, search and finals. The search ends
	// early enough for the finals.
	Time        time.Duration `json:"time_ns,omitempty" flag:"time" minimum:"0" maximum:"1000000000000000000" doc:"end the whole campaign, finals included, after this wall <TIME> (0: no limit; two minutes if no budget is set at all)"`
	Target      float64       `json:"target,omitempty" flag:"target" minimum:"0" maximum:"1000000000000" doc:"stop at this speedup over the baseline (0: no limit)"`
	Patience    int           `json:"patience,omitempty" flag:"patience" minimum:"0" maximum:"100000000" doc:"stop after <N> candidates without a new best (0: no limit)"`
	CostPerHour float64       `json:"cost_per_hour,omitempty" flag:"cost-per-hour" minimum:"0" maximum:"1000000000000" doc:"what an hour of this machine costs, for the largest cost"`
	MaxCost     float64       `json:"max_cost,omitempty" flag:"max-cost" minimum:"0" maximum:"1000000000000" doc:"stop when the campaign has cost this much, in the currency of the hour's cost (0: no limit)"`
}

// IsZero says that nothing but the end of the space ends the search.
func (b Budget) IsZero() bool {
	return b.Evaluations == 0 && b.Time == 0 && b.Target == 0 && b.Patience == 0 && b.MaxCost == 0
}

// MaxTime is the longest time that a budget may have.
const MaxTime = 1_000_000_000 * time.Second

// Validate reports the first thing that makes a budget unusable.
func (b Budget) Validate() error {
	if wrong := b.check(option.Check(b)); len(wrong) > 0 {
		return errors.New(wrong[0].Name + " " + wrong[0].Why)
	}
	return nil
}

// check adds to the fields that are wrong by themselves one that lacks another.
func (b Budget) check(wrong []option.Wrong) []option.Wrong {
	if b.MaxCost > 0 && b.CostPerHour == 0 {
		wrong = append(wrong, option.Wrong{Field: option.Field{Name: "max-cost"}, Why: "needs cost-per-hour: what does an hour of this machine cost?"})
	}
	return wrong
}
