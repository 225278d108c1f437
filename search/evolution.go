package search

func newEvolution(l *ledger) Strategy { return &Random{l} }
