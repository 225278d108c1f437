package backendtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// setuidVariable names a program of root's to a test that runs as another user.
const setuidVariable = "BACKENDTEST_SETUID"

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
		base, err := os.MkdirTemp("", "evotune-nobody-") //nolint:usetesting // others may not enter the folders of t.TempDir
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
		setuid := filepath.Join(base, "setuid") // of root's
		if err := errors.Join(copyFile("/proc/self/exe", program), copySetuid(setuid)); err != nil {
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
		cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, "XDG_CACHE_HOME=", setuidVariable+"="+setuid)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err != nil || !regexp.MustCompile(`(?m)^--- PASS: `+regexp.QuoteMeta(name)).Match(out) {
			t.Errorf("as user %d: %v\n%s", nobody, err, out)
		} else {
			t.Logf("%s", out)
		}
	})
}
