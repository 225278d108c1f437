//go:build linux

package cpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCodeHash compiles pairs of the red team that differ in what the loader makes
// of equal code and data, and one source under two names.
func TestCodeHash(t *testing.T) {
	needCompiler(t)
	const folder = "../testdata/redteam/product"
	dir := t.TempDir()
	hash := func(source, name string) string {
		object := filepath.Join(dir, name+".so")
		if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-I", folder, "-o", object, source).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", source, err, out)
		}
		data, err := os.ReadFile(object)
		if err != nil {
			t.Fatal(err)
		}
		h, err := codeHash(data, 1)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	honest, err := filepath.Glob(folder + "/identity-*-honest.c")
	if err != nil || len(honest) < 8 {
		t.Fatalf("%d pairs, error %v", len(honest), err)
	}
	for _, path := range honest {
		name := strings.TrimSuffix(filepath.Base(path), "-honest.c")
		if hash(path, "one") == hash(filepath.Join(folder, name+".c"), "two") {
			t.Errorf("%s and its honest twin have one hash", name)
		}
	}
	text, err := os.ReadFile(honest[0])
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "other-name.c")
	if err := os.WriteFile(copied, append([]byte("/* another comment */\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if hash(honest[0], "one") != hash(copied, "two") {
		t.Error("the same code from two files has two hashes")
	}
}
