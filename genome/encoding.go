package genome

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/evotune/evotune/internal/expr"
)

// An EncodingError says where an encoding is malformed.
type EncodingError struct {
	Encoding string
	Offset   int // in bytes, from 0
	Msg      string
}

// Error returns one line.
func (e *EncodingError) Error() string {
	return fmt.Sprintf("genome %q: column %d: %s", e.Encoding, e.Offset+1, e.Msg)
}

// maxEncoding bounds what Decode reads, far above any real genome.
const maxEncoding = 1 << 20

// field is one NAME=VALUE of an encoding.
type field struct {
	name  string
	value Value
	at    int // offset of the name
}

// fields splits an encoding. Names are not checked against a space.
func fields(s string) ([]field, error) {
	fail := func(at int, format string, args ...any) ([]field, error) {
		return nil, &EncodingError{Encoding: s, Offset: at, Msg: fmt.Sprintf(format, args...)}
	}
	if len(s) > maxEncoding {
		return nil, fmt.Errorf("genome: an encoding of %d bytes is too long, at most %d", len(s), maxEncoding)
	}
	var out []field
	seen := map[string]bool{}
	for at := 0; at < len(s) || at > 0; {
		start := at
		for start < len(s) && s[start] == ' ' {
			start++
		}
		eq := strings.IndexByte(s[start:], '=')
		if eq < 0 {
			return fail(start, "NAME=VALUE expected")
		}
		name := strings.TrimRight(s[start:start+eq], " ")
		if !expr.IsName(name) {
			return fail(start, "%q is not a gene name (letters, digits and _, not a digit first)", name)
		}
		if seen[name] {
			return fail(start, "gene %s is given twice", name)
		}
		seen[name] = true
		at = start + eq + 1
		for at < len(s) && s[at] == ' ' {
			at++
		}
		var raw string
		if at < len(s) && s[at] == '"' {
			quoted, err := strconv.QuotedPrefix(s[at:])
			if err != nil {
				return fail(at, "the quoted string of %s is malformed or does not end", name)
			}
			raw = quoted
		} else {
			end := strings.IndexByte(s[at:], ',')
			if end < 0 {
				end = len(s) - at
			}
			raw = s[at : at+end]
		}
		v, err := ParseValue(strings.TrimRight(raw, " "))
		if err != nil {
			return fail(at, "gene %s: %v", name, err)
		}
		out = append(out, field{name, v, start})
		at += len(raw)
		for at < len(s) && s[at] == ' ' {
			at++
		}
		if at == len(s) {
			return out, nil
		}
		if s[at] != ',' {
			return fail(at, "a comma expected after the value of %s", name)
		}
		at++
	}
	return out, nil
}

// Decode reads an encoding without a space: the values by name, as
// written. Use it to print genomes of spaces that no longer exist, and
// Space.Parse if you have the space.
func Decode(encoding string) (map[string]Value, error) {
	fs, err := fields(encoding)
	if err != nil {
		return nil, err
	}
	m := make(map[string]Value, len(fs))
	for _, f := range fs {
		m[f.name] = f.value
	}
	return m, nil
}

// Plain is Decode with the values as plain Go ones, for printing; nil when the
// encoding is damaged.
func Plain(encoding string) map[string]any {
	m, err := Decode(encoding)
	if err != nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v.Any()
	}
	return out
}

// Alone reads an encoding as the only genome of its own space. It prints like the encoded
// genome and is equal to no other: use it to show genomes whose space is not available.
func Alone(encoding string) (Genome, error) {
	fs, err := fields(encoding)
	if err != nil {
		return Genome{}, err
	}
	genes := make([]Gene, len(fs))
	for i, f := range fs {
		genes[i] = Gene{Name: f.name, Values: []Value{f.value}}
	}
	s, err := NewListed(genes, [][]int{make([]int, len(genes))})
	if err != nil {
		return Genome{}, err
	}
	return s.Parse(encoding)
}
