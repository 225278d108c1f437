package process

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// private matches the names of variables that no program gets which evotune starts:
// its own settings, the service's token among them, and what other programs keep
// their credentials and the sockets of their agents in.
var private = regexp.MustCompile(`(?i)^EVOTUNE_|TOKEN|SECRET|PASSW|CREDENTIAL|KEY|AUTH|SOCK`)

// Environment is evotune's own, without what is private: for programs that need what their
// driver or their user has set.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return private.MatchString(name)
	})
}

// Made is the environment of compilers and of what definitions bring: where programs and
// their libraries are, one language, and the variables of some names if they are set. Nobody
// can list the variables that compilers read, and what a definition runs could tell them.
func Made(names ...string) []string {
	made := []string{"LC_ALL=C"}
	for _, name := range append([]string{"PATH", "LD_LIBRARY_PATH"}, names...) {
		if value, ok := os.LookupEnv(name); ok {
			made = append(made, name+"="+value)
		}
	}
	return made
}
