package search

// The operators that proposals name.
const (
	opRandom = "random"
	opLocal  = "local"
)
