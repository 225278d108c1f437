package server

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/store"
)

// ended waits for an operation.
func (f *fixture) ended(id string) api.Operation {
	f.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		a := fetch[api.Operation](f, "/v1/operations/"+id)
		if a.State.Ended() {
			return a
		}
		if time.Now().After(deadline) {
			f.Fatalf("operation %s is %s", id, a.State)
		}
	}
}

// begin asks for an operation.
func (f *fixture) begin(path string, in any) api.Operation {
	f.Helper()
	var a api.Operation
	head := f.do("POST", path, in, &a, 202)
	if head.Get("Location") != "/v1/operations/"+a.ID || a.State != api.Queued {
		f.Fatalf("%v %+v", head, a)
	}
	return a
}

// files downloads a zip.
func (f *fixture) files(path string) map[string]string {
	f.Helper()
	req, err := f.client.Get(f.url + path)
	if err != nil {
		f.Fatal(err)
	}
	defer req.Body.Close()
	b, err := io.ReadAll(req.Body)
	if err != nil || req.StatusCode != 200 || req.Header.Get("Content-Type") != "application/zip" || !strings.HasPrefix(req.Header.Get("Content-Disposition"), "attachment") {
		f.Fatalf("%s: %s, %v: %s", path, req.Status, req.Header, b)
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		f.Fatal(err)
	}
	out := map[string]string{}
	for _, file := range z.File {
		r, err := file.Open()
		if err != nil {
			f.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			f.Fatal(err)
		}
		out[file.Name] = string(text)
		if !file.Modified.Equal(zipTime) {
			f.Errorf("%s is of %s", file.Name, file.Modified)
		}
	}
	return out
}

func TestVerifyOperation(t *testing.T) {
	f, c := finished(t, 40)
	a := f.ended(f.begin("/v1/candidates/"+c.Best+"/verify", api.Verify{}).ID)
	var v struct {
		Candidate  string `json:"candidate"`
		Reproduced bool   `json:"reproduced"`
		SameKey    bool   `json:"same_key"`
	}
	if a.State != api.Finished || a.Kind != "verify" || a.Ended.Before(a.Started) || a.By != "socket" {
		t.Fatalf("%+v", a)
	}
	decode(t, a.Result, &v)
	if v.Candidate != c.Best || !v.Reproduced || !v.SameKey {
		t.Errorf("%+v", v)
	}
	list := fetch[[]api.Operation](f, "/v1/operations")
	if len(list) != 1 || list[0].ID != a.ID || list[0].Result != nil {
		t.Errorf("%+v", list)
	}
	// Debug of a recorded table fails, and says why.
	b := f.ended(f.begin("/v1/candidates/"+c.Best+"/verify", api.Verify{Flavour: "debug"}).ID)
	if b.State != api.Failed || !strings.Contains(b.Error, "no source") {
		t.Errorf("%+v", b)
	}
	f.do("POST", "/v1/candidates/nothing/verify", api.Verify{}, nil, 404)
	f.do("POST", "/v1/candidates/"+c.Best+"/verify", map[string]any{"contents": "any"}, nil, 422)
	f.do("GET", "/v1/operations/nothing", nil, nil, 404)
	f.do("DELETE", "/v1/operations/nothing", nil, nil, 404)
	f.do("DELETE", "/v1/operations/"+a.ID, nil, nil, 409)
	f.do("GET", "/v1/operations/"+a.ID+"/files", nil, nil, 404)
}

func TestExportRefused(t *testing.T) {
	f, c := finished(t, 40)
	a := f.ended(f.begin("/v1/exports", api.Export{Kernels: []string{c.Kernel}}).ID)
	if a.State != api.Failed || !strings.Contains(a.Error, c.Kernel) || a.Download != "" {
		t.Errorf("%+v", a)
	}
	f.do("POST", "/v1/exports", api.Export{}, nil, 422)
	f.do("POST", "/v1/exports", api.Export{Kernels: []string{"a"}, Lang: "fortran"}, nil, 422)
}

func TestJudgeRefused(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	source := "// nothing\n"
	for what, in := range map[string]api.Judge{
		"no kernel":          {Kernel: "nothing", Name: "a.c", Source: source},
		"no C":               {Kernel: "softmax", Name: "a.py", Source: source},
		"a path":             {Kernel: "softmax", Name: "../a.c", Source: source},
		"no shape":           {Kernel: "softmax", Name: "a.c", Source: source, Shapes: []string{"nothing"}},
		"against nothing":    {Kernel: "softmax", Name: "a.c", Source: source, AgainstName: "b.c"},
		"against itself":     {Kernel: "softmax", Name: "a.c", Source: source, AgainstName: "a.c", Against: source},
		"a directive":        {Kernel: "softmax", Name: "a.c", Source: "// evotune: nonsense = 1\n"},
		"a flag":             {Kernel: "softmax", Name: "a.c", Source: source, Flags: []string{"-O2", "-include/etc/shadow"}},
		"another's language": {Kernel: "softmax", Name: "a.c", Source: source, AgainstName: "b.cu", Against: source},
	} {
		var p api.Problem
		f.do("POST", "/v1/judge", in, &p, 422)
		if p.Type != api.BadRequest || strings.Contains(fmt.Sprint(p), f.service.ops.dir) {
			t.Errorf("%s: %+v", what, p)
		}
		if what == "a flag" && (len(p.Errors) != 1 || p.Errors[0].Location != "body.flags[1]" || !strings.Contains(p.Detail, in.Flags[1])) {
			t.Errorf("%s: %+v", what, p)
		}
	}
	// There is no GPU.
	f.do("POST", "/v1/judge", api.Judge{Kernel: "softmax", Name: "a.cu", Source: source}, nil, 409)
	if list, err := os.ReadDir(f.service.ops.dir); err == nil && len(list) > 0 {
		t.Errorf("left behind: %v", list)
	}
}

