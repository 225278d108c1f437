package search_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/evotune/evotune/search"
)

var update = flag.Bool("update", false, "rewrite testdata/paths.json")

// TestVersions: a path that is walked in another way has another version.
// testdata/paths.json holds for each strategy its version and a digest of the
// first proposals; the operators of genome are part of the path.
func TestVersions(t *testing.T) {
	const file = "testdata/paths.json"
	if runtime.GOARCH != "amd64" {
		t.Skip("the digests are those of amd64; sums are rounded otherwise elsewhere")
	}
	type walked struct {
		Version int    `json:"version"`
		Digest  string `json:"digest"`
	}
	names := slices.DeleteFunc(search.Names(), func(n string) bool { return n == "descent" }) // an example
	got := map[string]walked{}
	for _, name := range names {
		text := path(drive(t, open(t, name, conditional(t), search.Options{Seed: 11}), 1000, 3, made)) +
			path(drive(t, open(t, name, ordinalSpace(t, 9, 7, 5, 4, 6, 3), search.Options{Seed: 11}), 500, 8, made))
		sum := sha256.Sum256([]byte(text))
		got[name] = walked{search.Version(name), hex.EncodeToString(sum[:8])}
	}
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]walked
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if got[name] != want[name] {
			t.Errorf("%s walks path %+v, recorded is %+v: campaigns that are resumed would diverge; give the strategy a new version in search.go and run this test with -update", name, got[name], want[name])
		}
	}
}
