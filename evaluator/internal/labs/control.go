package labs

// LeaveOut replaces every eighth step along an axis, the first of each eight, by its
// neighbor: a negative control. Size is that of a step in bytes, last the extent of the axis,
// at least 2.
func LeaveOut(elements []byte, size, last int) {
	for row := 0; row < len(elements); row += last * size {
		for i := 0; i < last; i += 8 {
			from := i + 1
			if from == last {
				from = i - 1
			}
			copy(elements[row+i*size:row+(i+1)*size], elements[row+from*size:])
		}
	}
}
