package option_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/internal/option"
)

// A sample has an option of each kind.
type sample struct {
	Name    string   `json:"name,omitempty" flag:"name,usual" enum:"usual,other" doc:"its <NAME>"`
	Folders []string `json:"folders" flag:"folder" maxItems:"2" doc:"a <DIR> (default: none)"`
	Seed    *int64   `json:"seed,omitempty" flag:"seed,1" doc:"where it begins"`
	Warm    *int     `json:"warm,omitempty" flag:"warm,auto" minimum:"0" maximum:"9" doc:"begin with <N>"`
	Inner   inner    `json:"inner" doc:"what is in it"`
	Known   bool     `json:"known" doc:"in bodies alone"`
	Filled  string   `json:"filled"` // is not an option
}

type inner struct {
	Time  time.Duration `json:"time_ns" flag:"time,3s" minimum:"0" doc:"how long"`
	Limit float64       `json:"limit" flag:"limit" minimum:"-1" maximum:"2.5" doc:"how much"`
}

func TestOf(t *testing.T) {
	var s sample
	option.Fill(&s)
	if s.Name != "usual" || *s.Seed != 1 || s.Warm != nil || s.Inner.Time != 3*time.Second || len(option.Check(s)) > 0 {
		t.Errorf("the defaults are %+v: %v", s, option.Check(s))
	}
	var told []string
	for _, f := range option.Of(s) {
		told = append(told, f.Name+" "+f.Key+" "+f.Section+" "+strings.Join(f.Text(f.Value(s)), ",")+" "+f.Usage()+" "+option.Sentence(f.Doc))
	}
	want := []string{
		"name name  usual its `NAME` Its NAME.", "folder folders   a `DIR` (repeatable; default: none) A DIR (default: none).",
		"seed seed  1 where it begins Where it begins.", "warm warm  auto begin with `N` Begin with N.",
		"time inner.time_ns what is in it 3s how long How long.", "limit inner.limit what is in it 0 how much How much.", " known  false in bodies alone In bodies alone.",
	}
	if !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}

// Values are read from texts and from what configuration files hold, and what is wrong says what to give.
func TestRead(t *testing.T) {
	fields := map[string]option.Field{}
	for _, f := range option.Of(sample{}) {
		fields[f.Name] = f
	}
	for _, c := range []struct {
		name string
		raw  any
		want any // or the error
	}{
		{"name", "other", "other"},
		{"name", "third", "give usual or other"},
		{"name", 3, "give a string"},
		{"folder", "a:b", []string{"a", "b"}},
		{"folder", []any{"a", 2}, []string{"a", "2"}},
		{"folder", "", []string(nil)},
		{"folder", []string{}, []string(nil)},
		{"folder", true, "give a list of strings"},
		{"folder", []string{"a", "b", "c"}, "give at most 2"},
		{"seed", "0", new(int64(0))},
		{"seed", int64(-7), new(int64(-7))},
		{"seed", "auto", "give a whole number"},
		{"seed", 1.5, "give a whole number"},
		{"warm", "auto", (*int)(nil)},
		{"warm", "off", new(0)},
		{"warm", 0, new(0)},
		{"warm", "10", "give 0 to 9"},
		{"warm", "many", "give auto, off or a whole number"},
		{"warm", "-1", "it must not be negative"},
		{"time", "90s", 90 * time.Second},
		{"time", "-1s", "it must not be negative"},
		{"time", 90, "give a duration, such as 90s or 1h30m"},
		{"limit", 2.5, 2.5},
		{"limit", "NaN", "give -1 to 2.5"},
		{"limit", math.Inf(1), "give -1 to 2.5"},
		{"limit", "much", "give a number"},
	} {
		v, err := fields[c.name].Read(c.raw)
		if text, isError := c.want.(string); isError && err != nil {
			if err.Error() != text {
				t.Errorf("%s %v: %v, want %q", c.name, c.raw, err, text)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(v.Interface(), c.want) {
			t.Errorf("%s %v: %v, %v, want %v", c.name, c.raw, v, err, c.want)
		}
	}
}
