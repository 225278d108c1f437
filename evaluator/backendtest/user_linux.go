package backendtest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user without files.
const nobody = 65534

// AsNobody runs the calling test once more, as a user without files, where this user
// is root. Folders are what it reads, named as from the test's own folder.
func AsNobody(t *testing.T, folders ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Log("as root: not run, needs root for the other half")
		return
	}
	t.Run("nobody", func(t *testing.T) {
		defer syscall.Umask(syscall.Umask(0o022))
		base, err := os.MkdirTemp("", "evotune-nobody-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(base) })
		home, dir, program := filepath.Join(base, "home"), filepath.Join(base, "a", "b"), filepath.Join(base, "test")
		for _, folder := range folders {
			if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
		}
		from, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(to, from); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{home, dir} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(base, 0o755), os.Chown(home, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(t.Name(), "/")
		cmd := exec.Command(program, "-test.v", "-test.run=^"+regexp.QuoteMeta(name)+"$", "-test.timeout=20m")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, "XDG_CACHE_HOME=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err != nil || !regexp.MustCompile(`(?m)^--- PASS: `+regexp.QuoteMeta(name)).Match(out) {
			t.Errorf("as user %d: %v\n%s", nobody, err, out)
		} else {
			t.Logf("%s", out)
		}
	})
}
