// Package genome holds search spaces and their points: genes with finite
// domains, constraints as expressions, and the genomes that satisfy them.
//
// # Model
//
// A Space is declared once, by NewSpace, NewUnion or NewListed, and is immutable. It
// compiles its constraints into multi-valued decision diagrams, in which every
// path is a valid genome and every valid genome is a path. So the number of
// genomes is known, Random draws uniformly without rejecting anything, genomes
// have ranks, and whatever an operator makes (Mutate, Crossover, Neighbours,
// Repair) is valid. docs/spaces.md says how, and what it costs.
//
// A Genome is an immutable value, comparable with ==, that belongs to its
// space. Its canonical encoding (String) depends on names and values alone;
// Hash is over the encoding. An Individual is a genome in a population of
// eaopt.
//
// A gene with a condition (When) exists only where the condition holds. A
// constraint applies where every gene that it names exists. An expression that
// fails (a remainder by zero, a type that shows at run time only) makes the
// genome invalid, in a constraint and in a condition; "and" and "or" evaluate
// their right side only if needed, so "B != 0 and A % B == 0" never fails.
// Expr says what the language offers.
//
// # Caveats
//
// Constraints whose diagrams would be too large are deferred: draws are
// rejected until they hold, sizes are estimated, ranks are not available. Size
// says how many genomes there are, Exact whether that is precise, and
// Deferred which constraints are deferred.
//
// Operators draw from the *rand.Rand they are given and from nothing else: the
// same declaration, seed and calls give the same genomes. A change of this
// package that alters them changes the path of every search, whose version must
// then change too.
package genome
