package build

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestString(t *testing.T) {
	for _, c := range []struct {
		info Info
		want string
	}{
		{Info{Version: "v1.2.3", Go: "go1.26.0", Platform: "linux/amd64"}, "evotune v1.2.3 go1.26.0 linux/amd64"},
		{Info{Version: "v1.2.3", Revision: "abc", Go: "go1.26.0", Platform: "linux/arm64"}, "evotune v1.2.3 (revision abc) go1.26.0 linux/arm64"},
		{Info{Version: "(devel)", Revision: "abc", Modified: true, Go: "go1.26.0", Platform: "linux/amd64"}, "evotune (devel) (revision abc with changes) go1.26.0 linux/amd64"},
	} {
		if got := c.info.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A stamped version goes before what the go command recorded.
func TestStamped(t *testing.T) {
	version = "v9.8.7"
	t.Cleanup(func() { version = "" })
	if b := This(); b.Version != "v9.8.7" || b.Go != runtime.Version() || !strings.HasPrefix(b.Platform, runtime.GOOS) {
		t.Errorf("%+v", b)
	}
}

// TestProgram: builds that have no version of their own are told apart by their executables.
func TestProgram(t *testing.T) {
	for _, c := range []struct {
		info Info
		want string
	}{
		{Info{Version: "v1.2.3", Revision: "abc", Go: "go1.26.0", Platform: "linux/amd64"}, "evotune v1.2.3 (revision abc)"},
		{Info{Version: "v1.2.3", Go: "go1.26.0", Platform: "linux/arm64"}, "evotune v1.2.3"},
		{Info{Version: "(devel)", Revision: "abc"}, "evotune (devel) (revision abc)"},
		{Info{Version: "(devel)", Go: "go1.26.0", Platform: "linux/amd64"}, "evotune (devel), executable 12ef"},
		{Info{Version: "unknown"}, "evotune unknown, executable 12ef"},
		{Info{Version: "v0.0.1+dirty", Revision: "abc", Modified: true}, "evotune v0.0.1+dirty (revision abc with changes), executable 12ef"},
	} {
		if got := program(c.info, func() string { return "12ef" }); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if want := hex.EncodeToString(sum[:])[:16]; executable() != want {
		t.Errorf("%s, want %s", executable(), want)
	}
}