// TestOperationWaits: an operation has its device alone, and is first when it gets free.
func TestOperationWaits(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	q := f.service.jobs
	ctx := context.Background()
	d, err := q.claim(ctx, "op-1", evotune.CPU)
	if err != nil {
		t.Fatal(err)
	}
	list := fetch[[]api.Device](f, "/v1/devices")
	if len(list) != 1 || list[0].Backend != evotune.CPU || len(list[0].Operations) != 1 || list[0].Operations[0] != "op-1" || list[0].Fingerprint == "" {
		t.Errorf("%+v", list)
	}
	var c api.Campaign
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Kernel: "softmax", Backend: "cpu", Budget: evotune.Budget{Evaluations: 1}}}, &c, 201)
	if c.State != api.Queued {
		t.Errorf("a campaign runs beside an operation: %+v", c)
	}
	f.do("POST", "/v1/campaigns/"+c.ID+"/cancel", nil, nil, 200)
	// One that nobody waits for any more does not take the device.
	gone, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() {
		_, err := q.claim(gone, "op-2", evotune.CPU)
		done <- err
	}()
	cancel()
	if err := <-done; err == nil {
		t.Error("two have the device")
	}
	q.release(d, "op-1")
	if d, err = q.claim(ctx, "op-3", evotune.CPU); err != nil {
		t.Fatal(err)
	}
	q.release(d, "op-3")
	if _, err := q.claim(ctx, "op-4", evotune.CUDA); err == nil {
		t.Error("a GPU that there is not was given")
	}
}

// TestOperationCancelled: one that waits for its device is cancelled at once.
func TestOperationCancelled(t *testing.T) {
	f, c := finished(t, 20)
	q := f.service.jobs
	var held []*device
	for i := range replayRoom {
		d, err := q.claim(t.Context(), fmt.Sprint("op-", i), evotune.Replay)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, d)
	}
	a := f.begin("/v1/candidates/"+c.Best+"/verify", api.Verify{})
	var b api.Operation
	f.do("DELETE", "/v1/operations/"+a.ID, nil, &b, 200)
	f.do("DELETE", "/v1/operations/"+a.ID, nil, &b, 200)
	if b.State != api.Cancelled || f.ended(a.ID).State != api.Cancelled {
		t.Errorf("%+v", b)
	}
	for i, d := range held {
		q.release(d, fmt.Sprint("op-", i))
	}
}

