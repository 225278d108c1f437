package api_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
)

// TestBounds: requests document the bounds that jobs have.
func TestBounds(t *testing.T) {
	window, evaluations, amount := fmt.Sprint(evotune.MaxWindow), fmt.Sprint(evotune.MaxEvaluations), fmt.Sprintf("%.0f", evotune.MaxAmount)
	for _, c := range []struct {
		of   any
		tag  string
		want map[string]string // by field; others have none
	}{
		{api.Submission{}, "maximum", map[string]string{"Window": window, "Finalists": window, "WarmStart": window, "Workers": "1000", "Priority": "100"}},
		{api.Submission{}, "maxItems", map[string]string{"Shapes": fmt.Sprint(evotune.MaxNames), "Implementations": fmt.Sprint(evotune.MaxNames)}},
		{api.Budget{}, "maximum", map[string]string{
			"Evaluations": evaluations, "Patience": evaluations, "Seconds": fmt.Sprintf("%.0f", evotune.MaxTime.Seconds()),
			"Target": amount, "CostPerHour": amount, "MaxCost": amount,
		}},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(c.of)) {
			if got := f.Tag.Get(c.tag); got != c.want[f.Name] {
				t.Errorf("%T.%s has %s %q, jobs have %q", c.of, f.Name, c.tag, got, c.want[f.Name])
			}
		}
	}
}

// TestSeconds: a budget's time is the same on both ends.
func TestSeconds(t *testing.T) {
	for ms := range time.Duration(20_000) {
		b := evotune.Budget{Time: ms * time.Millisecond}
		if got := api.BudgetOf(b).Budget(); got != b {
			t.Fatalf("%s was sent, %s arrived", b.Time, got.Time)
		}
	}
}
