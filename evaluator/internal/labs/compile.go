package labs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator/internal/plain"
)

// A Refusal is a compiler's, of a candidate.
type Refusal struct {
	// Summary is one line, Log all the text.
	Summary, Log string
	// Crash says that the compiler did not refuse, but crash.
	Crash bool
}

func (e *Refusal) Error() string { return e.Summary }

// Outside refuses files of a candidate, by name, that name files of others to the
// compiler.
func Outside(files map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if path := plain.Outside(text); path != "" {
			return &Refusal{Summary: fmt.Sprintf("%s names the file %q, which is not the candidate's", name, path)}
		}
	}
	return nil
}

// WriteFiles puts the files of a candidate into a folder.
func WriteFiles(dir string, files map[string]string) error {
	for name, text := range files {
		local := filepath.FromSlash(name)
		if !filepath.IsLocal(local) {
			return fmt.Errorf("a file of the candidate is named %q", name)
		}
		path := filepath.Join(dir, local)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// FirstError picks the line of a compiler's log that says what is wrong: the first
// with the first of the marks that occurs, else the first that is not empty.
func FirstError(log string, marks ...string) string {
	for _, mark := range append(slices.Clip(marks), "") {
		for line := range strings.Lines(log) {
			if s := plain.Line(line); s != "" && strings.Contains(line, mark) {
				return s
			}
		}
	}
	return "the compiler failed and did not say why"
}
