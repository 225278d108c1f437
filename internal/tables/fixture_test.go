package tables

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/synthetic.json")

// The fixture that other packages' tests read is what Synthetic makes.
func TestFixtureIsSynthetic(t *testing.T) {
	const path = "testdata/synthetic.json"
	want := SyntheticFile(1000)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what Synthetic(1000) makes; run with -update if the formula was changed on purpose", path)
	}
	table, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if n, failed := table.Len(), table.Failed(); n < 1000 || failed < 20 || failed > n/3 {
		t.Errorf("%d configurations, %d of them Failed: want about 1000, and some that fail", n, failed)
	}
}
