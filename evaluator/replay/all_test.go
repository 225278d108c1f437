package replay

import "testing"

func TestAll(t *testing.T) {
	table := Synthetic(1000)
	ev, err := New(table, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ev.Close()
	n, failed := 0, 0
	for g, ms := range table.All() {
		n++
		if ms == 0 {
			failed++
		}
		r, err := ev.Evaluate(t.Context(), g, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Timings) == 0 != (ms == 0) || ms > 0 && r.Timings[0].MedianNS != ms*nsPerMS {
			t.Errorf("%s: %v ms, evaluated as %s %v", g, ms, r.Verdict, r.Timings)
		}
	}
	if n != table.Len() || failed != table.Failed() {
		t.Errorf("%d configurations, %d failed, of %d and %d", n, failed, table.Len(), table.Failed())
	}
	for range table.All() {
		break
	}
}
