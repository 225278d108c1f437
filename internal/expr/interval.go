package expr

import "math"

// An interval bounds the value of a term for all values of its variables. Bounds decide
// comparisons long before every gene is known: a sum that is above its limit stays so,
// and one that cannot reach it never will. The zero interval means that nothing is
// known.
//
// Bounds of integers are used only where float64 holds every integer, so they
// are exact; those of floats come from the same operations as the values, which
// round monotonically.
type interval struct {
	lo, hi float64
	known  bool
}

// maxExact is the largest magnitude up to which float64 has every integer.
const maxExact = 1 << 53

func between(lo, hi float64) interval {
	if math.Abs(lo) <= maxExact && math.Abs(hi) <= maxExact && lo <= hi { // false for NaN
		return interval{lo, hi, true}
	}
	return interval{}
}

func point(v Value) interval {
	switch v.kind {
	case KindInt:
		if i := v.int(); -maxExact <= i && i <= maxExact {
			return between(float64(i), float64(i))
		}
	case KindFloat:
		return between(v.float(), v.float())
	}
	return interval{}
}

func (a interval) hull(b interval) interval {
	if !a.known || !b.known {
		return interval{}
	}
	return between(min(a.lo, b.lo), max(a.hi, b.hi))
}

func (a interval) times(b interval) interval {
	w, x, y, z := a.lo*b.lo, a.lo*b.hi, a.hi*b.lo, a.hi*b.hi
	return between(min(w, x, y, z), max(w, x, y, z))
}

// bound returns the interval of an operator's result, if it does not fail.
func bound(op opcode, args []*Term) interval {
	switch op {
	case opIf:
		return args[1].in.hull(args[2].in)
	case opErr, opCall:
		return interval{}
	}
	for _, a := range args {
		if !a.in.known {
			return interval{}
		}
	}
	a := args[0].in
	var b interval
	if len(args) > 1 {
		b = args[1].in
	}
	monotone := func(f func(float64) float64) interval { return between(f(a.lo), f(a.hi)) }
	switch op {
	case opAdd, opSum:
		for _, b := range args[1:] {
			if a = between(a.lo+b.in.lo, a.hi+b.in.hi); !a.known {
				break
			}
		}
		return a
	case opMul, opProduct:
		for _, b := range args[1:] {
			if a = a.times(b.in); !a.known {
				break
			}
		}
		return a
	case opMod: // has the sign of the dividend
		m := max(math.Abs(b.lo), math.Abs(b.hi)) - 1
		return between(max(min(a.lo, 0), min(-m, 0)), min(max(a.hi, 0), max(m, 0)))
	case opFloorMod: // has the sign of the divisor
		if b.lo > 0 {
			return between(0, b.hi)
		}
	case opFloorDiv:
		if b.lo > 0 {
			w, x, y, z := math.Floor(a.lo/b.lo), math.Floor(a.lo/b.hi), math.Floor(a.hi/b.lo), math.Floor(a.hi/b.hi)
			return between(min(w, x, y, z), max(w, x, y, z))
		}
	case opAbs:
		if a.lo <= 0 && 0 <= a.hi {
			return between(0, max(-a.lo, a.hi))
		}
		return between(min(math.Abs(a.lo), math.Abs(a.hi)), max(math.Abs(a.lo), math.Abs(a.hi)))
	case opMin:
		return between(min(a.lo, b.lo), min(a.hi, b.hi))
	case opMax:
		return between(max(a.lo, b.lo), max(a.hi, b.hi))
	case opBitAnd:
		if a.lo >= 0 && b.lo >= 0 {
			return between(0, min(a.hi, b.hi))
		}
	case opBitShl:
		if b.lo >= 0 && b.hi <= 62 {
			return a.times(interval{math.Exp2(b.lo), math.Exp2(b.hi), true})
		}
	case opInt:
		return monotone(math.Trunc)
	case opCeil:
		return monotone(math.Ceil)
	case opFloor:
		return monotone(math.Floor)
	case opRound:
		return monotone(math.Round)
	case opFloat:
		return a
	case opSub:
		return between(a.lo-b.hi, a.hi-b.lo)
	case opNeg:
		return between(-a.hi, -a.lo)
	case opDiv:
		if b.lo > 0 || b.hi < 0 {
			w, x, y, z := a.lo/b.lo, a.lo/b.hi, a.hi/b.lo, a.hi/b.hi
			return between(min(w, x, y, z), max(w, x, y, z))
		}
	}
	return interval{}
}

// settled says whether the bounds of two terms decide their comparison, and
// how.
func settled(op opcode, x, y *Term) (decided, result bool) {
	a, b := x.in, y.in
	if !a.known || !b.known || x.errs || y.errs {
		return false, false
	}
	switch op {
	case opLt:
		return a.hi < b.lo || a.lo >= b.hi, a.hi < b.lo
	case opLe:
		return a.hi <= b.lo || a.lo > b.hi, a.hi <= b.lo
	case opEq:
		return a.hi < b.lo || a.lo > b.hi, false
	}
	return false, false
}
