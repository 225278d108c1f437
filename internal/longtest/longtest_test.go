package longtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evotune/evotune/internal/longtest"
)

// recorder is a test that notes how it ends.
type recorder struct {
	testing.TB
	name, end string
}

func (*recorder) Helper() {}

func (r *recorder) Name() string { return r.name }

func (r *recorder) Fatalf(format string, args ...any) { r.note("failed: "+format, args...) }

func (r *recorder) Skipf(format string, args ...any) { r.note("skipped: "+format, args...) }

func (r *recorder) note(format string, args ...any) {
	if r.end == "" {
		r.end = fmt.Sprintf(format, args...)
	}
}

// TestSets asks of each kind of test whether it runs in each set: it runs in its own
// alone, and neither a set nor a name can be wrong unnoticed.
func TestSets(t *testing.T) {
	long := func(r *recorder) { longtest.Long(r, "slow") }
	kills := func(r *recorder) { longtest.Nightly(r, "kills", "kills") }
	for _, c := range []struct {
		set  string
		test func(*recorder)
		name string
		want string // how it ends begins so; empty if it runs
	}{
		{"", long, "TestXLong/case", "skipped: slow: EVOTUNE_TEST=long runs it"},
		{"long", long, "TestXLong/case", ""},
		{"kills", long, "TestXLong", "skipped"},
		{"", long, "TestX/Long", "failed: the name of a test of this set ends in Long"},
		{"", kills, "TestXNightly", "skipped: kills: EVOTUNE_TEST=kills runs it"},
		{"kills", kills, "TestXNightly", ""},
		{"soak", kills, "TestXNightly", "skipped"},
		{"long", kills, "TestXNightly", "skipped"},
		{"kills", kills, "TestXLong", "failed: the name of a test of this set ends in Nightly"},
		{"all", long, "TestXLong", `failed: EVOTUNE_TEST is "all": leave it empty, or set it to long or to a part of the nightly set: cuda, `},
		{"", func(r *recorder) { longtest.Nightly(r, "kill", "kills") }, "TestXNightly", `failed: "kill" is not a part of the nightly set`},
	} {
		t.Setenv(longtest.Variable, c.set)
		r := &recorder{name: c.name}
		if c.test(r); r.end == "" != (c.want == "") || !strings.HasPrefix(r.end, c.want) {
			t.Errorf("EVOTUNE_TEST=%s %s: %q, want %q", c.set, c.name, r.end, c.want)
		}
	}
}
