package plain

import "testing"

func TestClean(t *testing.T) {
	for s, want := range map[string]string{
		"plain\n\ttext é ‘quoted’ 汉":          "plain\n\ttext é ‘quoted’ 汉",
		"\x1b[2J\x1b]0;title\a":               "?[2J?]0;title?",
		"a\r\nb\rc\x00\x7f\u009b31m":          "a\nb?c???31m",
		"left \u202eright\u2066 \xff\xfe end": "left ?right? ?? end",
		"":                                    "",
	} {
		if got := Text(s); got != want {
			t.Errorf("Text(%q) = %q, want %q", s, got, want)
		}
	}
	if got, want := Line(" a\x1b[1m\n\tb\r\xff \u009bc "), "a [1m b c"; got != want {
		t.Errorf("Line: %q, want %q", got, want)
	}
}

func TestOutside(t *testing.T) {
	for source, want := range map[string]string{
		"#include <math.h>\n#include \"part.h\"\n#include \"sub/part.h\"": "",
		"int x; // see /etc/passwd":                                       "",
		" #  include  \"/etc/passwd\"":                                    "/etc/passwd",
		"#include </etc/passwd>":                                          "/etc/passwd",
		"#include \"sub/../../secret\"":                                   "sub/../../secret",
		"#if __has_include(\"/etc/passwd\")":                              "/etc/passwd",
		"const char x[] = {\n#embed \"../x\"\n};":                         "../x",
		`__asm__(".incbin \"/etc/passwd\"");`:                             "/etc/passwd",
		`__asm__(".include \"/etc/passwd\"\n");`:                          "/etc/passwd",
	} {
		if got := Outside(source); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}
