package server

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/evotune/evotune/api"
)

// TestPipeForTable: a table that is a pipe is refused, and not waited for.
func TestPipeForTable(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, t.TempDir(), "/dev/null"} {
		f.do("POST", "/v1/campaigns", api.Submission{Backend: "replay", Table: path}, nil, 422)
		f.do("POST", "/v1/campaigns", api.Submission{Backend: "replay", Kernel: path}, nil, 422)
	}
}
