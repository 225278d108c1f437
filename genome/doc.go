// Package genome holds search spaces and their points: genes with finite
// domains, constraints, and the genomes that satisfy them.
package genome
