package server

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/store"
)

// TestPipeForTable: a table that is a pipe is refused, and not waited for.
func TestPipeForTable(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, t.TempDir(), "/dev/null"} {
		f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Backend: "replay", Table: path}}, nil, 422)
		f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Backend: "replay", Kernel: path}}, nil, 422)
	}
}

// TestStrangersSocket: who takes the name of a socket in the folder of temporary files is not
// asked in the place of the service.
func TestStrangersSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	t.Setenv("TMPDIR", t.TempDir())
	path := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stop, err := Serve(s)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, _, err := Dial(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(Socket(path), 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Dial(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("%v", err)
	}
	if err := os.Chown(path, 4242, 4242); err != nil { // then it is its owner's
		t.Fatal(err)
	}
	if _, _, err := Dial(t.Context(), path); err != nil {
		t.Error(err)
	}
}