// TestOperationsRestart: what waited is done by the next service, what ran when the last one
// was killed is not run again, and only the newest are kept.
func TestOperationsRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	best := ""
	t.Run("before", func(t *testing.T) {
		f := serve(t, path, 0)
		best = f.until(f.submit(3, 20).ID, api.Finished).Best
	})
	s, err := openState(path + ".service")
	if err != nil {
		t.Fatal(err)
	}
	err = s.change(func(tx *bbolt.Tx) error {
		for i := range maxKept + 5 {
			a := action{Turn: uint64(i), Operation: api.Operation{ID: fmt.Sprint("op-old-", i), Kind: verifying, State: api.Finished, Ended: time.Now()}, Verify: &verifyAction{Candidate: best}}
			switch i {
			case maxKept + 3:
				a.ID, a.State = "op-waited", api.Queued
			case maxKept + 4:
				a.ID, a.State = "op-ran", api.Preparing
			}
			if err := put(tx, opsBucket, a.ID, a); err != nil {
				return err
			}
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Run("after", func(t *testing.T) {
		f := serve(t, path, 0)
		if a := f.ended("op-waited"); a.State != api.Finished || len(a.Result) == 0 {
			t.Errorf("%+v", a)
		}
		if a := f.ended("op-ran"); a.State != api.Failed || !strings.Contains(a.Error, "killed") {
			t.Errorf("%+v", a)
		}
		if list := fetch[[]api.Operation](f, "/v1/operations"); len(list) != maxKept || list[0].ID != "op-ran" {
			t.Errorf("%d operations, the newest %s", len(list), list[0].ID)
		}
	})
}

// TestOperationsForgotten: with an operation goes all that was sent for it and that it made, also
// what a service that was killed has left.
func TestOperationsForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	dir := path + ".operations"
	s, err := openState(path + ".service")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	err = s.change(func(tx *bbolt.Tx) (err error) {
		for id, ended := range map[string]time.Time{"op-new": now, "op-old": now.Add(-operationMemory - time.Hour), "op-export": now} {
			a := action{Operation: api.Operation{ID: id, Kind: judging, State: api.Finished, Ended: ended}, Judge: &api.Judge{Source: "secret of " + id}}
			if id != "op-new" {
				a.Download = "/files"
			}
			err = errors.Join(err, put(tx, opsBucket, id, a), os.MkdirAll(filepath.Join(dir, id), 0o700))
		}
		return errors.Join(err, os.MkdirAll(filepath.Join(dir, "op-orphan", "sub"), 0o700))
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	f := serve(t, path, 0)
	folders := func() (names []string) {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			names = append(names, e.Name())
		}
		return names
	}
	if got := folders(); !slices.Equal(got, []string{"op-export"}) {
		t.Errorf("folders: %v", got)
	}
	f.do("GET", "/v1/operations/op-old", nil, nil, 404)
	f.do("GET", "/v1/operations/op-new", nil, nil, 200)
	f.service.ops.changing.Lock()
	err = f.service.ops.forget(now.Add(operationMemory + time.Minute))
	f.service.ops.changing.Unlock()
	if err != nil || len(folders()) > 0 {
		t.Errorf("folders: %v, %v", folders(), err)
	}
	if kept, err := all[action](f.service.state, opsBucket); err != nil || len(kept) > 0 {
		t.Errorf("%+v, %v", kept, err)
	}
}

// TestOperationGoesOn: one that a service does not get to is done by the next.
func TestOperationGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	id := ""
	t.Run("before", func(t *testing.T) {
		f := serve(t, path, 0)
		best := f.until(f.submit(3, 20).ID, api.Finished).Best
		for i := range replayRoom { // which nobody gives back
			if _, err := f.service.jobs.claim(t.Context(), fmt.Sprint("op-", i), evotune.Replay); err != nil {
				t.Fatal(err)
			}
		}
		id = f.begin("/v1/candidates/"+best+"/verify", api.Verify{}).ID
	})
	t.Run("after", func(t *testing.T) {
		if a := serve(t, path, 0).ended(id); a.State != api.Finished {
			t.Errorf("%+v", a)
		}
	})
}

func TestReportDownload(t *testing.T) {
	f, c := finished(t, 40)
	files := f.files("/v1/campaigns/" + c.ID + "/report")
	var r struct {
		Campaign string `json:"campaign"`
		State    string `json:"state"`
	}
	decode(t, []byte(files["report-"+c.ID+"/report.json"]), &r)
	if r.Campaign != c.ID || r.State != string(store.Finished) || files["report-"+c.ID+"/index.html"] == "" || files["report-"+c.ID+"/SHA256SUMS"] == "" {
		t.Errorf("%+v of %d files", r, len(files))
	}
	f.do("GET", "/v1/campaigns/nothing/report", nil, nil, 404)
}

// TestOperationPanics: a fault of evotune in an operation is its error, and the service goes on.
func TestOperationPanics(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	nothing := action{} // never accepted: there is nothing to do
	if _, _, err := f.service.ops.run(t.Context(), nothing); err == nil || !strings.Contains(err.Error(), "evotune failed at operations.go:") {
		t.Error(err)
	}
}

// TestCPULong: one campaign on the processor, and all that can be asked of it.
func TestCPULong(t *testing.T) {
	longtest.Long(t, "it compiles and measures")
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	var c api.Campaign
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Kernel: "softmax", Backend: "cpu", Finalists: new(1), Budget: evotune.Budget{Evaluations: 3}}}, &c, 201)
	c = f.until(c.ID, api.Finished)
	a := f.begin("/v1/candidates/"+c.Best+"/verify", api.Verify{})
	b := f.begin("/v1/exports", api.Export{Kernels: []string{"softmax"}, MinEvidence: "parity"})
	src := fetch[api.Source](f, "/v1/candidates/"+c.Best+"/source")
	j := f.begin("/v1/judge", api.Judge{Kernel: "softmax", Name: "winner.c", Source: src.Source})
	if a := f.ended(a.ID); a.State != api.Finished {
		t.Errorf("verify: %+v", a)
	}
	if b = f.ended(b.ID); b.State != api.Finished {
		t.Fatalf("export: %+v", b)
	}
	var x api.Exported
	decode(t, b.Result, &x)
	if files := f.files(b.Download); len(files) != len(x.Files) || files["library/manifest.json"] == "" {
		t.Errorf("%d files of %v", len(files), x.Files)
	}
	var judged struct {
		File    string `json:"file"`
		Verdict string `json:"verdict"`
	}
	j = f.ended(j.ID)
	if j.State != api.Finished {
		t.Fatalf("judge: %+v", j)
	}
	decode(t, j.Result, &judged)
	if judged.File != "winner.c" || judged.Verdict != "correct" || strings.Contains(string(j.Result), f.service.ops.dir) {
		t.Errorf("judge: %s", j.Result)
	}
	if sum := fetch[api.Summary](f, "/v1/campaigns/"+c.ID+"/summary"); sum.Evaluated != 3 || sum.DeviceNS != sum.ElapsedNS {
		t.Errorf("%+v", sum)
	}
}
