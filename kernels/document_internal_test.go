package kernels

import (
	"errors"
	"testing"
)

// A definition that ends too early has its fault in its last line with text.
func TestPlaceOfTheEnd(t *testing.T) {
	for _, text := range []string{"[problem]\nname = \"x\"\nx = [1,", "[problem]\nname = \"x\"\nx = [1,\n\n\n"} {
		_, err := parseDocument("kernel.toml", []byte(text))
		var at *Error
		if !errors.As(err, &at) || at.Line != 3 || at.Col != 8 || at.Msg != "expected value, but the file ends" {
			t.Errorf("%q: %v", text, err)
		}
	}
}
