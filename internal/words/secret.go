package words

import (
	"bytes"
	"io"
	"regexp"
	"sync"
)

// TokenPrefix begins every token of a service, so that people, scanners and Redact see what it is.
const TokenPrefix = "evt_"

var (
	// Tokens have 43 characters behind the prefix. A part of less than 32 is of no use, and a name in
	// a kernel may look like it.
	token = regexp.MustCompile(TokenPrefix + `[A-Za-z0-9_-]{32,}`)
	// begun is what may be a token's beginning, at the end of a text.
	begun = regexp.MustCompile(`(?:e|ev|evt|` + TokenPrefix + `[A-Za-z0-9_-]*)$`)
)

// mostKept is longer than a token.
const mostKept = 128

// Redact replaces the tokens of services in a text by "evt_...".
func Redact(text []byte) []byte {
	if !bytes.Contains(text, []byte(TokenPrefix)) {
		return text
	}
	return token.ReplaceAll(text, []byte(TokenPrefix+"..."))
}

// A Redactor writes to To what is written to it, without the tokens of services. It keeps back what
// may be a token's beginning until more is written or Flush is called.
type Redactor struct {
	To io.Writer

	mu   sync.Mutex
	kept []byte
}

// Write writes what was kept back and b.
func (r *Redactor) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := append(r.kept, b...)
	end := len(text)
	if at := begun.FindIndex(text[max(0, end-mostKept):]); at != nil {
		end = max(0, end-mostKept) + at[0]
	}
	r.kept = bytes.Clone(text[end:])
	if end == 0 {
		return len(b), nil
	}
	if _, err := r.To.Write(Redact(text[:end])); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes what was kept back.
func (r *Redactor) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) == 0 {
		return nil
	}
	text := r.kept
	r.kept = nil
	_, err := r.To.Write(Redact(text))
	return err
}
