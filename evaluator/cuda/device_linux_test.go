package cuda

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDevice holds what a backend says of its GPU against what a problem says that is
// open on it.
func TestDevice(t *testing.T) {
	t.Parallel()
	o := fakeOptions(t)
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := b.Device(t.Context())
	if err != nil || d.Facts["capability"] != "9.0" || d.Facts["uuid"] != fakeUUID(stateOf(o)) {
		t.Fatalf("%+v, %v", d, err)
	}
	h, _ := openFake(t, o)
	want := h.Describe().Device
	want.Peaks = nil
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("the device (-opened +asked):\n%s", diff)
	}

	if n := b.Count(); n != 1 {
		t.Errorf("%d GPUs", n)
	}

	o.Devices = []string{"0", "1", "0"}
	if b, err = New(o); err != nil {
		t.Fatal(err)
	}
	if n := b.Count(); n != 2 {
		t.Errorf("%d GPUs of 0, 1 and 0 again", n)
	}
	if d, err := b.Device(t.Context()); err != nil || d.Facts["uuid"] != fakeUUID(stateOf(o)) {
		t.Errorf("the first: %+v, %v", d, err)
	}

	if list, err := b.Devices(t.Context()); err != nil || len(list) != 2 || list[0] != fakeUUID(stateOf(o)) {
		t.Errorf("UUIDs: %q, %v", list, err)
	}

	// That there is a GPU does not depend on another: else a campaign would quietly go to
	// the CPU instead of saying which one cannot be used.
	o = fakeOptions(t, "EVOTUNE_FAKE_HELLO=fails-1")
	o.Devices = []string{"0", "1"}
	if b, err = New(o); err != nil {
		t.Fatal(err)
	}
	if d, err := b.Device(t.Context()); err != nil || d.Facts["uuid"] != fakeUUID(stateOf(o)) || b.Available(t.Context()) != nil || b.Limits() == nil {
		t.Errorf("the first of two, of which the other fails: %+v, %v", d, err)
	}
	if n := b.Count(); n != 0 {
		t.Errorf("%d GPUs of two, of which one fails", n)
	}
	if list, err := b.Devices(t.Context()); err == nil {
		t.Errorf("UUIDs of two, of which one fails: %q", list)
	}

	if b, err = New(fakeOptions(t, "EVOTUNE_FAKE_HELLO=fails")); err != nil {
		t.Fatal(err)
	}
	if d, err := b.Device(t.Context()); !errors.Is(err, ErrWorker) {
		t.Errorf("no GPU: %+v, %v", d, err)
	}
}
