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

// Environment is evotune's own, without what is private.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return private.MatchString(name)
	})
}
