package server

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// small is a kernel that can be uploaded.
func small(t *testing.T) api.Upload {
	t.Helper()
	const name = "mine"
	dir := filepath.Join(t.TempDir(), name)
	if err := draft.New(dir, name, "cpu"); err != nil {
		t.Fatal(err)
	}
	u := api.Upload{Name: name, Files: map[string]string{}}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		u.Files[e.Name()] = string(b)
	}
	return u
}

// with is an upload with another file.
func with(u api.Upload, name, text string) api.Upload {
	u.Files = maps.Clone(u.Files)
	u.Files[name] = text
	return u
}

// TestUploadNames: a kernel that loads has a name that can be uploaded, and its campaigns say that it was.
func TestUploadNames(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	toml := small(t).Files["kernel.toml"]
	for _, name := range []string{"my_kernel", "0-a_", strings.Repeat("a", 63)} {
		u := with(small(t), "kernel.toml", strings.Replace(toml, `name = "mine"`, fmt.Sprintf("name = %q", name), 1))
		u.Name = name
		f.do("POST", "/v1/kernels", u, nil, 201)
		if k := fetch[api.Kernel](f, "/v1/kernels/"+name); k.Name != name {
			t.Errorf("%q, want %q", k.Name, name)
		}
	}
	for kernel, want := range map[string]bool{"my_kernel": true, "softmax": false} {
		var c api.Campaign
		f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Kernel: kernel, Backend: "cpu"}}, &c, 201)
		f.do("POST", "/v1/campaigns/"+c.ID+"/cancel", nil, nil, 200)
		if c = fetch[api.Campaign](f, "/v1/campaigns/"+c.ID); c.Uploaded != want {
			t.Errorf("%s: uploaded %v, want %v", kernel, c.Uploaded, want)
		}
	}
}

