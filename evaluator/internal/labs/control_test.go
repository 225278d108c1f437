package labs

import "testing"

func TestLeaveOut(t *testing.T) {
	for _, c := range []struct {
		in, want   string
		size, last int
	}{
		{"abcdefghijABCDEFGHIJ", "bbcdefghjjBBCDEFGHJJ", 1, 10},
		{"abcdefghiABCDEFGHI", "bbcdefghhBBCDEFGHH", 1, 9},
		{"aAbBcC", "bBbBcC", 2, 3},
		{"ab", "bb", 1, 2},
	} {
		got := []byte(c.in)
		if LeaveOut(got, c.size, c.last); string(got) != c.want {
			t.Errorf("%s in rows of %d elements of %d bytes: %s, want %s", c.in, c.last, c.size, got, c.want)
		}
	}
}
