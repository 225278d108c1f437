package main

import (
	"testing"
	"time"
)

// TestPatience: a step that takes long is told after 5 s and whenever its time has doubled, and the
// next one only if it takes long, too. Scripts hear of the next one at once.
func TestPatience(t *testing.T) {
	type moment struct {
		what           string
		seconds        float64
		people, script bool
	}
	people, scripts := patience{}, patience{scripts: true}
	for i, m := range []moment{
		{"", 0, false, false},
		{"harness", 4.9, false, false},
		{"inputs", 0.1, false, false},
		{"inputs", 5, true, true},
		{"inputs", 9, false, false},
		{"inputs", 41, true, true},
		{"inputs", 79, false, false},
		{"reference", 0, false, true},
		{"reference", 0.2, false, false},
		{"reference", 6, true, true},
		{"reference", 1, false, false}, // another of the same name
		{"reference", 5, true, true},
	} {
		took := time.Duration(m.seconds * float64(time.Second))
		if got := people.due(m.what, took); got != m.people {
			t.Errorf("%d: people are told of %q after %v: %v", i, m.what, took, got)
		}
		if got := scripts.due(m.what, took); got != m.script {
			t.Errorf("%d: scripts are told of %q after %v: %v", i, m.what, took, got)
		}
	}
	if got, want := preparingText("reference at shape X, on the CPU", 41*time.Second), "reference at shape X, on the CPU: 41s so far"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
