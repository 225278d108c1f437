package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spf13/viper"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/store"
)

// served serves a store as a service, to this test without a token.
func served(t *testing.T, path string) (address string) {
	t.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	service, err := server.New(server.Options{Store: s, Machine: new(evotune.Machine)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service.Listen(l, true)
	t.Cleanup(func() {
		if err := service.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func table(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "synthetic.json")
	if err := os.WriteFile(path, tables.SyntheticFile(1000), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A said is all that a command tells.
type said struct {
	Status      int
	Out, Err    string
	Folder      map[string]string
	folder, was string
}

// say runs a command. The argument DIR becomes a new folder, whose files are read.
func say(t *testing.T, args ...string) (s said) {
	t.Helper()
	args = slices.Clone(args)
	for i, a := range args {
		if a == "DIR" {
			s.folder = filepath.Join(t.TempDir(), "out")
			args[i], s.was = s.folder, a
		}
	}
	var out, err bytes.Buffer
	s.Status = run(t.Context(), args, nil, &out, &err)
	s.Out, s.Err = out.String(), err.String()
	if s.folder == "" {
		return s
	}
	s.Out = strings.ReplaceAll(s.Out, s.folder, s.was)
	s.Folder = map[string]string{}
	walkErr := filepath.WalkDir(s.folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(s.folder, path)
		s.Folder[name] = string(b)
		return err
	})
	if walkErr != nil && s.Status == 0 {
		t.Error(walkErr)
	}
	s.folder = ""
	return s
}

// TestSameAnswers: with --server every query prints what it prints on the store itself; errors
// name the service, and commands that ask it.
func TestSameAnswers(t *testing.T) {
	path := manyCandidates(t, 4, 30)
	addProven(t, path, "softmax", 7, 0.5)
	recorded := table(t)
	tune(t, 0, "run", recorded, "--backend", "replay", "--evaluations", "150", "--store", path)
	s, err := store.Open(path, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	campaigns, err := s.Campaigns()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	last := campaigns[len(campaigns)-1]
	winner := last.Finals.Winner
	proven := "0000000000000007"
	var asked [][]string
	for _, q := range [][]string{
		{"list"},
		{"show", last.ID},
		{"show", winner},
		{"show", proven},
		{"show", "nothing"},
		{"best", "attention"},
		{"best", "softmax", "--top", "3"},
		{"best", "attention", "--device", "h200", "--shape", "B=2,H=8,S=700,D=64"},
		{"best", "nothing"},
		{"best", "attention", "--dtype", "no"},
		{"best", "softmax", "--shape", ""},
		{"query", "true"},
		{"query", "speedup > 1", "--sort", "-speedup"},
		{"query", "no such", "--count"},
		{"query", "nogene > 1"},
		{"query", "true", "--count"},
		{"lineage", winner},
		{"lineage", "nothing"},
		{"importance", last.ID, "--pairs", "3"},
		{"importance", last.ID, "--best", "0.5"},
		{"importance", "nothing"},
		{"export", "softmax", "--out", "DIR"},
		{"export", "attention", "--out", "DIR"},
		{"report", "nothing", "--out", "DIR"},
	} {
		asked = append(asked, q, append(slices.Clone(q), "--json"))
	}
	asked = append(
		asked, []string{"show", proven, "--source"}, []string{"show", winner, "--source"}, []string{"best", "attention", "--format", "toml"},
		[]string{"best", "attention", "--format", "csv"}, []string{"query", "true", "--format", "csv"}, []string{"lineage", winner, "--format", "dot"},
		[]string{"lineage", winner, "--format", "svg"}, []string{"importance", last.ID, "--format", "markdown"},
		[]string{"importance", recorded}, []string{"report", last.ID, "--out", "DIR"}, []string{"report", last.ID, "--out", "DIR", "--json"},
	)
	want := make([]said, len(asked))
	for i, q := range asked {
		want[i] = say(t, append(slices.Clone(q), "--store", path)...)
	}
	if want[0].Status != 0 || want[0].Out == "" || len(want[len(want)-1].Folder) < 5 {
		t.Fatalf("nothing to compare: %+v", want[0])
	}
	address := served(t, path)
	// What a report and its sums say of the moment in which it was made.
	moment := regexp.MustCompile(`(?m)\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?[^" <,\n]*|^[0-9a-f]{64}  .*$`)
	for i, q := range asked {
		got := say(t, append(slices.Clone(q), "--server", address)...)
		e := strings.ReplaceAll(want[i].Err, " is in "+path, " is in "+address)
		e = regexp.MustCompile("(`tune (run|list)[^`]*)`").ReplaceAllString(e, "${1} --server "+address+"`")
		if text, none := strings.CutSuffix(e, ": not found\n"); none {
			e = text + ": not found: see `tune list --server " + address + "`\n"
		}
		want[i].Err = e
		if q[0] == "report" {
			for _, f := range []map[string]string{want[i].Folder, got.Folder} {
				for file, text := range f {
					f[file] = moment.ReplaceAllString(text, "-")
				}
			}
		}
		if diff := cmp.Diff(want[i], got, cmp.AllowUnexported(said{})); diff != "" {
			t.Errorf("tune %s (-store +server):\n%.3000s", strings.Join(q, " "), diff)
		}
	}
}

// TestSameRun: a campaign is printed as it was where it ran, as text and as JSON.
func TestSameRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	var here, there [2]bytes.Buffer
	printers := func(to *[2]bytes.Buffer) []printer {
		return []printer{&textPrinter{w: &to[0]}, jsonPrinter{&to[1], &to[1]}}
	}
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	local := printers(&here)
	done, err := new(evotune.Machine).Run(t.Context(), s, evotune.Job{Backend: evotune.Replay, Table: table(t), Seed: new(int64(1)), Budget: evotune.Budget{Evaluations: 60}}, evotune.Options{
		Workers: 1,
		Listen: func(e evotune.Event) {
			for _, p := range local {
				p.event(e)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	c, err := api.NewClient(served(t, path), "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.OnRetry = func(err error, _ time.Duration) { t.Errorf("asked again: %v", err) }
	remote := printers(&there)
	for m, err := range c.Follow(t.Context(), done.Campaign) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Event == nil {
			continue
		}
		if m.Event.Started != nil {
			m.Event.Started.Workers = 1 // nobody runs it now
		}
		for _, p := range remote {
			p.event(*m.Event)
		}
	}
	// Times of the moment, and the pace of a process.
	moment := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d|in \d[^ ,:]*s( \(\d+ a minute\))?|"(per_minute|prepared_ns|searched_ns|finals_ns)":[^,}]*`)
	for i := range here {
		want, got := moment.ReplaceAllString(here[i].String(), "-"), moment.ReplaceAllString(there[i].String(), "-")
		if len(want) < 1000 || want != got {
			t.Errorf("(-here +there):\n%s", cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
		}
	}
}

// TestRunThere submits, detaches, comes back, pauses, resumes with a larger budget, cancels.
func TestRunThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	address := served(t, path)
	recorded := table(t)
	at := func(args ...string) []string { return append(args, "--server", address) }
	out := say(t, at("run", recorded, "--backend", "replay", "--evaluations", "20", "--seed", "0")...)
	if out.Status != 0 || !strings.Contains(out.Out, ", seed 0, ") || len(regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d +\d+ `).FindAllString(out.Out, -1)) != 20 || !strings.Contains(out.Out, "next:\n  tune show ") || !strings.Contains(out.Out, " --server "+address) {
		t.Errorf("%+v", out)
	}
	out = say(t, at("run", recorded, "--backend", "replay", "--evaluations", "20", "--json")...)
	lines := strings.Split(strings.TrimSpace(out.Out), "\n")
	if out.Status != 0 || len(lines) != 24 || !strings.HasPrefix(lines[0], `{"event":"started"`) || !strings.HasPrefix(lines[23], `{"event":"finished"`) || out.Err != "" {
		t.Errorf("%d lines; %+v", len(lines), out)
	}
	out = say(t, at("run", recorded, "--backend", "replay", "--evaluations", "20", "--json", "--detach", "--priority", "3")...)
	var sent struct{ Event, Campaign string }
	if err := json.Unmarshal([]byte(out.Out), &sent); err != nil || sent.Event != "submitted" || sent.Campaign == "" {
		t.Fatalf("%+v: %v", out, err)
	}
	out = say(t, at("attach", sent.Campaign[:len(sent.Campaign)-2])...)
	if out.Status != 0 || !strings.Contains(out.Out, "finals: 4 finalists") || !strings.Contains(out.Out, "best so far") {
		t.Errorf("%+v", out)
	}
	out = say(t, at("resume", sent.Campaign)...)
	if out.Status != 0 || !strings.Contains(out.Out, "is finished; give it a larger budget to go on, such as --evaluations 40") {
		t.Errorf("%+v", out)
	}
	out = say(t, at("resume", sent.Campaign, "--evaluations", "40", "--json")...)
	if out.Status != 0 || !strings.Contains(out.Out, `"event":"finished","campaign":"`+sent.Campaign+`","evaluated":40,`) || strings.Count(out.Out, `"event":"finished"`) != 1 {
		t.Errorf("%+v", out)
	}
	for name, want := range map[string]string{
		"pause": "campaign " + sent.Campaign + " is finished", "cancel": "campaign " + sent.Campaign + " is finished",
	} {
		if out := say(t, at(name, sent.Campaign)...); out.Status != exitBadInput || !strings.Contains(out.Err, want) || strings.Count(out.Err, "\n") != 1 {
			t.Errorf("%s: %+v", name, out)
		}
	}
	for flag, want := range map[string]string{
		"--priority=1000": "tune: --priority 1000: give -100 to 100\n", "--evaluations=-2": "tune: --evaluations -2: it must not be negative\n",
		"--time=-2s": "tune: --time -2s: it must not be negative\n",
	} {
		if out := say(t, at("run", "softmax", flag)...); out.Status != exitBadInput || out.Err != want {
			t.Errorf("%s: %+v, want %q", flag, out, want)
		}
	}
	p := &api.Problem{Detail: "validation failed", Errors: []api.Detail{{Location: "body.budget.time_ns", Message: "expected number >= 0"}}}
	if got, want := details(p), "--time: expected number >= 0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// One that has not begun is in no log, and yet not lost.
	out = say(t, at("run", "softmax", "--backend", "cpu", "--evaluations", "2", "--json", "--detach")...)
	if err := json.Unmarshal([]byte(out.Out), &sent); err != nil {
		t.Fatalf("%+v: %v", out, err)
	}
	for _, args := range [][]string{{"list"}, {"show", sent.Campaign}} {
		if out := say(t, at(args...)...); out.Status != 0 || strings.Count(out.Out, sent.Campaign) != 1 {
			t.Errorf("%s: %+v, want campaign %s", args, out, sent.Campaign)
		}
	}
	if out := say(t, at("cancel", sent.Campaign)...); out.Status != 0 {
		t.Errorf("%+v", out)
	}
}

// TestServerFlags: what contradicts itself is refused in one line, before anything is asked.
func TestServerFlags(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := errors.Join(os.WriteFile("empty", nil, 0o600), os.Mkdir("broken", 0o755), os.WriteFile("broken/kernel.toml", []byte("x = = 2\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	const nowhere = "http://127.0.0.1:1"
	for _, c := range []struct {
		args, env, want string
		status          int
	}{
		{"list --server " + nowhere + " --store s.db", "", "--store and --server", exitBadInput},
		{"sweep softmax --server " + nowhere, "", "does not ask a service", exitBadInput},
		{"version --server " + nowhere, "", "does not ask a service", exitBadInput},
		{"sweep softmax", nowhere, "`tune sweep` cannot ask a service, and a server is set", exitBadInput},
		{"backup s.db", nowhere, "the service does not answer", exitFailure},
		{"archive x", nowhere, "`tune archive` cannot ask a service", exitBadInput},
		{"token list", nowhere, "`tune token list` cannot ask a service", exitBadInput},
		{"run mine --server " + nowhere + " --kernels broken", "", "kernel.toml:1:5: this is not a value", exitBadInput},
		{"list --server ftp://host", "", "is not known: give http://HOST:PORT", exitBadInput},
		{"list --server " + nowhere + " --token-file none", "", "--token-file: open none", exitBadInput},
		{"list --server " + nowhere + " --token-file empty", "", "must have one line, the token", exitBadInput},
		{"list --server " + nowhere, "", "does not answer", exitFailure},
		{"run softmax --server " + nowhere + " --compiler gcc", "", "--compiler is for the machine that evaluates", exitBadInput},
		{"run softmax --server " + nowhere + " --workers 2", "", "--workers is for the machine that evaluates", exitBadInput},
		{"run softmax --detach", "", "--detach is for campaigns in a service", exitBadInput},
		{"attach x", "", "no service holds evotune.db", exitBadInput},
		{"pause x", "", "no service holds evotune.db", exitBadInput},
		{"judge x.c --kernel softmax --server " + nowhere + " --timeout 3s", "", "--timeout is for the machine that evaluates", exitBadInput},
	} {
		t.Setenv("EVOTUNE_SERVER", c.env)
		out := say(t, strings.Fields(c.args)...)
		if out.Status != c.status || !strings.Contains(out.Err, c.want) || strings.Count(out.Err, "\n") != 1 || out.Out != "" {
			t.Errorf("tune %s: %+v, want %q", c.args, out, c.want)
		}
	}
	t.Setenv("EVOTUNE_SERVER", nowhere)
	if out := say(t, "version"); out.Status != 0 {
		t.Errorf("%+v", out)
	}
	t.Setenv(tokenName, "evt_a\nb")
	if out := say(t, "list"); out.Status != exitBadInput || !strings.Contains(out.Err, "the token in EVOTUNE_TOKEN has characters that no token has") {
		t.Errorf("%+v", out)
	}
}

// TestHeldByService: a service that holds a store copies and archives it when it is asked to.
func TestHeldByService(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := store.Open("s.db", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	service, err := server.New(server.Options{Store: s, Machine: new(evotune.Machine)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := server.ListenSocket(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	service.Listen(l, true)
	defer func() {
		if err := service.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	type row struct {
		args, out, err string
		status         int
	}
	ask := func(c row) {
		out := say(t, append(strings.Fields(c.args), "--store", "s.db")...)
		if out.Status != c.status || !strings.Contains(out.Out, c.out) || !strings.Contains(out.Err, c.err) || strings.Count(out.Err, "\n") > 1 {
			t.Errorf("tune %s: %+v, want %+v", c.args, out, c)
		}
	}
	ask(row{"backup copy.db", "copy.db: 0 campaigns", "", exitOK})
	ask(row{"backup copy.db", "", "exists", exitFailure})
	ask(row{"backup copy.db --replace --json", `"format": `, "", exitOK})
	var rows sync.WaitGroup // each waits half a second for the store
	for _, c := range []row{
		{"archive --older-than 1h", "no finished campaign is that old", "", exitOK},
		{"archive nothing", "", `"nothing": not found`, exitBadInput},
		{"archive --older-than 1h --dry-run", "no finished campaign is that old", "", exitOK},
		{"archive nothing --dry-run", "", `"nothing": not found`, exitBadInput},
		{"check", "", "`tune serve` holds it: stop it first, or run `tune backup FILE --store s.db`, which checks", exitFailure},
		{"check --repair", "", "`tune serve` holds it: stop it first", exitFailure},
		{"merge s.db --into new.db", "", "copy it with `tune backup FILE --store s.db`, and merge the copy", exitFailure},
		{"merge copy.db --into s.db", "", "stop it first, or merge into another file", exitFailure},
		{"sweep softmax", "", "`tune serve` holds it: stop it first, or name another store", exitFailure},
		{"serve", "", "`tune serve` holds it: stop it first, or name another store", exitFailure},
	} {
		rows.Go(func() { ask(c) })
	}
	rows.Wait()
	if _, err := os.Stat("copy.db"); err != nil {
		t.Error(err)
	}
}

// TestTokenStays: no process that this one starts has the token, and no message tells it.
func TestTokenStays(t *testing.T) {
	t.Setenv(tokenName, "evt-secret")
	out := say(t, "list", "--server", "http://127.0.0.1:1")
	if out.Status != exitFailure || strings.Contains(out.Err+out.Out, "secret") {
		t.Errorf("%+v", out)
	}
	if _, is := os.LookupEnv(tokenName); is {
		t.Error("what is started from here gets the token")
	}
}

// TestLiveThere: the live display shows what the service's workers do.
func TestLiveThere(t *testing.T) {
	var b bytes.Buffer
	u := evaluator.Usage{Measuring: 0.25}
	p := newLivePrinter(&b, 1, func() (evaluator.Usage, bool) { return u, true })
	f := following{app: &app{}, out: p, begun: &evotune.Started{}}
	p.event(evotune.Event{Time: time.Now(), Started: &evotune.Started{Workers: 1}})
	f.status(&api.Status{State: api.Searching, Progress: &api.Progress{Workers: []api.Worker{{Candidate: "abc", Stage: evaluator.StageParity}}}})
	if p.workers[0] != "parity     abc" {
		t.Errorf("worker: %q", p.workers[0])
	}
	p.event(evotune.Event{Time: time.Now(), Started: &evotune.Started{Resumed: 3}}) // after a restart
	p.close()
	if !strings.Contains(b.String(), "resumed after 3 evaluations") {
		t.Errorf("%s", b.String())
	}
}

// TestFailedThere: a campaign that has failed is not said to go on by itself.
func TestFailedThere(t *testing.T) {
	f := following{app: parsed(t, "attach", "x-1"), id: "x-1", state: api.Failed, reason: "the kernel is gone"}
	if err := f.ended(t.Context()); err == nil || err.Error() != "campaign x-1 has failed: the kernel is gone: once that is put right, `tune resume x-1` goes on" {
		t.Errorf("%v", err)
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"id": "x-1", "state": "failed", "kernel": "mine", "uploaded": true}`)) //nolint:errcheck // the client says so
	}))
	defer service.Close()
	c, err := api.NewClient(service.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	f.Server = service.URL
	f.client = c
	if err := f.ended(t.Context()); err == nil || !strings.Contains(err.Error(), "submit it again with `tune run mine --server "+service.URL+"`, since a campaign keeps what was uploaded") {
		t.Errorf("%v", err)
	}
}

// TestWarningThere: a warning is told among what has happened before somebody came, and does not
// end the summary of that.
func TestWarningThere(t *testing.T) {
	var b bytes.Buffer
	f := following{app: &app{v: viper.New()}, out: &textPrinter{w: &b}, begun: &evotune.Started{}, past: 9}
	told := func(n int) *evotune.Evaluated {
		return &evotune.Evaluated{Index: n, Result: evaluator.Result{Verdict: evaluator.Correct, Fitness: 1 / float64(n)}, Record: true}
	}
	f.moment(api.Moment{ID: 1, Event: &evotune.Event{Started: &evotune.Started{}}})
	f.moment(api.Moment{ID: 3, Event: &evotune.Event{Evaluated: told(3)}})
	f.moment(api.Moment{Event: &evotune.Event{Warning: "it was killed"}})
	f.moment(api.Moment{ID: 5, Event: &evotune.Event{Evaluated: told(5)}})
	f.moment(api.Moment{ID: 12, Event: &evotune.Event{Evaluated: told(7)}})
	f.moment(api.Moment{Event: &evotune.Event{Warning: "and again"}})
	if text := b.String(); strings.Count(text, "warning: ") != 2 || strings.Count(text, "correct") != 2 {
		t.Errorf("%s", text)
	}
}
