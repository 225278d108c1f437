package labs

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// inAnotherFile stands for a diagnostic whose place is not in the candidate's own files.
const inAnotherFile = "in another file"

var (
	// placed matches a line that begins with a place: FILE:LINE, FILE(LINE) or, of a linker,
	// FILE:(SECTION. A linker names itself first, and NVRTC, in either case, how severe it is.
	placed = regexp.MustCompile(`^(?:\S*\bld(?:\.\w+)?: ?|(?i:warning|error|remark|note): )?(.*?)(?::\d+|\(\d+\)|:\(\.|: Assembler messages|: file format|: file not recognized|: [Ii]n function|: (?:At|In) )`)
	// including matches a line about where a file was included.
	including = regexp.MustCompile(`^(?:In file included from|\s+from) (.*?)[:(]\d+`)
	// severity is what a diagnostic says of itself.
	severity = regexp.MustCompile(`(?i)\b(fatal error|error|warning|note|remark)\b`)
	// tag names a warning.
	tag = regexp.MustCompile(`\s\[-W[\w=+-]+\]$`)
	// temporary is a file between two parts of a compiler, or what it makes.
	temporary = regexp.MustCompile(`^(cc\w+\.\w+(:[\w.-]+)?|tmpxft_[\w.-]+|\{standard input\}|out\.\w+|a-[\w.-]+|<[\w -]+>)$`)
	// renamed is a directive with which a source names itself.
	renamed = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*(?:line[ \t]+)?\d+[ \t]+"([^"\n]*)"`)
)

// installed begins the paths of headers that come with a compiler or the system.
var installed = []string{"/usr/include/", "/usr/lib/", "/usr/local/cuda"}

// headersOf begins the paths of headers that come with a compiler in a folder of its own, such as /opt/cuda/bin/nvcc.
func headersOf(compiler string) (list []string) {
	root := path.Dir(path.Dir(compiler))
	for _, d := range []string{"include", "targets", "lib"} {
		list = append(list, path.Join(root, d)+"/")
	}
	return list
}

// OwnDiagnostics leaves of a compiler's log what is about a candidate's own files, by their
// paths in the folder in which it was compiled, or about installed headers, and lines without a
// place. Of a diagnostic at another place it keeps how severe it is: its text and the lines
// quoted below it may be those of any file that the compiler can read.
//
// headers begin the paths of more installed headers: what a compiler says in them of a candidate may reject it.
func OwnDiagnostics(log, dir string, files map[string]string, headers ...string) string {
	headers = slices.Concat(installed, headers)
	names := map[string]bool{}
	for name, text := range files {
		names[path.Clean(name)] = true
		for _, m := range renamed.FindAllStringSubmatch(text, -1) {
			if m[1] == path.Base(m[1]) {
				names[m[1]] = true
			}
		}
	}
	own := func(name string) bool {
		// A compiler's own temporary files have no folder but that.
		return names[path.Clean(name)] || temporary.MatchString(name) ||
			slices.ContainsFunc(headers, func(p string) bool { return strings.HasPrefix(path.Clean(name), p) })
	}
	if dir != "" { // where the folder is tells nothing of the candidate
		log = strings.ReplaceAll(log, dir+"/", "")
	}
	var out strings.Builder
	foreign := false // the diagnostic whose quoted lines follow
	for line := range strings.Lines(log) {
		text := strings.TrimRight(line, "\r\n")
		if m := including.FindStringSubmatch(text); m != nil {
			if foreign = !own(m[1]); !foreign {
				out.WriteString(line)
			}
			continue
		}
		m := placed.FindStringSubmatch(text)
		switch {
		case m != nil && strings.TrimLeft(m[1], " \t") == m[1] && m[1] != "":
			foreign = !own(m[1])
			if foreign {
				if s := severity.FindString(text); s != "" {
					out.WriteString(s + ": ")
				}
				out.WriteString(inAnotherFile + tag.FindString(text) + "\n")
				continue
			}
		case text != "" && !strings.ContainsAny(text[:1], " \t"):
			foreign = false
		}
		if !foreign {
			out.WriteString(line)
		}
	}
	return out.String()
}
