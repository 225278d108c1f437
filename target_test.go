package evotune

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/kernels"
)

func TestChooseImplementations(t *testing.T) {
	d := &kernels.Definition{Name: "k", Implementations: []*kernels.Implementation{
		{Name: "first", Backend: "cpu"}, {Name: "second", Backend: "cpu"}, {Name: "third", Backend: "cpu"}, {Name: "gpu", Backend: "cuda"},
	}}
	for _, c := range []struct{ asked, want, err string }{
		{"", "first second third", ""},
		{"first", "first", ""},
		{"second", "second", ""},
		{"third first", "first third", ""},
		{"gpu", "", `implementation "gpu": the kernel k has none of this name for the cpu backend: it has first, second, third`},
	} {
		x := &Target{definition: d, Job: Job{Backend: CPU, Implementations: strings.Fields(c.asked)}}
		wrong, err := x.choose()
		err = errors.Join(err, wrong.all())
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: error %v, expected %q", c.asked, err, c.err)
			}
			continue
		}
		var got []string
		for _, im := range x.chosen {
			got = append(got, im.Name)
		}
		if err != nil || !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%q chose %v (%v), expected %s", c.asked, got, err, c.want)
		}
	}
}

// A job that contradicts itself, or names what is not there, is refused before
// anything runs.
func TestTargetBadInput(t *testing.T) {
	const table = "internal/tables/testdata/synthetic.json"
	for want, j := range map[string]Job{
		"kernel is missing":                {},
		"unknown kernel":                   {Kernel: "nobody"},
		"backend \"quantum\" is not known": {Kernel: "softmax", Backend: "quantum"},
		"go together":                      {Kernel: "softmax", Table: table, Backend: CPU},
		"no such file":                     {Table: "nowhere.json"},
		"unknown shape":                    {Kernel: "softmax", Backend: CPU, Shapes: []string{"vast"}},
		"none of this name":                {Kernel: "softmax", Backend: CPU, Implementations: []string{"magic"}},
		"is not the one":                   {Kernel: "softmax", Backend: CPU, Hash: "abc"},
		"strategy \"hope\" is not known: there are evolution": {Table: table, Strategy: "hope"},
		"must not be negative":                                {Table: table, Budget: Budget{Evaluations: -1}},
		"a sweep has no":                                      {Table: table, Sweep: true, Strategy: "evolution"},
		"a sweep ends by":                                     {Table: table, Sweep: true, Budget: Budget{Patience: 3}},
		"sample is missing":                                   {Kernel: "sgemm", Backend: CPU, Sweep: true},

		"window is -1: it must not be negative":       {Table: table, Window: -1},
		"finalists is -2: it must not be negative":    {Table: table, Finalists: new(-2)},
		"time is -1s: it must not be negative":        {Table: table, Budget: Budget{Time: -time.Second}},
		"target is NaN: give 0 to 1000000000000":      {Table: table, Budget: Budget{Target: math.NaN()}},
		"max-cost is +Inf: give 0 to 1000000000000":   {Table: table, Budget: Budget{CostPerHour: 1, MaxCost: math.Inf(1)}},
		"implementation is there 1025 times: give at": {Kernel: "softmax", Backend: CPU, Implementations: make([]string, 1025)},
		"time is 277777h46m41s: give 0s to 277777h4":  {Table: table, Budget: Budget{Time: MaxTime + time.Second}},
	} {
		if got, err := new(Machine).Target(j); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%+v: %v, want %q", j, err, want)
		}
	}
}

// An error names every field that is wrong.
func TestTargetWrongFields(t *testing.T) {
	_, err := new(Machine).Target(Job{Kernel: "softmax", Backend: CPU, Shapes: []string{"1024x1024", "vast", "tiny"}, Implementations: []string{"magic", "passes"}})
	var got []string
	for _, f := range FieldErrors(err) {
		got = append(got, f.Field)
	}
	if want := []string{"implementation", "shape", "shape"}; !slices.Equal(got, want) {
		t.Errorf("%v are wrong, want %v: %v", got, want, err)
	}
	for want, j := range map[string]Job{
		"window,finalists,strategy,implementation,shape": {Kernel: "softmax", Backend: CPU, Window: -1, Finalists: new(-2), Strategy: "hope", Shapes: []string{"vast"}, Implementations: []string{"magic"}},
		"max-cost,id,strategy":                           {Kernel: "softmax", Backend: CPU, ID: "a b", Strategy: "hope", Budget: Budget{MaxCost: 1}},
		"strategy,kernel":                                {Kernel: "no-such", Backend: CPU, Strategy: "hope"},
		"strategy":                                       {Kernel: "softmax", Backend: CPU, Strategy: "hope"},
	} {
		_, err := new(Machine).Target(j)
		var got []string
		for _, f := range FieldErrors(err) {
			got = append(got, f.Field)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%v are wrong, want %s: %v", got, want, err)
		}
	}
	if _, err = new(Machine).Target(Job{Kernel: "gemm", Backend: CPU}); len(FieldErrors(err)) != 1 || FieldErrors(err)[0].Field != "backend" {
		t.Errorf("no field is named: %v", err)
	}
}

