package evotune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// A Fleet gives the candidates of campaigns to workers on other machines. `tune serve --fleet`
// has one.
type Fleet = fleet.Hub

// A FleetDevice is a device that workers of a fleet have.
type FleetDevice = fleet.Kind

// A FleetHost is what the coordinator of a fleet knows about a worker.
type FleetHost = fleet.Status

// A FleetAccess is what a worker needs to connect to its coordinator.
type FleetAccess = fleet.Access

// definitionsAt and tableAt are the paths of a job's files in its place on a worker.
const (
	definitionsAt = "definitions"
	tableAt       = "table"
)

// openOn opens the target on the workers of a fleet. Workers forget a candidate once it
// is announced as durable.
func (t *Target) openOn(ctx context.Context, s *store.Store, past []store.Event, cfg Job, o *Options) (p Problem, err error) {
	if p.Space, err = t.Space(); err != nil {
		return p, err
	}
	order := fleet.Order{Campaign: cfg.ID, Backend: t.Job.Backend, Priority: o.Priority, Most: o.FleetWorkers}
	if order.Place, order.Paths, err = t.place(cfg); err != nil {
		return p, err
	}
	if t.machine.Elsewhere != nil {
		order.Device = t.machine.Elsewhere.Device.Fingerprint
	}
	for _, e := range past {
		switch {
		case e.Attempt != nil:
			order.Past = append(order.Past, e.Attempt)
		case e.Started != nil:
			d, err := record.ReadDescription(e.Campaign, e.Started)
			if err != nil {
				return p, err
			}
			if order.Description = &d; t.Job.Backend != Replay {
				order.Device = d.Device.Fingerprint
			}
		}
	}
	if s != nil {
		order.Note = func(a *store.Attempt) error {
			_, err := s.Append(store.Event{Campaign: cfg.ID, Time: time.Now().UTC(), Kind: store.KindAttempt, Attempt: a})
			return err
		}
	}
	c, err := o.Fleet.Open(ctx, order)
	if err != nil {
		return p, err
	}
	listen := o.Listen
	o.Listen = func(e Event) {
		if e.Evaluated != nil {
			c.Recorded(e.Evaluated.Candidate)
		}
		if listen != nil {
			listen(e)
		}
	}
	p.Evaluator = c
	return p, nil
}

// place is what a worker opens the target from, and the paths of its files here.
func (t *Target) place(cfg Job) (p fleet.Place, paths map[string]string, err error) {
	paths = map[string]string{}
	add := func(file, as string) error {
		f, err := fleet.Hash(file)
		if err != nil {
			return err
		}
		f.Path = as
		p.Files = append(p.Files, f)
		paths[f.SHA256] = file
		return nil
	}
	p.Campaign = cfg.ID
	for i, dir := range cfg.Definitions {
		err := eachFile(dir, path.Join(definitionsAt, fmt.Sprint(i)), deepest, add)
		if err != nil {
			return p, nil, badInput(fmt.Errorf("the definitions in %s cannot be sent to workers: %w", dir, err))
		}
	}
	if cfg.Table != "" {
		if err := add(cfg.Table, path.Join(tableAt, filepath.Base(cfg.Table))); err != nil {
			return p, nil, badInput(err)
		}
	}
	job := cfg
	job.Definitions, job.Table, job.Start, job.Budget = nil, "", nil, Budget{Evaluations: 1}
	p.Job, err = json.Marshal(job)
	return p, paths, err
}

// deepest is how many folders deep a file of a definition may be. Links that form a cycle end there.
const deepest = 16

// eachFile finds the regular files below a folder, also through links, as loading a kernel does.
func eachFile(dir, as string, deep int, add func(file, as string) error) error {
	if deep == 0 {
		return fmt.Errorf("%s is in more than %d folders: does a link lead to a folder above it", dir, deepest)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, as := filepath.Join(dir, e.Name()), path.Join(as, e.Name())
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a link to nothing
		case err != nil:
			return err
		case info.IsDir():
			if err := eachFile(name, as, deep-1, add); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			if err := add(name, as); err != nil {
				return err
			}
		}
	}
	return nil
}

// A FleetPlace is a campaign whose candidates a worker evaluates.
type FleetPlace struct {
	space     *genome.Space
	evaluator evaluator.Evaluator
	dir       string
}

