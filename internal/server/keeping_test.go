package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/store"
)

func TestBackupOperation(t *testing.T) {
	f, c := finished(t, 20)
	path := filepath.Join(t.TempDir(), "copy.db")
	if a := f.ended(f.begin("/v1/backup", api.Backup{Path: path}).ID); a.State != api.Finished {
		t.Fatalf("%+v", a)
	}
	s, err := store.Open(path, store.Options{ReadOnly: true, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Campaign(c.ID); err != nil || got.Evaluated != 20 {
		t.Errorf("%+v, %v", got, err)
	}
	if a := f.ended(f.begin("/v1/backup", api.Backup{Path: path}).ID); a.State != api.Failed || a.Error == "" {
		t.Errorf("a file was replaced: %+v", a)
	}
	f.do("POST", "/v1/backup", api.Backup{Path: "copy.db"}, nil, 422)
	f.do("POST", "/v1/backup", map[string]any{}, nil, 422)
}

// TestBackupDownload: a copy of the store comes over HTTP, whole or as an error, for admins.
func TestBackupDownload(t *testing.T) {
	f, c := finished(t, 20)
	if a := f.ended(f.begin("/v1/archive", api.Archive{Campaigns: []string{c.ID}}).ID); a.State != api.Finished {
		t.Fatalf("%+v", a)
	}
	two := f.until(f.submit(5, 10).ID, api.Finished)
	client, err := api.NewClient(f.url, "")
	if err != nil {
		t.Fatal(err)
	}
	download := func(path string) (store.Backup, error) {
		r, err := client.DownloadBackup(t.Context())
		if err != nil {
			return store.Backup{}, err
		}
		defer r.Close()
		return store.ReadBackup(t.Context(), r, path, false)
	}
	dir := t.TempDir()
	b, err := download(filepath.Join(dir, "copy.db"))
	if err != nil || len(b.Archives) != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	s, err := store.Open(b.Path, store.Options{ReadOnly: true, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for id, want := range map[string]int{c.ID: 20, two.ID: 10} {
		if got, err := s.Campaign(id); err != nil || got.Evaluated != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	// What cannot be read breaks off and does not pass for a copy.
	if err := os.Remove(filepath.Join(f.service.store.Path()+".archive", filepath.Base(b.Archives[0]))); err != nil {
		t.Fatal(err)
	}
	if b, err := download(filepath.Join(dir, "part.db")); err == nil {
		t.Errorf("a part of a store was taken for all of it: %+v", b)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "part*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestArchiveOperation(t *testing.T) {
	f, c := finished(t, 20)
	before := fetch[[]store.Candidate](f, "/v1/ranking?limit=5")
	fetch[[]store.Campaign](f, "/v1/log/campaigns") // which is remembered
	if a := f.ended(f.begin("/v1/archive", api.Archive{Campaigns: []string{c.ID}}).ID); a.State != api.Finished {
		t.Fatalf("%+v", a)
	}
	want, err := f.service.store.Campaigns()
	if err != nil || len(want) != 1 || want[0].Archive == "" {
		t.Fatalf("%+v, %v", want, err)
	}
	if d := cmp.Diff(want, fetch[[]store.Campaign](f, "/v1/log/campaigns")); d != "" {
		t.Errorf("(-store +HTTP):\n%s", d)
	}
	if d := cmp.Diff(before, fetch[[]store.Candidate](f, "/v1/ranking?limit=5")); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
	f.do("POST", "/v1/archive", api.Archive{}, nil, 422)
	f.do("POST", "/v1/archive", api.Archive{Campaigns: []string{"nothing"}}, nil, 404)
	age := 0.0
	f.do("POST", "/v1/archive", api.Archive{Campaigns: []string{c.ID}, OlderThan: &age}, nil, 422)
	two := f.until(f.submit(5, 10).ID, api.Finished)
	if a := f.ended(f.begin("/v1/archive", api.Archive{OlderThan: &age}).ID); a.State != api.Finished {
		t.Fatalf("%+v", a)
	}
	if got := fetch[store.Campaign](f, "/v1/log/campaigns/"+two.ID); got.Archive == "" {
		t.Errorf("%+v", got)
	}
}

// TestArchiveAfter: what has been finished for long enough is archived without being asked for.
func TestArchiveAfter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	var id string
	t.Run("before", func(t *testing.T) {
		f := serve(t, path, 0)
		id = f.until(f.submit(3, 10).ID, api.Finished).ID
	})
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	service, err := New(Options{Store: s, Machine: new(evotune.Machine), ArchiveAfter: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c, err := s.Campaign(id)
		if err != nil {
			t.Fatal(err)
		}
		if c.Archive != "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not archived")
		}
	}
	if err := service.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
