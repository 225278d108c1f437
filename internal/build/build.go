// Package build says which evotune a program is.
//
// The go command records the revision and whether files were changed. A release
// stamps its version besides, with
//
//	-ldflags "-X github.com/evotune/evotune/internal/build.version=v1.2.3"
//
// # Caveats
//
// The go command records no revision in a linked work tree of git, nor with
// -buildvcs=false.
package build

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// version is stamped by scripts/release.sh; empty in any other build.
var version string

// An Info says which evotune this is.
type Info struct {
	Version  string `json:"version"`            // such as v1.2.3; "(devel)" or a pseudo-version where none is stamped
	Revision string `json:"revision,omitempty"` // the commit; empty where it is not recorded
	Modified bool   `json:"modified,omitempty"` // files differ from the commit's
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
}

// This reads what is recorded in the running program.
func This() Info {
	b := Info{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if version != "" {
		b.Version = version
	}
	return b
}

// Name is Program without the word evotune: the version, with the commit or the executable where the
// version is that of many programs.
func Name() string { return strings.TrimPrefix(Program(), "evotune ") }

// Program names this program for those that must be the same, and not what it was built with or for. What
// the version does not tell apart, builds of no commit and of changed files, the executable does.
func Program() string { return program(This(), executable) }

func program(b Info, sum func() string) string {
	told := b.Revision != "" || b.Version != "(devel)" && b.Version != "unknown" && b.Version != ""
	b.Go, b.Platform = "", ""
	s := strings.TrimSpace(b.String())
	if !told || b.Modified {
		s += ", executable " + sum()
	}
	return s
}

// executable is the beginning of the SHA-256 of the running program; one that cannot be read is like no other.
var executable = sync.OnceValue(func() string {
	sum := sha256.New()
	if err := readExecutable(sum); err != nil {
		return rand.Text()
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
})

func readExecutable(to io.Writer) error {
	f, err := os.Open("/proc/self/exe") // the one that runs, when another has its path now
	if err != nil {
		path, err := os.Executable()
		if err != nil {
			return err
		}
		if f, err = os.Open(path); err != nil {
			return err
		}
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}

// String is one line, for what is written to files.
func (b Info) String() string {
	s := "evotune " + b.Version
	if b.Revision != "" {
		s += " (revision " + b.Revision
		if b.Modified {
			s += " with changes"
		}
		s += ")"
	}
	return s + " " + b.Go + " " + b.Platform
}
