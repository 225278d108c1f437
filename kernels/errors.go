package kernels

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of this package, for errors.Is.
var (
	// ErrDefinition: a kernel folder is wrong. The error is an *Error, which
	// says where.
	ErrDefinition = errors.New("bad kernel definition")
	// ErrUnfilled: a kernel made from a source has lines that are still to fill in.
	// The error is an *Error, whose Unfilled lists them.
	ErrUnfilled = errors.New("lines are left to fill in")
	// ErrUnknownKernel: no kernel has the name asked for.
	ErrUnknownKernel = errors.New("unknown kernel")
	// ErrUnknownShape: no shape of the problem has the name asked for.
	ErrUnknownShape = errors.New("unknown shape")
	// ErrRender: a template could not be filled with a genome. That is a fault
	// of the candidate or of its template, never of the machine.
	ErrRender = errors.New("template cannot be rendered")
)

// An Error is an error in a file of a kernel folder. It prints as one line,
// FILE:LINE:COL: what was wrong: what to do.
type Error struct {
	File string
	// Line and Col count from 1; columns count bytes, as in Go and gcc. Both are 0 when
	// the error is about the file itself.
	Line, Col int
	Msg       string
	// Err is the cause: ErrDefinition, ErrRender, or a system error such as
	// fs.ErrPermission joined with one of them.
	Err error
	// Unfilled are the lines of a draft that are still to fill in, of which the error names the first.
	Unfilled []Finding
}

// Error returns one line.
func (e *Error) Error() string {
	where := e.File
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d", where, e.Line)
		if e.Col > 0 {
			where = fmt.Sprintf("%s:%d", where, e.Col)
		}
	}
	return where + ": " + oneLine(e.Msg)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// oneLine folds a text into one line.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.Join(strings.Fields(s), " ")
}