// OpenPlace opens the evaluator of a campaign that a worker of a fleet is placed on. It creates
// dir and fetches the campaign's files into it; Close removes dir.
func (m *Machine) OpenPlace(ctx context.Context, p fleet.Place, dir string, fetch func(ctx context.Context, f fleet.File, to io.Writer) error) (_ *FleetPlace, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	var job Job
	if err := json.Unmarshal(p.Job, &job); err != nil {
		return nil, fmt.Errorf("the coordinator's job cannot be read: %w", err)
	}
	folders := map[string]bool{}
	for _, f := range p.Files {
		if !fs.ValidPath(f.Path) {
			return nil, fmt.Errorf("the coordinator names a file %q", f.Path)
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := fetchFile(ctx, f, to, fetch); err != nil {
			return nil, err
		}
		if first, rest := split(f.Path); first == definitionsAt {
			second, _ := split(rest)
			if folder := filepath.Join(dir, definitionsAt, second); !folders[folder] {
				folders[folder] = true
				job.Definitions = append(job.Definitions, folder)
			}
		} else {
			job.Table = to
		}
	}
	t, err := m.Target(job)
	if err != nil {
		return nil, err
	}
	t.search = true
	problem, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	ev := problem.Evaluator
	if t.Job.Sweep {
		ev = thorough{ev}
	}
	return &FleetPlace{problem.Space, ev, dir}, nil
}

// split splits off the first part of a slash-separated path.
func split(p string) (first, rest string) {
	for i := range len(p) {
		if p[i] == '/' {
			return p[:i], p[i+1:]
		}
	}
	return p, ""
}

// fetchFile fetches a file, unless it is there.
func fetchFile(ctx context.Context, f fleet.File, to string, fetch func(ctx context.Context, f fleet.File, to io.Writer) error) error {
	if have, err := fleet.Hash(to); err == nil && have.SHA256 == f.SHA256 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(to), ".fetch-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) //nolint:errcheck // it has another name by then
	err = fetch(ctx, f, out)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

// Describe implements fleet.Runner.
func (p *FleetPlace) Describe() evaluator.Description { return p.evaluator.Describe() }

// Evaluate implements fleet.Runner.
func (p *FleetPlace) Evaluate(ctx context.Context, encoding string, incumbent float64) (evaluator.Result, error) {
	g, err := p.space.Parse(encoding)
	if err != nil {
		return evaluator.Result{}, fmt.Errorf("the coordinator's genome is none of this space: %w", err)
	}
	return p.evaluator.Evaluate(ctx, g, incumbent)
}

// Time implements fleet.Runner.
func (p *FleetPlace) Time(ctx context.Context, encoding string) (evaluator.Result, error) {
	g, err := p.space.Parse(encoding)
	if err != nil {
		return evaluator.Result{}, fmt.Errorf("the coordinator's genome is none of this space: %w", err)
	}
	return evaluator.TimeOf(ctx, p.evaluator, g)
}

// Finals implements fleet.Runner. The entries have no genomes.
func (p *FleetPlace) Finals(ctx context.Context, encodings []string) (evaluator.Finals, error) {
	genomes := make([]genome.Genome, len(encodings))
	for i, e := range encodings {
		g, err := p.space.Parse(e)
		if err != nil {
			return evaluator.Finals{}, fmt.Errorf("the coordinator's genome is none of this space: %w", err)
		}
		genomes[i] = g
	}
	f, err := p.evaluator.Finals(ctx, genomes)
	for i := range f.Entries {
		f.Entries[i].Genome = genome.Genome{}
	}
	return f, err
}

// Trouble says what disturbs measurements on a GPU: lowered clocks, other processes. It does not
// look at a processor, where the candidates themselves may be the disturbance, nor report that they
// left no time to look at a GPU.
func (p *FleetPlace) Trouble(ctx context.Context) string {
	if !backend.Of(p.evaluator.Describe().Device.Kind).Accelerator {
		return ""
	}
	c, _ := evaluator.ConditionsOf(ctx, p.evaluator)
	if c.Unknown {
		return ""
	}
	return c.Disturbed
}

// Close implements fleet.Runner.
func (p *FleetPlace) Close() error { return errors.Join(p.evaluator.Close(), os.RemoveAll(p.dir)) }
