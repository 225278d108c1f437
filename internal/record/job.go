package record

import "time"

// A Job says what is tuned and how. It is self-contained, a campaign records it, and
// as JSON it can be sent to another machine. Only Kernel (or Table) is required.
type Job struct {
	// ID names the campaign in the store. Empty means "<kernel>-<8 random hex
	// digits>".
	ID string `json:"id"`
	// Kernel is the name of the kernel. With a Table it is the table's.
	Kernel string `json:"kernel"`
	// Shapes are the names of the shapes to tune for, together. Empty means the
	// kernel's first.
	Shapes []string `json:"shapes"`

	// Backend is "auto", "cpu", "cuda" or "replay". Empty means "auto", or "replay"
	// with a Table.
	Backend string `json:"backend,omitempty"`
	// Definitions are folders with definitions of kernels. They take the place of
	// built-in kernels of the same name, and of those of the machine.
	Definitions []string `json:"definitions,omitempty"`
	// Table is the file of a recorded space, for the backend "replay".
	Table string `json:"table,omitempty"`
	// Implementations are the names of those that are searched. Empty means all that
	// the kernel has for the backend.
	Implementations []string `json:"implementations,omitempty"`
	// Hash is that of the definition or the table, which a campaign records. A job
	// that has one is refused when the kernel is not the same. Empty means any.
	Hash string `json:"hash,omitempty"`
	// Limits are what the device tells of itself for constraints, as in
	// [kernels.Limits], which a campaign records. Nil means those of this machine's
	// device; an empty map the values that kernels take for an unknown device.
	Limits map[string]int64 `json:"limits,omitempty"`
	// Sweep measures every genome, or a uniform sample of Budget.Evaluations, and
	// slow ones as often as others. Strategy, Finalists, WarmStart and other budgets
	// must be left out then.
	Sweep bool `json:"sweep,omitempty"`
	// WarmStart is up to how many winners of earlier campaigns of the same kernel the
	// search begins with. Zero means as many as the default window, and none for the
	// strategy "random" and the backend "replay"; a negative number means none.
	WarmStart int `json:"warm_start,omitempty"`

	// Strategy names the search, as in [search.Names]. Empty means "evolution".
	Strategy string `json:"strategy"`
	// Seed fixes the search's path and the data that candidates see.
	Seed int64 `json:"seed"`
	// Window is how many proposals are in flight: proposal k is made after exactly the
	// results 0..k-Window were told. So the path depends on it, and never on the number
	// of workers. Zero means 8, or 32 on GPUs.
	Window int `json:"window"`
	// Finalists is how many candidates are measured again at the end. Zero means 4; a
	// negative number means that there are no finals.
	Finalists int `json:"finalists"`
	// Start are genomes that are proposed before all others, by the operator "warm" and
	// with the stored candidates that they were taken from, which the log must have, as
	// parents. Nil means those of WarmStart, which a campaign records here.
	Start []Start `json:"start,omitempty"`
	// Budget ends the search. Zero means three minutes; for a sweep, no limit.
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
	// Evaluations limits how many candidates are proposed.
	Evaluations int `json:"evaluations,omitempty"`
	// Time limits the wall time spent, over all resumptions.
	Time time.Duration `json:"time_ns,omitempty"`
	// Target ends the search at this speedup over the baseline.
	Target float64 `json:"target,omitempty"`
	// Patience ends the search after so many evaluations without a new best.
	Patience int `json:"patience,omitempty"`
	// CostPerHour is the price of the machine and MaxCost the money there is,
	// in the same currency.
	CostPerHour float64 `json:"cost_per_hour,omitempty"`
	MaxCost     float64 `json:"max_cost,omitempty"`
}

// IsZero says that nothing but the end of the space ends the search.
func (b Budget) IsZero() bool {
	return b.Evaluations == 0 && b.Time == 0 && b.Target == 0 && b.Patience == 0 && b.MaxCost == 0
}
