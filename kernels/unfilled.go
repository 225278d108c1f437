package kernels

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// FillIn begins what a draft leaves to fill in: strings of kernel.toml, and #error
// lines of references.
const FillIn = "FILL IN: "

var openLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*error[ \t]+"?` + FillIn + `([^"\n]*)`)

// Unfilled lists the lines of the kernel in a folder that are still to fill in. The
// error is an *Error.
func Unfilled(dir string) ([]Finding, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, unreadable(dir, err, "check the path and its permissions")
	}
	defer root.Close() //nolint:errcheck // nothing was written
	l := &loader{fsys: root.FS(), dir: ".", display: dir}
	if err := l.parse(); err != nil {
		return nil, err
	}
	return l.unfilled(), nil
}

// unfilled finds what is still to fill in, in text order.
func (l *loader) unfilled() []Finding {
	var list []Finding
	var walk func(name string, n *node)
	walk = func(name string, n *node) {
		if what, ok := strings.CutPrefix(n.str, FillIn); ok && n.kind == stringNode {
			line, col := l.d.position(n.at)
			list = append(list, Finding{l.d.file, line, col, "fill in " + name + ": " + oneLine(what)})
		}
		for _, item := range n.items {
			walk(name, item)
		}
		for _, child := range n.names {
			walk(child, n.children[child])
		}
	}
	walk("", l.d.root)
	reference := l.d.root.child("problem").child("reference")
	for _, n := range []*node{reference.child("source"), reference.child("cuda").child("source")} {
		if n == nil || n.kind != stringNode {
			continue
		}
		text, err := readFile(l.fsys, path.Join(l.dir, n.str), maxFile)
		if err != nil {
			continue // loading reports the error
		}
		for _, m := range openLine.FindAllStringSubmatchIndex(text, -1) {
			list = append(list, Finding{filepath.Join(l.display, n.str), strings.Count(text[:m[0]], "\n") + 1, 0, "fill in: " + text[m[2]:m[3]]})
		}
	}
	return list
}
