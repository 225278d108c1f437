package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// A Number is a float64 that survives JSON when it is not finite: NaN and the
// infinities travel as the strings "NaN", "+Inf" and "-Inf".
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	switch f := float64(n); {
	case math.IsNaN(f):
		return []byte(`"NaN"`), nil
	case math.IsInf(f, 1):
		return []byte(`"+Inf"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Inf"`), nil
	default:
		return json.Marshal(f)
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"NaN"`:
		*n = Number(math.NaN())
	case `"+Inf"`:
		*n = Number(math.Inf(1))
	case `"-Inf"`:
		*n = Number(math.Inf(-1))
	default:
		var f float64
		if err := json.Unmarshal(b, &f); err != nil {
			return fmt.Errorf("a number: %w", err)
		}
		*n = Number(f)
	}
	return nil
}

// AppendDoubles appends numbers as the files that messages name have them: as
// little-endian doubles.
func AppendDoubles(b []byte, list []float64) []byte {
	b = slices.Grow(b, 8*len(list))
	for _, x := range list {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// ElementBytes is what an element of a type takes in the file of a shape's inputs: a float
// holds all numbers of most types.
func ElementBytes(dtype string) int64 {
	if dtype == "f64" || dtype == "i64" || dtype == "i32" || dtype == "u32" {
		return 8
	}
	return 4
}

// AppendElements appends elements of a type as the file of a shape's inputs has them: as
// little-endian doubles or floats.
func AppendElements(b []byte, dtype string, list []float64) []byte {
	if ElementBytes(dtype) == 8 {
		return AppendDoubles(b, list)
	}
	b = slices.Grow(b, 4*len(list))
	for _, x := range list {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
	}
	return b
}

// Elements reads what AppendElements wrote.
func Elements(b []byte, dtype string) []float64 {
	if ElementBytes(dtype) == 8 {
		return Doubles(b)
	}
	list := make([]float64, len(b)/4)
	for i := range list {
		list[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return list
}

// Doubles reads what AppendDoubles wrote.
func Doubles(b []byte) []float64 {
	list := make([]float64, len(b)/8)
	for i := range list {
		list[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return list
}
