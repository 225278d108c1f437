package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// MaxLength is the most bytes of JSON that a message may have.
const MaxLength = 64 << 20

// maxHeader bounds a header line; no legal one is longer.
const maxHeader = 64

// kinds are all that a message can be.
var kinds = []Kind{
	Hello, Open, Load, Unload, Parity, Control, Reference, Launch, Time, Peaks, Telemetry, Quit, Failed,
}

// ErrFormat is what every error of [Read] is but for the end of the stream and
// errors of the reader: what was read is not a message of this protocol. Nothing
// that follows in the stream can be trusted.
var ErrFormat = errors.New("not a message of evotune's worker protocol")

// Write sends one message in a single call to the writer.
func Write(w io.Writer, kind Kind, v any) error {
	if !slices.Contains(kinds, kind) {
		return fmt.Errorf("wire: unknown kind %q", kind)
	}
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("wire: %s: %w", kind, err)
	}
	if len(body) > MaxLength {
		return fmt.Errorf("wire: %s: %d bytes of JSON are more than the %d of a message", kind, len(body), MaxLength)
	}
	message := fmt.Appendf(make([]byte, 0, maxHeader+len(body)+1), "evotune/%d %s %d\n", Version, kind, len(body))
	message = append(append(message, body...), '\n')
	if _, err := w.Write(message); err != nil {
		return fmt.Errorf("wire: send %s: %w", kind, err)
	}
	return nil
}

// Read reads one message and returns its kind and its JSON, which is valid
// JSON. The error is io.EOF where the stream ends before a message,
// io.ErrUnexpectedEOF where it ends within one, and [ErrFormat] where what was
// read is not a message.
func Read(r *bufio.Reader) (Kind, []byte, error) {
	header, err := readHeader(r)
	if err != nil {
		return "", nil, err
	}
	kind, length, err := parseHeader(header)
	if err != nil {
		return "", nil, err
	}
	// The buffer grows with what arrives, not with what was announced.
	var body bytes.Buffer
	if n, err := io.CopyN(&body, r, int64(length)+1); err != nil {
		if errors.Is(err, io.EOF) {
			return "", nil, fmt.Errorf("wire: %s: %d of %d bytes: %w", kind, min(n, int64(length)), length, io.ErrUnexpectedEOF)
		}
		return "", nil, fmt.Errorf("wire: %s: %w", kind, err)
	}
	b := body.Bytes()
	if b[length] != '\n' {
		return "", nil, malformed("%s: no newline after %d bytes", kind, length)
	}
	if b = b[:length]; !json.Valid(b) {
		return "", nil, malformed("%s: what it carries is not JSON", kind)
	}
	return kind, b, nil
}

// readHeader reads up to a newline, and no further than a header is long.
func readHeader(r *bufio.Reader) (string, error) {
	var header []byte
	for {
		c, err := r.ReadByte()
		switch {
		case err != nil && errors.Is(err, io.EOF) && len(header) == 0:
			return "", io.EOF
		case err != nil && errors.Is(err, io.EOF):
			return "", fmt.Errorf("wire: header %q: %w", header, io.ErrUnexpectedEOF)
		case err != nil:
			return "", fmt.Errorf("wire: header: %w", err)
		case c == '\n':
			return string(header), nil
		case len(header) == maxHeader:
			return "", malformed("header %q: no end of line", header)
		}
		header = append(header, c)
	}
}

func parseHeader(header string) (Kind, int, error) {
	fields := strings.Split(header, " ")
	version, ours := strings.CutPrefix(fields[0], "evotune/")
	if !ours || len(fields) != 3 {
		return "", 0, malformed("header %q, want \"evotune/%d KIND LENGTH\"", header, Version)
	}
	if version != strconv.Itoa(Version) {
		return "", 0, malformed("version %q of the protocol, want %d: evotune and tune-cuda must be of one release", version, Version)
	}
	kind := Kind(fields[1])
	if !slices.Contains(kinds, kind) {
		return "", 0, malformed("unknown kind %q", kind)
	}
	length, err := strconv.Atoi(fields[2])
	if err != nil || length < 0 || strconv.Itoa(length) != fields[2] {
		return "", 0, malformed("%s: length %q is not a number of bytes", kind, fields[2])
	}
	if length > MaxLength {
		return "", 0, malformed("%s: %d bytes are more than the %d of a message", kind, length, MaxLength)
	}
	return kind, length, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrFormat}, args...)...)
}

// Decode reads the JSON of a message into its type. A field that the type does
// not have is an error: the other side asks for something that this one would
// not do.
func Decode[T any](body []byte) (T, error) {
	var v T
	if err := DecodeInto(body, &v); err != nil {
		return v, fmt.Errorf("wire: %T: %w", v, err)
	}
	return v, nil
}

// DecodeInto is Decode into what v points to.
func DecodeInto(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}
