package main

import (
	"testing"
	"time"
)

// TestPreparingText: what people read of a step.
func TestPreparingText(t *testing.T) {
	if got, want := preparingText("reference at shape X, on the CPU", 41*time.Second), "reference at shape X, on the CPU: 41s so far"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
