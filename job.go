package evotune

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/search"
	"github.com/evotune/evotune/store"
)

// The backends that Job.Backend names.
const (
	Auto   = "auto"       // CUDA for kernels that have it where there is a GPU, else the CPU
	CPU    = backend.CPU  // C, on this machine's processor
	CUDA   = backend.CUDA // CUDA, on this machine's GPUs
	Replay = "replay"     // no device: results of a recorded table
)

// The values that zero fields of a Job stand for.
const (
	DefaultTime      = 2 * time.Minute
	DefaultWindow    = campaign.DefaultWindow
	DefaultGPUWindow = backend.GPUWindow
	DefaultFinalists = campaign.DefaultFinalists
	DefaultWarmStart = campaign.DefaultWarmStart
)

// The largest values that a new job may have.
const (
	MaxWindow      = 1024 // of Window, Finalists and WarmStart: the time of a proposal grows with them
	MaxNames       = 1024 // of Shapes and Implementations
	MaxEvaluations = record.MaxEvaluations
	MaxTime        = record.MaxTime
	MaxAmount      = record.MaxAmount
)

// The values of Job.Sanitize: which candidates that passed parity are sanitized.
const (
	SanitizeAll        = record.SanitizeAll
	SanitizeContenders = record.SanitizeContenders
)

// What campaigns record, as aliases.
type (
	// A Job says what is tuned and how. It is self-contained, and a campaign records it.
	// As JSON it can be sent to another machine, with its field names in lower
	// case (WarmStart is warm_start). Only Kernel (or Table) is required.
	//
	//   - ID names the campaign in the store. Empty means "<kernel>-<8 random hex digits>".
	//   - Kernel is the name of the kernel. With a Table it is the table's.
	//   - Shapes are the names of the shapes to tune for, together. Empty means the
	//     kernel's first.
	//   - Backend is Auto, CPU, CUDA or Replay. Empty means Auto, or Replay with a Table.
	//   - Definitions are folders with definitions of kernels. They replace built-in
	//     kernels of the same name, and those of Machine.Definitions.
	//   - Table is the file of a recorded space, for the backend Replay.
	//   - Implementations are the names of those that are searched. Empty means all that
	//     the kernel has for the backend, except those whose target the device cannot run.
	//   - Hash is that of the definition or the table, which a campaign records. A job
	//     with a hash is refused when the kernel's differs. Empty means any.
	//   - Limits are the device's properties for constraints, as in
	//     [kernels.Limits], which a campaign records. Nil means those of this machine's
	//     device; an empty map means the values that kernels assume for an unknown
	//     device.
	//   - Sweep measures every genome, or a uniform sample of Budget.Evaluations, and slow
	//     genomes as often as others. Strategy, Finalists, WarmStart and other budgets
	//     must be left out then.
	//   - Sanitize is SanitizeAll or SanitizeContenders. With the latter a candidate that passed
	//     parity, and whose first readings are more than a quarter slower than the best that was
	//     known when it was proposed, is not sanitized: its verdict is evaluator.Slower. Empty
	//     means all. Sweeps and tables take only that.
	//   - Strict refuses the job before anything is searched if a negative control that every
	//     definition has would be taken for correct at a tuned shape. Otherwise the campaign
	//     says so, and its winner is not proven. Tables take no Strict.
	//   - WarmStart is the largest number of winners of earlier campaigns of the same
	//     kernel that the search begins with. Zero means DefaultWarmStart, and none for
	//     the strategy "random" and the backend Replay; -1 means none.
	//   - Strategy names the search, as in search.Names. Empty means "evolution".
	//   - Seed determines the search's path and the data that candidates see.
	//   - Window is how many proposals are in flight. It is part of the search's path,
	//     unlike the number of workers. Zero means DefaultWindow, or DefaultGPUWindow for
	//     each GPU.
	//   - Finalists is how many candidates are measured again at the end. Zero means
	//     DefaultFinalists; -1 means that there are no finals.
	//   - Start are genomes that are proposed before all others. Nil means those of
	//     WarmStart and then those that the definition names, which a campaign records here
	//     and [Target.Fix] fills in. Empty and not nil means none.
	//     The strategy "random", the backend Replay and sweeps use none of the definition's.
	//   - Arch is the processor architecture that the search runs on, which a campaign records.
	//   - Budget ends the campaign. Zero means a Time of DefaultTime; for a sweep, no limit.
	Job = record.Job
	// A Budget combines limits. The first that is reached ends the search, and a zero
	// field sets no limit: Evaluations, Time (wall time of the whole campaign over all
	// resumptions: the search ends so that the finals end in time), Target (a
	// speedup over the baseline), Patience (evaluations without a new best), and MaxCost
	// with CostPerHour.
	Budget = record.Budget
	// Sanitize says which candidates the sanitizers see.
	Sanitize = record.Sanitize
	// A Start is a genome that a search proposes before all others, and the stored
	// candidate that it was taken from.
	Start = record.Start
)

