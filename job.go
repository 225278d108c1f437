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

// What the options of a Job come to where it leaves them to the campaign and the device decides.
const (
	DefaultTime      = 2 * time.Minute // of a Budget without any limit
	DefaultWindow    = campaign.DefaultWindow
	DefaultGPUWindow = backend.GPUWindow // for each: compilers and sanitizers work ahead of a GPU
	DefaultWarmStart = campaign.DefaultWarmStart
)

// The largest values that a new job may have.
const (
	MaxWindow = 1024 // the time of a proposal grows with it
	MaxTime   = record.MaxTime
)

// The values of Job.Sanitize: which candidates that passed parity are sanitized.
const (
	SanitizeAll        = record.SanitizeAll
	SanitizeContenders = record.SanitizeContenders
)

// What campaigns record, as aliases.
type (
	// A Job says what is tuned and how. It is self-contained, and a campaign records it. As JSON it can be sent to
	// another machine, and to a service. Only Kernel (or Table) is required.
	//
	// Each field is an option of `tune run`, or is filled in when the campaign begins. docs/options.md lists the
	// options with their defaults and bounds. A zero field is its default. Where zero is another value than the
	// default, as of Seed, WarmStart and Finalists, the field is a pointer, and nil is the default: Finalists:
	// new(0) means that there are no finals.
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

// read fills in what a job leaves out and no kernel decides, and lists the fields that are wrong whatever
// the kernel is. The error is that of a job that contradicts itself, or names too much to look up.
func (m *Machine) read(job Job) (Job, wrongFields, error) {
	if job.Backend == "" {
		job.Backend = Auto
		if job.Table != "" {
			job.Backend = Replay
		}
	}
	if err := check(job); err != nil {
		return job, nil, err
	}
	if job.Sweep {
		job.Strategy, job.Finalists = sweepStrategy, new(0)
	} else if job.Budget.IsZero() {
		job.Budget.Time = DefaultTime
	}
	job.Definitions = folders(m.Definitions, job.Definitions)
	if job.Table != "" {
		job.Table = absolute(job.Table)
	}
	wrong := wrong(job)
	if slices.ContainsFunc(wrong, func(f *FieldError) bool { return f.Field == "shape" || f.Field == "implementation" }) {
		return job, nil, wrong.all()
	}
	return job, wrong, nil
}

// wrong lists the fields of a job that are wrong whatever its kernel is.
func wrong(j Job) (list wrongFields) {
	for _, w := range j.Check() {
		list.add(w.Name, "%s", w.Why)
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
	case j.Strategy != "" && j.Strategy != sweepStrategy || j.Finalists != nil && *j.Finalists > 0 || j.WarmStart != nil && *j.WarmStart > 0 || len(j.Start) > 0:
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

// folders joins lists of folders with definitions. The last folder that has a kernel
// counts, and so does the last mention of a folder: joining the machine's folders to a
// job that already has them changes nothing.
func folders(lists ...[]string) (all []string) {
	for _, dir := range slices.Concat(lists...) {
		dir = absolute(dir)
		all = append(slices.DeleteFunc(all, func(d string) bool { return d == dir }), dir)
	}
	return all
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
