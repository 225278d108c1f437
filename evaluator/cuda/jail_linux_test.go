package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator/internal/process"
)

// A source reads no file of the user: neither into a diagnostic nor into what
// is compiled, and its text cannot command a terminal.
func TestCompilersAreJailed(t *testing.T) {
	if process.Landlock() == 0 {
		t.Skip(process.NoLandlock)
	}
	_, kit, found := compilers(t)
	if kit.jail == nil {
		t.Fatalf("compilers are not locked in: %s", kit.unjailed)
	}
	secret := filepath.Join(t.TempDir(), "secret.h")
	if err := os.WriteFile(secret, []byte("password secret;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	climb := strings.Repeat("../", 12) + secret[1:]
	const kernel = "extern \"C\" __global__ void k(int *x) { *x = 1; }\n"
	for name, c := range found {
		for what, source := range map[string]string{
			"include":          "#include \"" + secret + "\"\n",
			"include climbing": "#include \"" + climb + "\"\n",
			"passwd":           "#include \"/etc/passwd\"\n",
			"device":           "#include \"/dev/tty\"\n",
		} {
			out, err := c.compile(t.Context(), unit{source: source + kernel, arch: "sm_80"})
			var no *refused
			if !errors.As(err, &no) {
				t.Errorf("%s, %s: error %v", name, what, err)
			}
			if strings.Contains(out.Log, "password") || strings.Contains(out.Log, "root:") {
				t.Errorf("%s, %s: the log shows the file: %s", name, what, out.Log)
			}
		}
		asked := "#if __has_include(\"" + secret + "\")\n#error it sees the file\n#endif\n#if !__has_include(<cuda_fp16.h>)\n#error it does not see its own\n#endif\n"
		if out, err := c.compile(t.Context(), unit{source: asked + kernel, arch: "sm_80"}); err != nil && strings.Contains(out.Log, "it ") {
			t.Errorf("%s asks for files: %v\n%s", name, err, out.Log)
		}
		out, err := c.compile(t.Context(), unit{source: "#error \x1b[2Jgone\x1b]0;title\a\n" + kernel, arch: "sm_80"})
		if err == nil || strings.ContainsAny(out.Log+err.Error(), "\x1b\a") {
			t.Errorf("%s, control characters: %q, %v", name, out.Log, err)
		}
	}
}
