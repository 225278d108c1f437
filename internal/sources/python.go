package sources

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A PythonParam is a parameter of a function in Python.
type PythonParam struct {
	Name       string
	Annotation string
	Initial    bool // has a default
	Line       int
}

var (
	pythonName   = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	tritonMarker = regexp.MustCompile(`^@(?:triton\.)?jit\b`)
)

// PythonFunction finds a function at a file's top level: the line of its def and its
// parameters. The line is 0 if there is none.
func PythonFunction(text, name string) (line int, params []PythonParam, err error) {
	at := regexp.MustCompile(`(?m)^def[ \t]+` + regexp.QuoteMeta(name) + `[ \t]*\(`).FindStringIndex(text)
	if at == nil {
		return 0, nil, nil
	}
	line = 1 + strings.Count(text[:at[0]], "\n")
	var part strings.Builder // without comments
	start, depth := 0, 0     // start is the line of the part's first letter
	now := 1 + strings.Count(text[:at[1]], "\n")
	end := func() error {
		words := strings.TrimSpace(part.String())
		part.Reset()
		if words == "" {
			return nil
		}
		left, right, initial := strings.Cut(words, "=")
		_ = right
		own, annotation, _ := strings.Cut(left, ":")
		p := PythonParam{strings.TrimSpace(own), strings.TrimSpace(annotation), initial, start}
		if !pythonName.MatchString(p.Name) {
			return fmt.Errorf("%s has the parameter %q: it can have plain ones only", name, words)
		}
		params = append(params, p)
		return nil
	}
	for i := at[1]; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			now++
		case c == '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
			continue
		case c == '"' || c == '\'':
			n := strings.IndexByte(text[i+1:], c)
			if n < 0 {
				return line, nil, fmt.Errorf("%s has a text without an end among its parameters", name)
			}
			part.WriteString(text[i : i+n+2])
			i += n + 1
			continue
		case c == ')' && depth == 0:
			return line, params, end()
		case c == ',' && depth == 0:
			if err := end(); err != nil {
				return line, nil, err
			}
			continue
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		}
		if strings.TrimSpace(part.String()) == "" {
			start = now
		}
		part.WriteByte(c)
	}
	return line, nil, fmt.Errorf("the parameters of %s have no end", name)
}

// Triton says whether the line before a function, which is on a line of a text in Python, marks it as one of Triton.
func Triton(text string, line int) bool {
	lines := strings.Split(text, "\n")[:line-1]
	for _, l := range slices.Backward(lines) {
		if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
			return tritonMarker.MatchString(l)
		}
	}
	return false
}
