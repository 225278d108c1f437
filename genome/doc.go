// Package genome holds search spaces and their points: genes with finite
// domains, constraints as expressions, and the genomes that satisfy them.
//
// # Model
//
// NewSpace, NewUnion and NewListed make a Space, which is immutable. It compiles its
// constraints into multi-valued decision diagrams, in which every path is a valid
// genome and every valid genome is a path. So the number of genomes is known, Random
// draws uniformly without rejection, genomes have ranks, and every result of an
// operator (Mutate, Crossover, Neighbours, Repair) is valid. docs/spaces.md says how,
// and what it costs.
//
// A Genome is an immutable value, comparable with ==, that belongs to its
// space. Its canonical encoding (String) depends on names and values alone;
// Hash is over the encoding.
//
// A gene with a condition (When) exists only where the condition holds. A
// constraint applies where every gene that it names exists. An expression that
// fails (a remainder by zero, a type error that only shows at run time) makes the
// genome invalid, in a constraint and in a condition. "and" and "or" evaluate their
// right side only if needed, so "B != 0 and A % B == 0" never fails. docs/kernels.md describes the
// language.
//
// # Caveats
//
// Constraints whose diagrams would be too large are deferred: draws are
// rejected until they hold, sizes are estimated, ranks are not available. Size
// says how many genomes there are, Exact whether that is precise, and
// Deferred which constraints are deferred.
//
// Operators draw only from the *rand.Rand they are given: the same declaration, seed
// and calls give the same genomes. A change to this package that alters them changes
// the path of every search, whose version must then change too.
package genome
