package longtest_test

import (
	"fmt"
	"testing"

	"github.com/evotune/evotune/internal/longtest"
)

// recorder is a test that notes how it ends.
type recorder struct {
	testing.TB
	end string
}

func (*recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) { r.end = fmt.Sprintf(format, args...) }

func (r *recorder) Skipf(format string, args ...any) { r.end = fmt.Sprintf(format, args...) }

func TestSkip(t *testing.T) {
	for value, want := range map[string]string{
		"":    "measures: EVOTUNE_TEST=all runs it",
		"all": "",
	} {
		t.Setenv(longtest.Variable, value)
		r := &recorder{TB: t}
		if longtest.Skip(r, "measures"); r.end != want {
			t.Errorf("EVOTUNE_TEST=%s: %q, want %q", value, r.end, want)
		}
	}
	t.Setenv(longtest.Variable, "long")
	r := &recorder{TB: t}
	if got, want := longtest.All(r), `EVOTUNE_TEST is "long": leave it empty, or set it to all`; got || r.end != want {
		t.Errorf("EVOTUNE_TEST=long: %t, %q, want %q", got, r.end, want)
	}
}
