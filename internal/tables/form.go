package tables

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evotune/evotune/internal/words"
)

// ErrFormat is wrapped by every error about the content of a file.
var ErrFormat = errors.New("not a usable recorded space")

// ErrNoPlace is wrapped where a form cannot hold a table.
var ErrNoPlace = errors.New("no place for")

// maxBytes bounds the text of one table, after decompression.
const maxBytes = 1 << 30

// A Form is a kind of file that tables are read from and written to.
type Form struct {
	// Name is what people call it, File what its files' names end in.
	Name string
	File string
	// Holds says in a few words what it is, with its units.
	Holds string

	// Drops says what a table loses in it; empty if nothing.
	Drops string

	// mark is a key of the top-level object that only this form has; hint is
	// one that comes before it, in case the file ends there.
	mark, hint string
	// decode fills a table, which has a name in case the file has none. A
	// description is one beside the file; nil without.
	decode func(t *Table, r *reader, description *t1Input) error
	encode func(t *Table, w io.Writer) error
}

const (
	compactForm     = "compact"
	t4Form          = "t4"
	t1Form          = "t1"
	kernelTunerForm = "kerneltuner"
)

// forms are in the order of the documentation.
var forms = []Form{
	{
		compactForm, ".json", "evotune's own: milliseconds, and seconds of cost", "",
		"configs", "params", (*Table).decodeCompact, (*Table).encodeCompact,
	},
	{
		t4Form, ".t4.json", "the results format of the auto-tuning community: milliseconds", "",
		"results", "metadata", (*Table).decodeT4, (*Table).encodeT4,
	},
	{
		t1Form, ".t1.json", "the input format that describes the space to other tuners; no results",
		"the results: a T1 description has no place for them",
		"ConfigurationSpace", "General", (*Table).decodeT1, (*Table).encodeT1,
	},
	{
		kernelTunerForm, ".cache.json", "a cache file of Kernel Tuner: milliseconds", "",
		"cache", "device_name", (*Table).decodeKernelTuner, (*Table).encodeKernelTuner,
	},
}

// Forms lists the forms.
func Forms() []Form { return slices.Clone(forms) }

// FormNames lists their names.
func FormNames() []string {
	names := make([]string, len(forms))
	for i, f := range forms {
		names[i] = f.Name
	}
	return names
}

// Write writes the table in the form of that name. What the form has no place
// for is kept under further keys, which other programs pass over; T1 alone has
// no results at all.
func (t *Table) Write(form string, w io.Writer) error {
	for _, f := range forms {
		if f.Name == form {
			return f.encode(t, w)
		}
	}
	return fmt.Errorf("replay: no form is called %q: there are %s", form, strings.Join(FormNames(), ", "))
}

// Load reads a table from a file, gzipped or not. Every error is one line that
// names the file, and the line and column where the content is at fault.
func Load(path string) (*Table, error) {
	return LoadDescribed(path, "")
}

// LoadDescribed is Load for a file of results in a form that tells no
// constraints, which a T1 description tells: T4 or Kernel Tuner's. The
// parameters, the order and the values of the description count. With an empty
// description it is Load.
func LoadDescribed(path, description string) (*Table, error) {
	t, text, err := loadUnproven(path, description)
	if err != nil {
		return nil, err
	}
	return t.proven(text)
}

// Read reads a table from a stream, gzipped or not. name stands for the file in
// messages, and for the space if the file does not name it.
func Read(r io.Reader, name string) (*Table, error) {
	t, text, err := readUnproven(r, name, nil)
	if err != nil {
		return nil, err
	}
	return t.proven(text)
}

// proven proves every configuration of a table valid; text is that of its file.
func (t *Table) proven(text []byte) (*Table, error) {
	if _, err := t.Space(); err != nil {
		return nil, locate(text, t.file, err)
	}
	return t, nil
}

// loadUnproven reads a table without proving that its constraints allow what it
// records. The text of the file comes with it.
func loadUnproven(path, description string) (*Table, []byte, error) {
	var t1 *t1Input
	if description != "" {
		f, err := os.Open(description)
		if err != nil {
			return nil, nil, fmt.Errorf("replay: %w", err)
		}
		defer f.Close()
		name := filepath.Base(description)
		text, err := plain(f, name)
		if err == nil {
			t1, err = readT1(text, name)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("replay: %w", err)
	}
	defer f.Close()
	return readUnproven(f, filepath.Base(path), t1)
}

// readUnproven is loadUnproven for a stream.
func readUnproven(r io.Reader, name string, description *t1Input) (*Table, []byte, error) {
	text, err := plain(r, name)
	if err != nil {
		return nil, nil, err
	}
	text, absent := withoutNaN(text)
	t, err := decode(text, name, description)
	if err != nil {
		return nil, nil, locate(text, name, err)
	}
	if absent > 0 {
		t.notices = append(t.notices, fmt.Sprintf("%s NaN or infinite, which JSON does not have: read as null", words.Plural(absent, "value")))
	}
	return t, text, nil
}

// plain reads the whole of a file, decompressed.
func plain(r io.Reader, name string) ([]byte, error) {
	b := bufio.NewReader(r)
	r = b
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("replay: %s: %w: %w", name, ErrFormat, err)
		}
		defer z.Close()
		r = z
	}
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("more than %d bytes", maxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("replay: %s: %w: %w", name, ErrFormat, err)
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), nil // editors on Windows begin files with a byte order mark
}

// pythonsNumbers are what Python's json writes for floats that JSON does not have.
var pythonsNumbers = []string{"NaN", "-Infinity", "Infinity"}

// withoutNaN replaces them by null, outside of strings, and counts them. Line ends stay
// where they are.
func withoutNaN(text []byte) (out []byte, count int) {
	if !slices.ContainsFunc(pythonsNumbers, func(n string) bool { return bytes.Contains(text, []byte(n)) }) {
		return text, 0
	}
	out = make([]byte, 0, len(text)+16)
	quoted := false
next:
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\' && i+1 < len(text):
			out = append(out, c)
			i++
		case !quoted && (c == 'N' || c == 'I' || c == '-'):
			for _, n := range pythonsNumbers {
				if bytes.HasPrefix(text[i:], []byte(n)) {
					out, i, count = append(out, "null"...), i+len(n)-1, count+1
					continue next
				}
			}
		}
		out = append(out, text[i])
	}
	return out, count
}

// decode finds the form, by the first key that only one of them has, and reads.
func decode(text []byte, name string, description *t1Input) (*Table, error) {
	// Not valid JSON, or an object without a key that we know: the reader of the
	// first form knows how to say what is missing and where.
	found := forms[0]
	hinted := false
	for key := range keys(text) {
		if i := slices.IndexFunc(forms, func(f Form) bool { return f.mark == key }); i >= 0 {
			found = forms[i]
			break
		}
		if i := slices.IndexFunc(forms, func(f Form) bool { return f.hint == key }); i >= 0 && !hinted {
			found, hinted = forms[i], true
		}
	}
	t := &Table{name: name, file: name, form: found.Name, hash: digest(text), heads: map[string]object{}}
	if err := found.decode(t, newReader(text), description); err != nil {
		return nil, err
	}
	return t, t.index()
}

// keys gives the keys of the top-level object, up to the first fault.
func keys(text []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		d := json.NewDecoder(bytes.NewReader(text))
		if t, err := d.Token(); err != nil || t != json.Delim('{') {
			return
		}
		for d.More() {
			t, err := d.Token()
			key, ok := t.(string)
			if err != nil || !ok || !yield(key) {
				return
			}
			var skip json.RawMessage
			if d.Decode(&skip) != nil {
				return
			}
		}
	}
}
