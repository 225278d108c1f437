package cpu

import (
	"io"
	"os"
)

// discard closes what was only read, or what an error has made worthless: that
// it cannot be closed changes nothing.
func discard(c io.Closer) { _ = c.Close() }

// remove removes what was made for one use: that it cannot be removed changes
// nothing.
func remove(path string) { _ = os.RemoveAll(path) }
