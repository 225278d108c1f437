package campaign

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/search"
)

// A Config is what a campaign is, apart from the machine it happens to run on.
// It is recorded when the campaign starts, and resuming reads it back. It is the
// root package's Job, which documents the fields: the two convert into each other.
type Config struct {
	// ID names the campaign in the store. Empty means "<kernel>-<8 random hex
	// digits>".
	ID     string   `json:"id"`
	Kernel string   `json:"kernel"`
	Shapes []string `json:"shapes"`

	// What a campaign keeps for its caller and does not look at: how the same
	// evaluator is opened again.

	Backend         string           `json:"backend,omitempty"`
	Definitions     []string         `json:"definitions,omitempty"`
	Table           string           `json:"table,omitempty"`
	Implementations []string         `json:"implementations,omitempty"`
	Hash            string           `json:"hash,omitempty"`
	Limits          map[string]int64 `json:"limits,omitempty"`
	Sweep           bool             `json:"sweep,omitempty"`
	WarmStart       int              `json:"warm_start,omitempty"`

	// Strategy names the search; empty means "evolution".
	Strategy string `json:"strategy"`
	// Seed fixes the search's path and the data that candidates see.
	Seed int64 `json:"seed"`
	// Window is how many proposals are in flight. Proposal k is made after
	// exactly the results 0..k-Window were told, so the path depends on the
	// window but never on the number of workers. Zero means DefaultWindow.
	Window int `json:"window"`
	// Finalists is how many candidates are measured again at the end. Zero
	// means DefaultFinalists; negative means that there are no finals.
	Finalists int `json:"finalists"`
	// Start are genomes that are proposed before all others, by the operator
	// "warm" and with the stored candidates that they were taken from as parents,
	// which the log must have. See WarmStart.
	Start []Start `json:"start,omitempty"`
	// Budget ends the search.
	Budget Budget `json:"budget"`
}

// ReadConfig reads what a campaign recorded, in any form that stores hold.
func ReadConfig(data json.RawMessage) (Config, error) {
	var c Config
	data, err := record.Config(data)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	return c, err
}

// The values that zero fields of a Config stand for.
const (
	DefaultWindow    = 8
	DefaultFinalists = 4
	DefaultStrategy  = "evolution"
)

func (c Config) withDefaults() Config {
	if c.Strategy == "" {
		c.Strategy = DefaultStrategy
	}
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	if c.Finalists == 0 {
		c.Finalists = DefaultFinalists
	}
	if c.ID == "" {
		c.ID = newID(c.Kernel)
	}
	return c
}

func newID(kernel string) string {
	var b [4]byte
	rand.Read(b[:]) // it never fails
	return kernel + "-" + hex.EncodeToString(b[:])
}

// Validate reports the first thing that makes the configuration unusable.
func (c Config) Validate() error {
	switch {
	case c.Kernel == "":
		return errors.New("campaign: no kernel given")
	case c.Window < 0:
		return fmt.Errorf("campaign: window is %d, it must be at least 1", c.Window)
	case strings.ContainsAny(c.ID, "/\x00 \n"):
		return fmt.Errorf("campaign: ID %q has a space, a slash or a control character", c.ID)
	}
	if c.Strategy != "" && !slices.Contains(search.Names(), c.Strategy) {
		return fmt.Errorf("campaign: unknown strategy %q: there are %s", c.Strategy, strings.Join(search.Names(), ", "))
	}
	return c.Budget.validate()
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

func (b Budget) validate() error {
	switch {
	case b.Evaluations < 0:
		return fmt.Errorf("campaign: evaluations is %d, it must not be negative", b.Evaluations)
	case b.Time < 0:
		return fmt.Errorf("campaign: time is %s, it must not be negative", b.Time)
	case b.Target < 0:
		return fmt.Errorf("campaign: target is %g, it must not be negative", b.Target)
	case b.Patience < 0:
		return fmt.Errorf("campaign: patience is %d, it must not be negative", b.Patience)
	case b.MaxCost < 0 || b.CostPerHour < 0:
		return errors.New("campaign: cost-per-hour and max-cost must not be negative")
	case b.MaxCost > 0 && b.CostPerHour == 0:
		return errors.New("campaign: max-cost needs cost-per-hour: what does an hour of this machine cost?")
	}
	return nil
}

// deadline is the wall time after which money or time have run out, or zero.
func (b Budget) deadline() time.Duration {
	d := b.Time
	if b.MaxCost > 0 {
		if m := time.Duration(b.MaxCost / b.CostPerHour * float64(time.Hour)); d == 0 || m < d {
			d = m
		}
	}
	return d
}

// spent names the limit that has been reached, or returns "".
func (b Budget) spent(elapsed time.Duration, evaluated, sinceBest int, best float64) string {
	switch {
	case b.Evaluations > 0 && evaluated >= b.Evaluations:
		return fmt.Sprintf("%d evaluations", b.Evaluations)
	case b.Target > 0 && best > 0 && 1/best >= b.Target:
		return fmt.Sprintf("target of %gx reached", b.Target)
	case b.Patience > 0 && sinceBest >= b.Patience:
		return fmt.Sprintf("no progress for %d evaluations", b.Patience)
	case b.MaxCost > 0 && elapsed.Hours()*b.CostPerHour >= b.MaxCost:
		return fmt.Sprintf("cost of %g reached", b.MaxCost)
	case b.Time > 0 && elapsed >= b.Time:
		return fmt.Sprintf("time of %s", b.Time)
	}
	return ""
}