func TestUpload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	u := small(t)
	var before, after api.Kernel
	t.Run("upload", func(t *testing.T) {
		f := serve(t, path, 0)
		head := f.do("POST", "/v1/kernels", u, &before, 201)
		if head.Get("Location") != "/v1/kernels/mine" || before.Name != "mine" || before.Builtin || len(before.Genes) == 0 {
			t.Errorf("%v %+v", head, before)
		}
		// The same again is the same; another content stands from now on, and the first stays.
		f.do("POST", "/v1/kernels", u, nil, 201)
		first := f.service.kernels.folders("mine")
		f.do("POST", "/v1/kernels", with(u, "kernel.toml", u.Files["kernel.toml"]+"\n# new\n"), &after, 201)
		if after.Hash == before.Hash {
			t.Error("another content has the same hash")
		}
		second := f.service.kernels.folders("mine")
		if len(first) != 1 || len(second) != 1 || first[0] == second[0] {
			t.Fatalf("folders %v and %v", first, second)
		}
		for _, dir := range []string{first[0], second[0]} {
			if _, err := kernels.LoadDir(dir); err != nil {
				t.Error(err)
			}
		}
		err := filepath.WalkDir(f.service.kernels.root, func(name string, e os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if info.Mode().Perm()&0o077 != 0 || strings.HasPrefix(e.Name(), ".new-") {
				t.Errorf("%s has mode %s", name, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := os.Mkdir(filepath.Join(f.service.kernels.root, ".new-left"), 0o700); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("later", func(t *testing.T) {
		f := serve(t, path, 0)
		if d, err := f.service.kernels.get("mine"); err != nil || !d.Uploaded {
			t.Errorf("%v: the upload is not one", err)
		}
		if k := fetch[api.Kernel](f, "/v1/kernels/mine"); k.Hash != after.Hash {
			t.Errorf("hash %.12s, want that of the newest %.12s", k.Hash, after.Hash)
		}
		found := false
		for _, k := range fetch[[]api.Kernel](f, "/v1/kernels") {
			found = found || k.Name == "mine" && k.Hash == after.Hash && !k.Builtin
		}
		if !found {
			t.Error("it is not in the list")
		}
		if _, err := os.Stat(filepath.Join(f.service.kernels.root, ".new-left")); err == nil {
			t.Error("what a killed service left is still there")
		}
	})
}

// TestUploadRefused: what is odd is refused before it is written, and what the lint finds
// before it is accepted, with file and line.
func TestUploadRefused(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	u := small(t)
	toml := u.Files["kernel.toml"]
	template := ""
	for name := range u.Files {
		if strings.HasSuffix(name, ".tmpl") {
			template = name
		}
	}
	if template == "" {
		t.Fatalf("no template among %v", u.Files)
	}
	refused := func(what string, in api.Upload, status int, location string) {
		t.Helper()
		var p api.Problem
		f.do("POST", "/v1/kernels", in, &p, status)
		if p.Detail == "" || len(p.Errors) == 0 || !strings.HasPrefix(p.Errors[0].Location, location) {
			t.Errorf("%s: %+v, want something at %s", what, p, location)
		}
		if strings.Contains(fmt.Sprint(p), f.service.kernels.root) {
			t.Errorf("%s tells where the server keeps its files: %+v", what, p)
		}
	}
	for _, name := range []string{
		"../x", "/etc/passwd", "a/../b", "a//b", "./a", "a/", "", ".", "..", "a\\b", "C:x", ".hidden", "a/.b", "-x", "a b", "a\nb", "a\x00b", "é",
		strings.Repeat("a", 101), "a/a/a/a/a/a/a/a/a", "kernel.toml/x",
	} {
		refused(fmt.Sprintf("the name %q", name), with(u, name, "x"), 422, "body.files.")
	}
	refused("a zero byte", with(u, "data", "a\x00b"), 422, "body.files.data")
	refused("too large", with(u, "data", strings.Repeat("x", maxUpload)), 413, "body.files")
	many := u
	for i := range 64 {
		many = with(many, fmt.Sprintf("f%d", i), "x")
	}
	refused("too many files", many, 422, "body.files")
	for _, name := range []string{"", "../x", "A", "a/b", ".", strings.Repeat("a", 64), "-a", "_a"} {
		in := u
		in.Name = name
		refused(fmt.Sprintf("the kernel %q", name), in, 422, "body.name")
	}
	for _, name := range []string{"softmax", "include"} {
		in := u
		in.Name = name
		refused("the kernel "+name, in, 409, "body.name")
	}
	other := u
	other.Name = "other"
	refused("another name than its own", other, 422, "kernel.toml")
	none := api.Upload{Name: "mine", Files: map[string]string{"x": "y"}}
	refused("no definition", none, 422, "kernel.toml")
	refused("no files", api.Upload{Name: "mine", Files: map[string]string{}}, 422, "body.files")
	refused("no TOML", with(u, "kernel.toml", toml+"\n]"), 422, "kernel.toml:")
	refused("an unknown key", with(u, "kernel.toml", "nonsense = 1\n"+toml), 422, "kernel.toml:1")
	refused("a file outside", with(u, "kernel.toml", strings.Replace(toml, template, "../"+template, 1)), 422, "kernel.toml:")
	refused("a template that does not parse", with(u, template, u.Files[template]+"{{"), 422, template+":")
	for _, flag := range []string{"-include/etc/shadow", "-Wl,-T,/etc/shadow", "@x", `-{{"include"}}`} {
		var p api.Problem
		f.do("POST", "/v1/kernels", with(u, "kernel.toml", strings.Replace(toml, `"-march=native"`, `'`+flag+`'`, 1)), &p, 422)
		if want := fmt.Sprintf("flag %q", strings.ReplaceAll(flag, `{{"include"}}`, "include")); !strings.HasPrefix(p.Errors[0].Location, "kernel.toml:") || !strings.Contains(p.Detail, want) {
			t.Errorf("%+v, want %s", p, want)
		}
	}
	refused("a suspicious one", with(u, "kernel.toml", strings.ReplaceAll(toml, `use = "verify"`, `use = "tune"`)), 422, "kernel.toml:")
	var p api.Problem
	f.do("POST", "/v1/kernels", with(u, "data", strings.Repeat("x", maxUploadBody)), &p, 413)
	if p.Type != api.TooLarge {
		t.Errorf("%+v", p)
	}
	list, err := filepath.Glob(filepath.Join(f.service.kernels.root, "*"))
	if err != nil || len(list) != 0 || len(fetch[[]api.Kernel](f, "/v1/kernels")) != len(mustNames(t)) {
		t.Errorf("something was accepted: %v, %v", list, err)
	}
	if hidden, err := filepath.Glob(filepath.Join(f.service.kernels.root, ".*")); err != nil || len(hidden) != 0 {
		t.Errorf("left behind: %v, %v", hidden, err)
	}
}

// TestUploadIsLookedAt: while a kernel is looked at, no other waits for a lock.
func TestUploadIsLookedAt(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	u := small(t)
	f.service.kernels.uploading.Lock()
	f.do("POST", "/v1/kernels", with(u, "kernel.toml", strings.Replace(u.Files["kernel.toml"], `"-march=native"`, `"-include"`, 1)), nil, 422)
	f.service.kernels.uploading.Unlock()
	f.do("POST", "/v1/kernels", u, nil, 201)
}

func mustNames(t *testing.T) []string {
	t.Helper()
	c, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	return c.Names()
}

// TestUploadRoot: the folder of the uploads is one, and no link to another.
func TestUploadRoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, path+".kernels"); err != nil {
		t.Fatal(err)
	}
	serve(t, path, 0).do("POST", "/v1/kernels", small(t), nil, 500)
	if list, err := os.ReadDir(elsewhere); err != nil || len(list) != 0 {
		t.Errorf("written through a link: %v, %v", list, err)
	}
}

// withPython is an upload whose reference is in Python.
func withPython(u api.Upload, text string) api.Upload {
	toml := strings.Replace(u.Files["kernel.toml"], `source = "reference.c"`, `python = "reference.py"`, 1)
	return with(with(u, "kernel.toml", toml), "reference.py", text)
}

// TestUploadPython: a reference in Python comes with the kernel, and is looked at.
func TestUploadPython(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	u := small(t)
	f.do("POST", "/v1/kernels", withPython(u, "def reference(x):\n    return x\n"), nil, 201)
	var p api.Problem
	f.do("POST", "/v1/kernels", withPython(u, "def other(x):\n    return x\n"), &p, 422)
	if !strings.Contains(p.Detail, "reference.py does not define reference: correct the entry") {
		t.Errorf("%+v", p)
	}
}

// TestUploadedCampaignLong: a campaign has the kernel as it was when it was submitted.
func TestUploadedCampaignLong(t *testing.T) {
	longtest.Long(t, "it compiles and measures")
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	u := small(t)
	f.do("POST", "/v1/kernels", u, nil, 201)
	var c api.Campaign
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Kernel: "mine", Backend: "cpu", Budget: evotune.Budget{Evaluations: 4}, Finalists: new(0)}}, &c, 201)
	f.do("POST", "/v1/kernels", with(u, "kernel.toml", u.Files["kernel.toml"]+"\n# new\n"), nil, 201)
	c = f.until(c.ID, api.Finished)
	if c.Best == "" {
		t.Fatalf("%+v", c)
	}
	src := fetch[api.Source](f, "/v1/candidates/"+c.Best+"/source?against=baseline")
	if src.Language != "c" || src.Source == "" || src.Other == "" || src.Against != "baseline" {
		t.Errorf("%+v", src)
	}
	k := fetch[api.Kernel](f, "/v1/kernels/mine")
	j, err := f.service.tools.Recorded(*c.Log)
	if err != nil || j.Job.Hash == k.Hash {
		t.Errorf("the campaign has the newest kernel: %v", err)
	}
	roof := fetch[api.Roofline](f, "/v1/campaigns/"+c.ID+"/roofline")
	if len(roof.Points) != 2 || roof.Points[0].Operations <= 0 || len(roof.Peaks) == 0 {
		t.Errorf("%+v", roof)
	}
	fetch[api.Answers](f, "/v1/best?kernel=mine&shape="+c.Shapes[0])
}
