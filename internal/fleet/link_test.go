package fleet

import "testing"

// TestLinkedWhileDialing: who looks whether the link still serves, as every beat does, takes it from nobody.
// Compiled code was not asked for at such a moment.
func TestLinkedWhileDialing(t *testing.T) {
	w, link := &worker{}, Link(&memoryLink{})
	w.link.Store(&link)
	w.dialing.Lock()
	if w.linked() != link {
		t.Error("there is a link, and it is not given")
	}
}
