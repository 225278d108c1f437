package main

import (
	"path/filepath"
	"testing"
)

// What a coordinator calls a campaign leads nowhere else, and two have two folders.
func TestPlaceName(t *testing.T) {
	seen := map[string]bool{}
	for _, campaign := range []string{"softmax-00112233", "../../x", "", ".", "..", "/etc", "a/b", "a\x00b"} {
		name := placeName(campaign)
		if seen[name] || !filepath.IsLocal(name) || name != filepath.Base(name) || name == "." {
			t.Errorf("%q has the folder %q", campaign, name)
		}
		seen[name] = true
	}
}
