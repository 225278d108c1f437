package cpu

import "testing"

func TestCompilesFor(t *testing.T) {
	for machine, want := range map[string]string{
		"":               "does not say with -dumpmachine for which machine it compiles",
		"x86_64-w64\nmi": "compiles for x86_64-w64; mi, not for this machine",
	} {
		if got := compilesFor(machine); got != want {
			t.Errorf("%q: %s", machine, got)
		}
	}
}
