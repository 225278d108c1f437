package draft

import (
	"regexp"
	"strings"

	"github.com/evotune/evotune/internal/sources"
)

// pythonTemplate is the file of a drafted implementation in Triton.
const pythonTemplate = "kernel.py"

var pythonDef = regexp.MustCompile(`(?m)^def[ \t]+(\w+)[ \t]*\(`)

// readPython finds the Triton function in a source, and takes the parameters from what is
// given.
func (s *source) readPython(entry string) error {
	s.cuda, s.python = true, true
	if s.given == nil {
		return s.fault(-1, "a function of Triton does not say what its arguments hold: use the Python package evotune, or write a kernel.toml (docs/triton.md)")
	}
	var names []string
	for _, m := range pythonDef.FindAllStringSubmatchIndex(s.text, -1) {
		if name := s.text[m[2]:m[3]]; sources.Triton(s.text, s.line(m[0])) && (entry == "" || name == entry) {
			names = append(names, name)
			s.entry = function{id: name, name: m[2]}
		}
	}
	switch {
	case len(names) == 0 && entry != "":
		return s.fault(-1, "there is no function %s with @triton.jit on the line above", entry)
	case len(names) == 0:
		return s.fault(-1, "there is no function with @triton.jit on the line above")
	case len(names) > 1:
		return s.fault(s.entry.name, "there are several functions with @triton.jit, %s: choose one with --entry", strings.Join(names, ", "))
	}
	return s.givenValues()
}
