package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune"
)

func TestImportance(t *testing.T) {
	f, c := finished(t, 60)
	want, err := new(evotune.Machine).Importance(f.service.store, c.ID, evotune.ImportanceOptions{Best: 1})
	if err != nil {
		t.Fatal(err)
	}
	want.Pairs = want.Pairs[:2]
	path := "/v1/campaigns/" + c.ID + "/importance"
	for range 2 { // computed, and kept
		if d := cmp.Diff(plainly(t, want), fetch[any](f, path+"?pairs=2")); d != "" {
			t.Errorf("(-local +HTTP):\n%s", d)
		}
	}
	if v := fetch[evotune.Importance](f, path); len(v.Pairs) != 5 || len(v.Genes) < 5 {
		t.Errorf("%d pairs of %d genes", len(v.Pairs), len(v.Genes))
	}
	few := f.until(f.submit(9, 4).ID, "finished")
	f.do("GET", "/v1/campaigns/"+few.ID+"/importance", nil, nil, 422)
	f.do("GET", path+"?best=0", nil, nil, 422)
	f.do("GET", path+"?best=2", nil, nil, 422)
	f.do("GET", path+"?best=NaN", nil, nil, 422)
	f.do("GET", "/v1/campaigns/nothing/importance", nil, nil, 404)
}