// Every option of a job takes its bounds, and nothing beyond them.
func TestTargetBounds(t *testing.T) {
	table := "internal/tables/testdata/synthetic.json"
	largest := Job{Table: table, Budget: Budget{CostPerHour: 1}}
	bounded := 0
	for _, f := range option.Of(Job{}) {
		tag := func(name string) float64 {
			x, err := strconv.ParseFloat(f.Tag.Get(name), 64)
			if err != nil {
				t.Fatalf("%s: %s: %v", f.Key, name, err)
			}
			return x
		}
		if f.Tag.Get("maximum") == "" {
			if k := f.Kind().Kind(); (k == reflect.Int || k == reflect.Float64) && f.Name != "seed" {
				t.Errorf("%s has no maximum", f.Key)
			}
			continue
		}
		bounded++
		set := func(j *Job, x float64) {
			at := f.Value(j)
			if at.Kind() == reflect.Pointer {
				at.Set(reflect.New(f.Kind()))
				at = at.Elem()
			}
			at.Set(reflect.ValueOf(x).Convert(f.Kind()))
		}
		set(&largest, tag("maximum"))
		for _, x := range []float64{2 * tag("maximum"), tag("minimum") - 1} {
			j := Job{Table: table, Budget: Budget{CostPerHour: 1}}
			set(&j, x)
			if _, err := new(Machine).Target(j); len(FieldErrors(err)) != 1 || FieldErrors(err)[0].Field != f.Name {
				t.Errorf("%s of %v: %v", f.Key, x, err)
			}
		}
	}
	if _, err := new(Machine).Target(largest); err != nil || bounded < 9 {
		t.Errorf("%d options have bounds: %+v: %v", bounded, largest, err)
	}
	if *largest.Finalists != MaxWindow || *largest.WarmStart != MaxWindow || largest.Window != MaxWindow || largest.Budget.Time != MaxTime {
		t.Errorf("the largest are declared twice, with other values: %+v", largest)
	}
}

// What a job leaves out is filled in, and what was filled in goes to another machine
// as JSON and is the same job there.
func TestTargetJob(t *testing.T) {
	d, err := kernels.Find("softmax")
	if err != nil {
		t.Fatal(err)
	}
	given := Job{Kernel: "softmax", Backend: CPU, Seed: new(int64(7)), Limits: map[string]int64{"device_cores": 3}}
	one, err := new(Machine).Target(given)
	if err != nil {
		t.Fatal(err)
	}
	if j := one.Job; j.Hash != d.Hash || len(j.Shapes) != 1 || j.Budget.Time != DefaultTime || j.Limits["device_cores"] != 3 || len(j.Limits) != 1 {
		t.Errorf("filled in: %+v", j)
	}
	text, err := json.Marshal(one.Job)
	if err != nil {
		t.Fatal(err)
	}
	var sent Job
	if err := json.Unmarshal(text, &sent); err != nil {
		t.Fatal(err)
	}
	two, err := new(Machine).Target(sent)
	if err != nil || !reflect.DeepEqual(one.Job, two.Job) {
		t.Errorf("%+v and, sent, %+v (%v)", one.Job, two.Job, err)
	}
	for want, j := range map[int]Job{0: {Sweep: true}, 5: {WarmStart: new(5)}, DefaultWarmStart: {}, -1: {WarmStart: new(-1)}} {
		if got := warmStart(j); got != want {
			t.Errorf("%+v begins with %d, want %d", j, got, want)
		}
	}
	for _, j := range []Job{{Strategy: "random"}, {Backend: Replay}, {Start: []Start{{}}}} {
		if got := warmStart(j); got != 0 {
			t.Errorf("%+v begins with %d", j, got)
		}
	}
}

