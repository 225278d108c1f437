package main

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/store"
)

// A sweep is what the command line asks for.
type sweep struct {
	sample int
	resume string
	out    string
	forms  []string
}

func (a *app) sweepCommand() *cobra.Command {
	var s sweep
	names := tables.FormNames()
	cmd := &cobra.Command{
		Use:   "sweep KERNEL",
		Short: "Measure a whole space, or a sample, and write it as tables",
		Long: `Measure a whole space, or a uniform sample of it without repeats, and write the
results as tables for ` + "`tune run FILE --backend replay`" + ` and for other programs.

A sweep is a campaign: every candidate goes through the whole ordeal, slow ones are
measured as fully as fast ones, and the store keeps everything. "tune sweep --resume
CAMPAIGN" continues an interrupted sweep, and also writes the tables of a finished one.

With one format, --out is the file; with several, the names are made from it.
The formats: ` + strings.Join(names, ", ") + `. See docs/tables.md#measuring-a-whole-space.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate, exitInterrupted),
		Example: `  tune sweep rmsnorm --sample 100 --format t4 --format kerneltuner --out rmsnorm
  tune sweep softmax --out softmax.json
  tune sweep --resume softmax-sweep-1f2e3d4c --format t4`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (s.resume != "") {
				return badInputf("give a kernel, or --resume with the name of a sweep: see `tune sweep --help`")
			}
			if s.sample < 0 {
				return badInputf("--sample is %d, it must not be negative", s.sample)
			}
			for _, f := range s.forms {
				if !slices.Contains(names, f) {
					return badInputf("no format is called %q: there are %s", f, strings.Join(names, ", "))
				}
			}
			if s.resume != "" {
				return a.resumeSweep(cmd.Context(), s)
			}
			return a.newSweep(cmd.Context(), args[0], s)
		},
	}
	cmd.Flags().IntVar(&s.sample, "sample", 0, "measure `N` genomes, drawn uniformly (0: all of the space)")
	cmd.Flags().StringVar(&s.resume, "resume", "", "continue the sweep `CAMPAIGN`, or write its tables again")
	cmd.Flags().StringVar(&s.out, "out", "", "write to `FILE` (default: the name of the campaign)")
	cmd.Flags().StringArrayVar(&s.forms, "format", []string{"compact"}, "write in the format `NAME` (repeatable)")
	addOptions(cmd.Flags(), option.Named(runOptions, "backend", "seed", "shape", "implementation"), workersOption)
	addOptions(cmd.Flags(), backendOptions)
	return cmd
}

func (a *app) newSweep(ctx context.Context, kernel string, s sweep) error {
	run := a.submission(kernel)
	t, err := a.machine().Target(evotune.Job{
		Kernel: run.Kernel, Table: run.Table, Backend: run.Backend, Shapes: run.Shapes, Implementations: run.Implementations,
		Seed: run.Seed, Sweep: true, Budget: evotune.Budget{Evaluations: s.sample},
	})
	if err != nil {
		return err
	}
	db, err := store.Open(a.Store, store.Options{})
	if err != nil {
		return a.heldError(ctx, a.Store, err, "stop it first, or name another store with --store")
	}
	defer db.Close() //nolint:errcheck // every append was checked
	return a.sweepAndWrite(ctx, db, t, s)
}

func (a *app) resumeSweep(ctx context.Context, s sweep) error {
	db, err := store.Open(a.Store, store.Options{MustExist: true})
	if err != nil {
		return a.heldError(ctx, a.Store, err, "stop it first")
	}
	defer db.Close() //nolint:errcheck // every append was checked
	t, done, err := a.machine().ContinueSweep(db, s.resume, s.sample)
	switch {
	case err != nil:
		return badInput(err)
	case done:
		return a.writeSweep(db, t, s)
	}
	return a.sweepAndWrite(ctx, db, t, s)
}

// sweepAndWrite runs the campaign and writes the tables. They are written even
// if no candidate is valid: that is a result.
func (a *app) sweepAndWrite(ctx context.Context, db *store.Store, t *evotune.Target, s sweep) error {
	err := a.campaign(ctx, db, t)
	var exit *exitError
	if err != nil && (!errors.As(err, &exit) || exit.code != exitNoCandidate) {
		if exit != nil && exit.code == exitInterrupted && exit.err == nil && !a.JSON {
			fmt.Fprintf(a.out, "or, to have the tables written as well: tune sweep --resume %s\n", t.Job.ID)
		}
		return err
	}
	if werr := a.writeSweep(db, t, s); werr != nil {
		return werr
	}
	return err
}

// A writtenFile is one table that was written.
type writtenFile struct {
	Form string `json:"form"`
	Path string `json:"path"`
}

// A writtenEvent is the last line of a sweep with --json.
type writtenEvent struct {
	Event    string        `json:"event"`
	Campaign string        `json:"campaign"`
	Files    []writtenFile `json:"files"`
	// Recorded counts the configurations of the tables, Failed those of them
	// without a time, LeftOut the results where the machine failed, not the
	// candidate.
	Recorded int `json:"recorded"`
	Failed   int `json:"failed"`
	LeftOut  int `json:"left_out"`
	// Unsaid lists constraints that the tables cannot hold.
	Unsaid []string `json:"unsaid,omitempty"`
}

// writeSweep writes what the store has of a sweep.
func (a *app) writeSweep(db *store.Store, t *evotune.Target, s sweep) error {
	rec, unsaid, err := t.Recording(db, build.This().Version)
	if err != nil {
		return storeError(err)
	}
	table, err := rec.Table()
	if err != nil {
		return err
	}
	done := writtenEvent{
		Event: "written", Campaign: t.Job.ID, Unsaid: unsaid,
		Recorded: table.Len(), Failed: table.Failed(), LeftOut: len(rec.Trials) - table.Len(),
	}
	for _, f := range outputs(s, t.Job.ID) {
		if err := writeWhole(f.Path, func(w io.Writer) error { return rec.Write(f.Form, w) }); err != nil {
			return err
		}
		done.Files = append(done.Files, f)
	}
	if a.JSON {
		line, err := json.Marshal(done)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%s\n", line)
		return nil
	}
	fmt.Fprintf(a.out, "%d configurations measured, %d of them failed\n", done.Recorded, done.Failed)
	if done.LeftOut > 0 {
		fmt.Fprintf(a.out, "%d results are left out: the machine failed there, not the candidate\n", done.LeftOut)
	}
	for _, c := range unsaid {
		fmt.Fprintf(a.out, "not in the tables: %s\n", c)
	}
	for _, f := range done.Files {
		fmt.Fprintf(a.out, "wrote %s (%s)\n", f.Path, f.Form)
	}
	return nil
}

// outputs names the files. T4 does not describe the space, so T1 goes with it.
func outputs(s sweep, id string) []writtenFile {
	wanted := slices.Clone(s.forms)
	if slices.Contains(wanted, "t4") && !slices.Contains(wanted, "t1") {
		wanted = append(wanted, "t1")
	}
	base := s.out
	if base == "" {
		base = id
	}
	var out []writtenFile
	for _, f := range tables.Forms() {
		if !slices.Contains(wanted, f.Name) {
			continue
		}
		path := strings.TrimSuffix(base, ".json") + f.File
		if len(s.forms) == 1 && f.Name == s.forms[0] && s.out != "" {
			path = s.out
		}
		out = append(out, writtenFile{f.Name, path})
	}
	return out
}

// writeWhole writes a temporary file and renames it, so that an existing file is
// replaced whole or not at all. A file whose name ends in .gz is gzipped.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	var replaced *os.FileMode
	switch info, err := os.Stat(path); {
	case err != nil: // it is new, or cannot be written either
	case !info.Mode().IsRegular(): // such as /dev/null, which must not be replaced
		return badInputf("%s is not a regular file: name another", path)
	default:
		// A link stays a link.
		mode := info.Mode().Perm()
		replaced = &mode
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	// What is new has the mode that the user's umask leaves.
	tmp, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".tune-"+rand.Text()[:10]), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		return fmt.Errorf("%s cannot be written: %w", path, pe.Err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if pe := (*os.PathError)(nil); errors.As(err, &pe) && pe.Path == tmp.Name() {
			err = fmt.Errorf("%s cannot be written: %w", path, pe.Err)
		}
		if err != nil {
			os.Remove(tmp.Name()) //nolint:errcheck // the first error is the one to tell
		}
	}()
	if strings.HasSuffix(path, ".gz") {
		z := gzip.NewWriter(tmp)
		if err = write(z); err == nil {
			err = z.Close()
		}
	} else {
		err = write(tmp)
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if replaced != nil {
		if err = os.Chmod(tmp.Name(), *replaced); err != nil {
			return err
		}
	}
	return os.Rename(tmp.Name(), path)
}
