package evotune

import (
	"slices"
	"strings"
	"testing"

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
		{"gpu", "", `no implementation "gpu" for the cpu backend: it has first, second, third`},
	} {
		x := &Target{definition: d, Job: Job{Backend: CPU, Implementations: strings.Fields(c.asked)}}
		err := x.choose()
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
