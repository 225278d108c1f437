package fleet

import "testing"

// TestLinkedWhileDialing: the link can be used while another goroutine holds the lock for dialing, as each
// request does for a moment. A worker would else compile what others have.
func TestLinkedWhileDialing(t *testing.T) {
	w, link := &worker{}, Link(&memoryLink{})
	w.link.Store(&link)
	w.dialing.Lock()
	if w.linked() != link {
		t.Error("there is a link, and it is not given")
	}
}