// RecordedJob is the job of a stored campaign, as it began. Campaigns of all earlier
// versions can be read. The error is an ErrInput when the record is damaged.
func RecordedJob(c store.Campaign) (Job, error) {
	if len(c.Started.Config) == 0 {
		return Job{}, badInput(fmt.Errorf("campaign %s: its configuration is missing: look it up by its ID", c.ID))
	}
	j, err := record.ReadJob(c.ID, &c.Started)
	if err != nil {
		return j, badInput(err)
	}
	if j.Backend == "" { // not recorded with the job
		j.Backend = c.Started.Backend
	}
	if j.Limits == nil { // this machine's are others
		j.Limits = map[string]int64{}
	}
	return j, nil
}

// wrong lists the fields of a job that are wrong whatever its kernel is.
func wrong(j Job) (list wrongFields) {
	for _, n := range []struct {
		field              string
		value, least, most int
	}{
		{"window", j.Window, 0, MaxWindow},
		{"finalists", j.Finalists, -1, MaxWindow},
		{"warm-start", j.WarmStart, -1, MaxWindow},
	} {
		if n.value < n.least || n.value > n.most {
			list.add(n.field, "is %d: give %d to %d", n.value, n.least, n.most)
		}
	}
	for _, n := range []struct {
		field  string
		number int
	}{{"shape", len(j.Shapes)}, {"implementation", len(j.Implementations)}} {
		if n.number > MaxNames {
			list.add(n.field, "is there %d times: give at most %d", n.number, MaxNames)
		}
	}
	if known := search.Names(); j.Strategy != "" && !slices.Contains(known, j.Strategy) {
		list.add("strategy", "%q is not known: there are %s", j.Strategy, strings.Join(known, ", "))
	}
	return list
}

// check refuses a job that contradicts itself.
func check(j Job) error {
	switch {
	case j.Kernel == "" && j.Table == "":
		return badField("kernel", "is missing: name one")
	case (j.Table != "") != (j.Backend == Replay):
		return fmt.Errorf("a table and the backend %s go together: the table is %q, the backend %q", Replay, j.Table, j.Backend)
	case j.Sanitize == SanitizeContenders && j.Table != "":
		return errors.New("sanitize contenders is not for a recorded table, whose results nothing checks: leave it out")
	case j.Strict && j.Table != "":
		return errors.New("strict is not for a recorded table, whose results nothing checks: leave it out")
	case !j.Sweep:
		return nil
	case j.Sanitize == SanitizeContenders:
		return errors.New("sanitize contenders is not for a sweep, which records the verdict of every genome: leave it out")
	case j.Strategy != "" && j.Strategy != sweepStrategy || j.Finalists > 0 || j.WarmStart > 0 || len(j.Start) > 0:
		return errors.New("a sweep has no strategy, no finals and no warm start")
	case j.Budget != Budget{Evaluations: j.Budget.Evaluations}:
		return errors.New("a sweep ends by its number of evaluations alone")
	}
	return nil
}

// limits are the job's, in the form that spaces take.
func (t *Target) limits() map[string]any {
	if len(t.Job.Limits) == 0 {
		return nil
	}
	m := make(map[string]any, len(t.Job.Limits))
	for name, v := range t.Job.Limits {
		m[name] = v
	}
	return m
}

// limits are the properties of a backend's device, for constraints.
func (m *Machine) limits(name string) (map[string]int64, error) {
	if m.Elsewhere != nil {
		return m.Elsewhere.Limits, nil
	}
	b, err := m.backend(name)
	if err != nil {
		return nil, err
	}
	return limitsOf(b.Limits())
}

// limitsOf are the limits of a device, in the form that jobs have.
func limitsOf(of map[string]any) (map[string]int64, error) {
	if of == nil {
		return nil, nil
	}
	m := make(map[string]int64, len(of))
	for name, v := range of {
		n, ok := v.(int64)
		if !ok {
			return nil, fmt.Errorf("the limit %s of the device is %v, not an integer", name, v)
		}
		m[name] = n
	}
	return m, nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
