package kernels

import (
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
)

// Bounds of one execution of a template, which no honest one reaches: it ends in an error,
// however it loops, calls itself or makes texts.
const (
	maxActions  = 1 << 21          // actions, and rounds of loops
	maxMade     = 64 << 20         // bytes of texts and lists that functions make
	maxWidth    = 999              // of a number in a format of printf
	maxRender   = 10 * time.Second // for what counts as few actions and takes long
	maxMessage  = 1000             // bytes of a template's error
	checkRender = 16               // actions between two looks at the clock
)

// A tooMuchError ends an execution.
type tooMuchError struct{ msg string }

func (e *tooMuchError) Error() string { return e.msg }

func tooMuch(format string, args ...any) error { return &tooMuchError{fmt.Sprintf(format, args...)} }

// An effort is what one execution of a template writes, and counts what it does.
type effort struct {
	strings.Builder
	began         time.Time
	actions, made int
}

// Write takes what a template prints. countSteps has it called for every action.
func (e *effort) Write(p []byte) (int, error) {
	e.actions++
	switch {
	case e.Len()+len(p) > maxSource:
		return 0, tooMuch("the rendered text is longer than %d bytes", maxSource)
	case e.actions > maxActions:
		return 0, tooMuch("the template takes more than %d actions: does it call itself, or loop for long?", maxActions)
	case e.actions%checkRender == 0 && time.Since(e.began) > maxRender:
		return 0, tooMuch("the template takes longer than %s", maxRender)
	}
	return e.Builder.Write(p)
}

// countSteps puts an empty text before each action of a template, so that it is counted.
func countSteps(n parse.Node) {
	branch := func(b *parse.BranchNode) {
		countSteps(b.List)
		if b.ElseList != nil {
			countSteps(b.ElseList)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		var counted []parse.Node
		if len(n.Nodes) == 0 { // a round of a loop may do nothing
			counted = append(counted, &parse.TextNode{NodeType: parse.NodeText, Pos: n.Pos})
		}
		for _, child := range n.Nodes {
			if child.Type() != parse.NodeText {
				counted = append(counted, &parse.TextNode{NodeType: parse.NodeText, Pos: child.Position()})
			}
			countSteps(child)
			counted = append(counted, child)
		}
		n.Nodes = counted
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	}
}

// make counts bytes that a function is about to make.
func (e *effort) make(n int) error {
	if n < 0 || e.made > maxMade-n {
		return tooMuch("the template makes more than %d bytes of texts and lists", maxMade)
	}
	e.made += n
	return nil
}

// functions are those of templates that make texts or lists from others, with what they make
// counted. The functions of text/template for web pages are left out.
func (e *effort) functions() template.FuncMap {
	counted := func(f func(args ...any) string) func(args ...any) (string, error) {
		return func(args ...any) (string, error) {
			n := 0
			for _, a := range args {
				n += printed(a) + 1
			}
			if err := e.make(n); err != nil {
				return "", err
			}
			return f(args...), nil
		}
	}
	none := func(...any) (string, error) {
		return "", fmt.Errorf("it is for web pages, not for kernels: remove it")
	}
	return template.FuncMap{
		"print": counted(fmt.Sprint), "println": counted(fmt.Sprintln), "html": none, "js": none, "urlquery": none,
		"printf": func(format string, args ...any) (string, error) {
			n, err := formatted(format, args)
			if err == nil {
				err = e.make(n)
			}
			if err != nil {
				return "", err
			}
			return fmt.Sprintf(format, args...), nil
		},
		"until": func(n any) ([]int64, error) { return e.seq(int64(0), n) },
		"seq":   e.seq,
		"list": func(items ...any) ([]any, error) {
			n := 0
			for _, x := range items {
				switch x.(type) {
				case []any, []int64, map[string]any:
					return nil, fmt.Errorf("list: an item is a list itself: use one list")
				}
				n += printed(x)
			}
			return items, e.make(n)
		},
		"join": func(list any, sep string) (string, error) {
			n := printed(list)
			if err := e.make(n + n*len(sep)); err != nil {
				return "", err
			}
			return join(list, sep)
		},
	}
}

func (e *effort) seq(from, to any, step ...any) ([]int64, error) {
	out, err := seq(from, to, step...)
	if err == nil {
		err = e.make(8 * len(out))
	}
	return out, err
}

// printed is the most bytes that a value takes when it is printed.
func printed(x any) int {
	n := 0
	switch x := x.(type) {
	case string:
		return len(x)
	case []int64:
		return 21 * len(x)
	case []any:
		for _, y := range x {
			n += printed(y) + 1
		}
		return n
	case map[string]any:
		for k, y := range x {
			n += len(k) + printed(y) + 2
		}
		return n
	}
	return 32
}

// verb is a verb in a format, with its width and precision.
var verb = regexp.MustCompile(`%[-+# 0]*(?:\[\d+\])?(\d+|\*)?(?:\.(?:\[\d+\])?(\d+|\*)?)?`)

// formatted is the most bytes that printf makes of a format and its arguments.
func formatted(format string, args []any) (int, error) {
	most := 0
	for _, a := range args {
		most = max(most, printed(a))
	}
	n := len(format)
	for _, m := range verb.FindAllStringSubmatch(format, -1) {
		for _, width := range m[1:] {
			if width == "*" || len(strings.TrimLeft(width, "0")) > len(fmt.Sprint(maxWidth)) {
				return 0, fmt.Errorf("printf: a width above %d, or one that is an argument: write a smaller number", maxWidth)
			}
		}
		n += 12*most + 2*maxWidth // %q may make 10 bytes of one
		if n > maxMade {
			break
		}
	}
	return n, nil
}
