package sources

import "testing"

// Branches that only other systems compile are left out, and no others.
func TestOurs(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"#if defined _WIN32\n1\n#endif\n2\n", "#if defined _WIN32\n\n#endif\n2\n"},
		{"#ifdef _MSC_VER\n1\n#else\n2\n#endif\n", "#ifdef _MSC_VER\n\n#else\n2\n#endif\n"},
		{"#ifndef __APPLE__\n1\n#else // of Apple\n2\n#endif\n", "#ifndef __APPLE__\n1\n#else // of Apple\n\n#endif\n"},
		{"#if defined(_WIN32) || defined(__HIPCC__)\n1\n#elif defined(X)\n2\n#else\n3\n#endif\n", "#if defined(_WIN32) || defined(__HIPCC__)\n\n#elif defined(X)\n2\n#else\n3\n#endif\n"},
		{"#if defined(_WIN32) || X\n1\n#endif\n", "#if defined(_WIN32) || X\n1\n#endif\n"},
		{"#if X && defined(_WIN64)\n1\n#endif\n", "#if X && defined(_WIN64)\n\n#endif\n"},
		{"#if !defined(_WIN32)\n1\n#else\n2\n#endif\n", "#if !defined(_WIN32)\n1\n#else\n\n#endif\n"},
		{"#if _MSC_VER >= 1900\n1\n#endif\n", "#if _MSC_VER >= 1900\n\n#endif\n"},
		{"#ifdef _WIN32\n#if X\n1\n#else\n2\n#endif\n3\n#endif\n4\n", "#ifdef _WIN32\n#if X\n\n#else\n\n#endif\n\n#endif\n4\n"},
		{"#ifdef X\n1\n#else\n2\n#endif\n#endif\n#else\n3", "#ifdef X\n1\n#else\n2\n#endif\n#endif\n#else\n3"},
	} {
		if got := Ours(c.text); got != c.want {
			t.Errorf("of %q\ngot  %q\nwant %q", c.text, got, c.want)
		}
	}
}
