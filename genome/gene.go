package genome

import (
	"errors"
	"fmt"
)

// A Gene is one dimension of a space.
type Gene struct {
	Name string
	// Values are the alleles in order, without repeats. All are of one kind;
	// integers among floats become floats.
	Values []Value
	// Ordinal says that neighboring values are similar (tile sizes), so that small
	// steps are meaningful; false for enumerations.
	Ordinal bool
	// When is a condition over other genes and the constants; the gene exists
	// only where it holds (with several sets of constants: under any of them)
	// and every gene that it names is active. "" means always.
	When string
}

// A Constraint must hold for every genome in which all genes that it names
// are active.
type Constraint struct {
	Expr string `json:"expr"` // see Expr
	Why  string `json:"why"`  // for people
}

// An Alternative is one of the spaces that NewUnion joins.
type Alternative struct {
	Name        string // the value of the choosing gene
	Genes       []Gene
	Constraints []Constraint
}

// Errors of making spaces and of reading genomes.
var (
	// ErrEmpty: no genome satisfies the constraints.
	ErrEmpty = errors.New("the space is empty")
	// ErrInvalid: a genome breaks a constraint, lacks a gene, has one too
	// many, or has a value that the gene does not have.
	ErrInvalid = errors.New("invalid genome")
)

// An InvalidError says why a genome is not in its space. errors.Is reports
// ErrInvalid for it.
type InvalidError struct {
	Constraint string // the broken expression, if any
	Why        string // its reason, if any
	Msg        string // what is wrong otherwise
}

// Error returns one line.
func (e *InvalidError) Error() string {
	switch {
	case e.Constraint == "":
		return "invalid genome: " + e.Msg
	case e.Why == "" && e.Msg == "":
		return fmt.Sprintf("invalid genome: it breaks the constraint %q", e.Constraint)
	case e.Why == "":
		return fmt.Sprintf("invalid genome: it breaks the constraint %q: %s", e.Constraint, e.Msg)
	case e.Msg == "":
		return fmt.Sprintf("invalid genome: it breaks the constraint %q (%s)", e.Constraint, e.Why)
	}
	return fmt.Sprintf("invalid genome: it breaks the constraint %q (%s): %s", e.Constraint, e.Why, e.Msg)
}

// Unwrap returns ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }
