package panics

import (
	"errors"
	"regexp"
	"testing"
)

// What panicked, and where, is one line; an error that there is already stays.
func TestCatch(t *testing.T) {
	try := func(f func() error) (err error) {
		defer Catch(&err)
		return f()
	}
	var none []int
	for want, f := range map[string]func() error{
		`^evotune failed at panics_test\.go:\d+, which is a fault of evotune: runtime error: index out of range \[3\] with length 0$`: func() error { none[3] = 1; return nil },
		`^evotune failed at panics_test\.go:\d+, which is a fault of evotune: mine$`:                                                  func() error { panic("mine") },
		`^an error$`: func() error { return errors.New("an error") },
	} {
		if err := try(f); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := try(func() error { return nil }); err != nil {
		t.Error(err)
	}
}
