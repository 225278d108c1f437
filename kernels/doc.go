// Package kernels loads definitions of kernels, which evotune tunes: each is a
// folder with a kernel.toml, its templates and its reference.
//
// # Model
//
// A [Definition] is one [Problem] with its [Implementation]s. The problem says
// what is computed (dimensions, buffers, scalars, a reference in double
// precision), how accurate an answer must be (tolerances, and negative controls that
// must exceed them) and its minimum cost (operations and bytes, for
// throughput and for the time that no device can beat). An implementation says
// how: a template with parameters, the constraints between them, compiler
// flags, and the baseline that speedups are measured against.
//
// [Definition.Space] is the set of valid parameter values, as genomes;
// [Implementation.Render] fills the template with one of them and gives
// everything that a backend compiles. Rendering is a pure function of the
// definition and the genome.
//
// [Open] collects the built-in kernels and those of the given folders; [Load] and
// [LoadDir] read one folder; [Lint] looks for valid but suspicious parts. docs/kernel-format.md is the manual of the format,
// docs/kernels.md the guide.
//
// # How a folder is read
//
// Reading is one pass: load.go opens the folder, document.go parses kernel.toml and decodes
// it into the structures of tables.go, whose values know their positions, and build.go and
// implementation.go make the definition from them, reading the other files as they are named.
// The first error ends it, with its line and column.
//
// # Caveats
//
// A definition is trusted like a Makefile: its flags reach the compiler, and its C code
// runs. A folder is read through [os.Root], and so is the folder include beside it,
// whose headers several kernels may share: neither names nor symbolic links can
// lead out of them.
//
// Expressions are those of the language of internal/expr. Names in them are the problem's
// dimensions, the limits of the device ([Limits]) and, for an implementation,
// its parameters.
package kernels
