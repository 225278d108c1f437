package campaign

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/search"
)

// DefaultWindow is the window of a [record.Job] that has none.
const DefaultWindow = 8

// WithDefaults fills in what a job leaves to the campaign: the defaults of its options, the window and a name.
func WithDefaults(c record.Job) record.Job {
	option.Fill(&c)
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	if c.ID == "" {
		c.ID = NewID(c.Kernel)
	}
	return c
}

// NewID names a campaign after what it tunes, unlike all others.
func NewID(what string) string {
	var b [4]byte
	rand.Read(b[:]) // it never fails
	return what + "-" + hex.EncodeToString(b[:])
}

// Validate reports the first thing that makes a job unusable.
func Validate(c record.Job) error {
	if c.Kernel == "" {
		return errors.New("campaign: no kernel given")
	}
	if c.Strategy != "" && !slices.Contains(search.Names(), c.Strategy) {
		return fmt.Errorf("campaign: unknown strategy %q: there are %s", c.Strategy, strings.Join(search.Names(), ", "))
	}
	if wrong := c.Check(); len(wrong) > 0 {
		return fmt.Errorf("campaign: %s %s", wrong[0].Name, wrong[0].Why)
	}
	return nil
}

// costs is the wall time after which the money has run out, or zero.
func costs(b record.Budget) time.Duration {
	if b.MaxCost > 0 {
		return time.Duration(min(b.MaxCost/b.CostPerHour*float64(time.Hour), float64(record.MaxTime)))
	}
	return 0
}

// spent names the limit other than time that has been reached, or returns "".
func spent(b record.Budget, elapsed time.Duration, evaluated, sinceBest int, best float64) string {
	switch {
	case b.Evaluations > 0 && evaluated >= b.Evaluations:
		return fmt.Sprintf("%d evaluations", b.Evaluations)
	case b.Target > 0 && best > 0 && 1/best >= b.Target:
		return fmt.Sprintf("target of %gx reached", b.Target)
	case b.Patience > 0 && sinceBest >= b.Patience:
		return fmt.Sprintf("no progress for %d evaluations", b.Patience)
	case b.MaxCost > 0 && elapsed.Hours()*b.CostPerHour >= b.MaxCost:
		return fmt.Sprintf("cost of %g reached", b.MaxCost)
	}
	return ""
}
