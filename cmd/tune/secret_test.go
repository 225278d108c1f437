package main

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// TestTokensAreRedacted: no command prints a token that it was given where none belongs.
func TestTokensAreRedacted(t *testing.T) {
	secret := "evt_" + strings.Repeat("0Az-_", 9)[:43]
	none := filepath.Join(t.TempDir(), "none.db")
	for _, args := range [][]string{
		{"run", secret},
		{secret},
		{"--" + secret},
		{"show", secret, "--store", none},
		{"list", "--store", filepath.Join(t.TempDir(), secret)},
		{"list", "--server", "http://" + secret + "@127.0.0.1:1"},
		{"run", "sgemm", "--seed", secret},
	} {
		var out, errs bytes.Buffer
		if code := run(context.Background(), args, nil, &out, &errs); code == 0 || errs.Len() == 0 {
			t.Errorf("tune %q: status %d", args, code)
		}
		if text := out.String() + errs.String(); strings.Contains(text, secret) {
			t.Errorf("tune %q says %s", args, text)
		}
	}
	// Logs go to the same place.
	var errs bytes.Buffer
	slog.New(slog.NewTextHandler(newOutput(&errs), nil)).Error("failed", "error", secret)
	if text := errs.String(); strings.Contains(text, secret) || !strings.HasSuffix(text, "evt_...\n") {
		t.Error(text)
	}
}
