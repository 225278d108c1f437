package kernels

import "math/rand"

// A Finding is something suspicious in a well-formed definition.
type Finding struct {
	File      string `json:"file"`
	Line, Col int
	Msg       string `json:"msg"`
}

// String gives one line, FILE:LINE:COL: what is wrong: what to do.
func (f Finding) String() string {
	return (&Error{File: f.File, Line: f.Line, Col: f.Col, Msg: f.Msg}).Error()
}

// Lint looks for what is suspicious in a definition, rendering n random
// genomes of every implementation.
func Lint(d *Definition, n int, rng *rand.Rand) []Finding { return nil }
