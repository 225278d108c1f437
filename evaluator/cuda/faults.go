package cuda

import (
	"io"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/evotune/evotune/evaluator/internal/plain"
)

// reportLimit bounds what is kept of a sanitizer's report about one candidate.
const reportLimit = 64 << 10

// A faultLog follows the file that a tool of compute-sanitizer writes to.
type faultLog struct {
	path string

	mu   sync.Mutex
	file *os.File
	read int64  // bytes read so far
	tail string // what follows the last whole line
	// kept are the first lines since the last mark; findings those that tell
	// of faults.
	kept     strings.Builder
	findings []string
	broken   string // the tool's own failure
}

func newFaultLog(path string) *faultLog { return &faultLog{path: path} }

// mark forgets what was reported before.
func (f *faultLog) mark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.update()
	f.kept.Reset()
	f.findings = nil
}

// found gives the reports since the mark.
func (f *faultLog) found() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.update()
	return append([]string{}, f.findings...)
}

// text is what was written since the mark.
func (f *faultLog) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.update()
	return f.kept.String()
}

// failed is what the tool said of its own failure; empty when it did not fail.
func (f *faultLog) failed() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.update()
	return f.broken
}

func (f *faultLog) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.update() // the summary, if the tool came to write it
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
	_ = os.Remove(f.path)
}

// update reads what is new. The caller holds the lock.
func (f *faultLog) update() {
	if f.file == nil {
		file, err := os.Open(f.path)
		if err != nil {
			return // the tool has not begun to write, or the log is closed
		}
		if f.read > 0 {
			_ = file.Close()
			return
		}
		f.file = file
	}
	buffer := make([]byte, 64<<10)
	for range 64 { // as much as any report is worth
		n, err := f.file.ReadAt(buffer, f.read)
		f.read += int64(n)
		f.take(string(buffer[:n]))
		if err == io.EOF || n == 0 {
			return
		}
	}
}

func (f *faultLog) take(text string) {
	text = f.tail + text
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			f.tail = line
			return
		}
		text = rest
		if f.kept.Len() < reportLimit {
			f.kept.WriteString(plain.Text(line) + "\n")
		}
		switch what, kind := readFault(line); kind {
		case faultFound:
			if len(f.findings) < 1000 {
				f.findings = append(f.findings, what)
			}
		case faultBroken:
			if f.broken == "" {
				f.broken = what
			}
		}
	}
}

type faultKind int

const (
	faultNone faultKind = iota
	faultFound
	faultBroken
)

var (
	// A report begins at the margin, and its details are indented.
	reportLine = regexp.MustCompile(`^=========\s?(\S.*)$`)
	// harmless are lines at the margin that tell of nothing.
	harmless = regexp.MustCompile(`^(COMPUTE-SANITIZER|ERROR SUMMARY: 0 error|RACECHECK SUMMARY: 0 hazard|LEAK SUMMARY: 0 |SYNCCHECK SUMMARY: 0|Target application returned|No kernel|Generated |Session )`)
	// ending tell only that the process was killed, or how it ended.
	ending = regexp.MustCompile(`(?i)^(Error: )?(process didn't terminate successfully|target application terminated|the target application|.*application may have been killed)`)
	// broken tell that the tool could not do its work.
	broken = regexp.MustCompile(`(?i)(internal sanitizer error|internal error|error: (no attachable process|failed to|unable to|could not)|is not supported|device is not supported|insufficient (driver )?privileges)`)
	place  = regexp.MustCompile(`\s+(?:at|in) 0x[0-9a-f]+.*$`)
	summed = regexp.MustCompile(`SUMMARY: `)
)

// readFault says what a line of a report tells.
func readFault(line string) (what string, kind faultKind) {
	m := reportLine.FindStringSubmatch(strings.TrimRight(line, "\r"))
	if m == nil || strings.HasPrefix(line, "=========  ") {
		return "", faultNone
	}
	what = plain.Line(m[1])
	switch {
	case harmless.MatchString(what), ending.MatchString(what):
		return what, faultNone
	case broken.MatchString(what):
		return what, faultBroken
	}
	return place.ReplaceAllString(what, ""), faultFound
}

// firstFault is the report that says most: not a summary, and not what follows
// from another.
func firstFault(findings []string) string {
	for _, f := range findings {
		if !summed.MatchString(f) && !strings.HasPrefix(f, "Program hit") {
			return f
		}
	}
	if len(findings) > 0 {
		return findings[0]
	}
	return ""
}
