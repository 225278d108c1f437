package evotune

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/store"
)

// The backends that Job.Backend names.
const (
	Auto   = "auto"   // CUDA for kernels that have it where there is a GPU, else the CPU
	CPU    = "cpu"    // C, on this machine's processor
	CUDA   = "cuda"   // CUDA, on this machine's GPUs
	Replay = "replay" // no device: results of a recorded table
)

// The values that zero fields of a Job stand for.
const (
	DefaultTime      = 3 * time.Minute
	DefaultWindow    = campaign.DefaultWindow
	DefaultGPUWindow = 32 // compilers and sanitizers work ahead of a GPU
	DefaultFinalists = campaign.DefaultFinalists
	DefaultWarmStart = campaign.DefaultWarmStart
)

// A Budget combines limits; the first that is reached ends the search, and a zero
// field sets none: Evaluations, Time (wall time over all resumptions), Target (a
// speedup over the baseline), Patience (evaluations without a new best), and MaxCost
// with CostPerHour.
type Budget = campaign.Budget

// A Start is a genome that a search proposes before all others, and the stored
// candidate that it was taken from.
type Start = campaign.Start

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

	// Backend is Auto, CPU, CUDA or Replay. Empty means Auto, or Replay with a
	// Table.
	Backend string `json:"backend,omitempty"`
	// Definitions are folders with definitions of kernels. They take the place of
	// built-in kernels of the same name, and of those of Machine.Definitions.
	Definitions []string `json:"definitions,omitempty"`
	// Table is the file of a recorded space, for the backend Replay.
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
	// search begins with. Zero means DefaultWarmStart, and none for the strategy
	// "random" and the backend Replay; a negative number means none.
	WarmStart int `json:"warm_start,omitempty"`

	// Strategy names the search, as in [search.Names]. Empty means "evolution".
	Strategy string `json:"strategy"`
	// Seed fixes the search's path and the data that candidates see.
	Seed int64 `json:"seed"`
	// Window is how many proposals are in flight. It is part of the search's path,
	// unlike the number of workers. Zero means DefaultWindow, or DefaultGPUWindow on
	// GPUs.
	Window int `json:"window"`
	// Finalists is how many candidates are measured again at the end. Zero means
	// DefaultFinalists; a negative number means that there are no finals.
	Finalists int `json:"finalists"`
	// Start are genomes that are proposed before all others. Nil means those of
	// WarmStart, which a campaign records here.
	Start []Start `json:"start,omitempty"`
	// Budget ends the search. Zero means DefaultTime; for a sweep, no limit.
	Budget Budget `json:"budget"`
}

// RecordedJob is the job of a stored campaign, as it began. Campaigns of all earlier
// versions can be read. The error is an ErrInput when the record is damaged.
func RecordedJob(c store.Campaign) (Job, error) {
	cfg, err := campaign.ReadConfig(c.Started.Config)
	if err != nil {
		return Job{}, badInput(fmt.Errorf("campaign %s: its configuration cannot be read: %w: run `tune check`", c.ID, err))
	}
	if cfg.Backend == "" { // not recorded with the job
		cfg.Backend = c.Started.Backend
	}
	if cfg.Limits == nil { // this machine's are others
		cfg.Limits = map[string]int64{}
	}
	return Job(cfg), nil
}

// check refuses what contradicts itself.
func (j Job) check() error {
	switch {
	case j.Kernel == "" && j.Table == "":
		return errors.New("the job names no kernel")
	case (j.Table != "") != (j.Backend == Replay):
		return fmt.Errorf("a table and the backend %s go together: the table is %q, the backend %q", Replay, j.Table, j.Backend)
	case !j.Sweep:
		return nil
	case j.Strategy != "" && j.Strategy != sweepStrategy || j.Finalists > 0 || j.WarmStart > 0 || len(j.Start) > 0:
		return errors.New("a sweep has no strategy, no finals and no warm start")
	case j.Budget != Budget{Evaluations: j.Budget.Evaluations}:
		return errors.New("a sweep ends by its number of evaluations alone")
	}
	return nil
}

// limits are the job's, as spaces take them.
func (j Job) limits() map[string]any {
	if len(j.Limits) == 0 {
		return nil
	}
	m := make(map[string]any, len(j.Limits))
	for name, v := range j.Limits {
		m[name] = v
	}
	return m
}

// limitsOf are the limits of a device, as jobs have them.
func limitsOf(of map[string]any) (map[string]int64, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	var m map[string]int64
	return m, json.Unmarshal(text, &m)
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