// TestLeavesOut: what nobody asked for, and the device cannot run, is not searched.
func TestLeavesOut(t *testing.T) {
	m := &Machine{}
	for _, c := range []struct {
		kernel string
		device int64
		ask    []string
		want   []string // as recorded
		chosen int
	}{
		{"gemm", 80, nil, []string{"mma", "wmma"}, 2},
		{"gemm", 90, nil, nil, 3},
		{"gemm", 100, nil, []string{"mma", "wmma"}, 2},
		{"gemm", 80, []string{"hopper"}, []string{"hopper"}, 1}, // opening says why not
		{"gemm-bf16", 80, nil, nil, 1},
		{"softmax", 80, nil, []string{"rows"}, 1},
		{"softmax", 90, nil, nil, 2},
		{"reduce", 80, nil, nil, 1},
	} {
		target, err := m.Target(Job{Kernel: c.kernel, Backend: CUDA, Implementations: c.ask, Limits: map[string]int64{"device_capability": c.device}})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(target.Job.Implementations, c.want) || len(target.chosen) != c.chosen {
			t.Errorf("%s on %d: %q and %d are searched", c.kernel, c.device, target.Job.Implementations, len(target.chosen))
		}
	}
}

// TestFit: an implementation that cannot compute the tuned shapes is left out with a line, and the same ones are left out of what is recorded.
func TestFit(t *testing.T) {
	const odd = "M=333,N=777,K=555"
	limits := map[string]int64{"device_capability": 90}
	for _, c := range []struct {
		ask   []string
		shape string
		want  string // what is searched
		left  string
	}{
		{nil, odd, "mma wmma", "an implementation is left out: hopper cannot compute " + odd + `: the space is empty: the constraint "N % 8 == 0 and K % 8 == 0" (rows that`},
		{[]string{"hopper", "mma"}, odd, "mma", "an implementation is left out: hopper cannot compute "},
		{nil, "M=333,N=776,K=552", "mma wmma hopper", ""},
	} {
		x, err := new(Machine).Target(Job{Kernel: "gemm", Backend: CUDA, Implementations: c.ask, Shapes: []string{c.shape}, Limits: limits, Strategy: "random"})
		if err != nil {
			t.Fatal(err)
		}
		job, err := x.Fix(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := new(Machine).Target(job) // as a service runs what it has accepted
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []*Target{x, again} {
			var names []string
			for _, im := range x.chosen {
				names = append(names, im.Name)
			}
			if left := strings.Join(x.LeftOut(), "\n"); strings.Join(names, " ") != c.want || !strings.HasPrefix(left, c.left) || (left == "") != (c.left == "") {
				t.Errorf("%v at %s: %v are searched, left out: %q", c.ask, c.shape, names, left)
			}
		}
		one, err := x.Space()
		if two, _ := x.Space(); err != nil || one != two {
			t.Errorf("%v at %s: spaces %p and %p, %v", c.ask, c.shape, one, two, err)
		}
		var told []string
		listen := again.warned(func(e Event) { told = append(told, e.Warning) })
		listen(Event{Started: &Started{}})
		listen(Event{Searched: &Searched{}})
		if want := slices.Concat([]string{""}, again.LeftOut(), []string{""}); !slices.Equal(told, want) {
			t.Errorf("warnings %q, want %q", told, want)
		}
	}
	small := map[string]int64{"device_capability": 90, "device_max_shared_bytes": 1024}
	x, err := new(Machine).Target(Job{Kernel: "gemm", Backend: CUDA, Shapes: []string{odd}, Limits: small})
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Space()
	for _, name := range []string{"hopper", "mma", "wmma"} {
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), name+" cannot compute "+odd+": the space is empty: ") {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

// The first sanitize shape that candidates for the tuned shapes can compute is the search's,
// and all others are for the finals.
func TestSanitizedShapes(t *testing.T) {
	for tuned, want := range map[string]string{"2x8x512x64": "small: small-128", "2x8x512x128": "small-128: small"} {
		x, err := new(Machine).Target(Job{Kernel: "attention", Backend: CUDA, Shapes: []string{tuned}, Limits: map[string]int64{"device_capability": 90}})
		if err != nil {
			t.Fatal(err)
		}
		tune, err := x.shapes()
		if err != nil {
			t.Fatal(err)
		}
		first, also := x.sanitized(tune)
		got := first.Name + ":"
		for _, s := range also {
			got += " " + s.Name
		}
		if got != want {
			t.Errorf("%s: %s, want %s", tuned, got, want)
		}
	}
}

// TestSpaceOnce: a target's space is compiled once, also where another Machine runs the job.
func TestSpaceOnce(t *testing.T) {
	m := &Machine{}
	for _, kernel := range []string{"softmax", "sgemm"} {
		at, err := m.Target(Job{Kernel: kernel, Backend: CPU})
		if err != nil {
			t.Fatal(err)
		}
		fixed, err := at.Fix(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		there := at.On(&Machine{}, fixed)
		one, err := at.Space()
		two, err2 := there.Space()
		if err != nil || err2 != nil || one != two || there.Definition() != at.Definition() || there.Job.Start == nil {
			t.Errorf("%s: %v, %v: %p and %p", kernel, err, err2, one, two)
		}
	}
}
