package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/library"
	"github.com/evotune/evotune/report"
	"github.com/evotune/evotune/server"
	"github.com/evotune/evotune/store"
)

// An exportation is what the command line asks for.
type exportation struct {
	kernels, devices, shapes []string
	lang, min, nvcc          string
	embed                    bool
}

func (a *app) exportCommand() *cobra.Command {
	var x exportation
	var out string
	var force bool
	levels := make([]string, len(library.Levels()))
	for i, l := range library.Levels() {
		levels[i] = string(l)
	}
	cmd := &cobra.Command{
		Use:   "export KERNEL... --out DIR",
		Short: "Write winners as a library that other programs build and call",
		Long: `Write the winners of kernels as a library: sources, a header, a build, a test that
holds every function against its reference, callers in other languages, and
manifest.json, which says of every kernel where it came from and what is known of
it. For each device and each set of tuned shapes the best winner of the finals
is exported; the library chooses among them when it is called.

Unproven kernels are not exported: a kernel must have passed parity, every
sanitizer must have run and found nothing, and it must have won the finals of its
campaign.
--min-evidence asks for less (` + strings.Join(levels, ", ") + `), and the manifest says so.

Kernels for GPUs (--lang cuda) are exported as sources for nvcc; with --embed nvcc compiles
them now, and the library needs no toolkit where it is built and run. For PyTorch
there are operators in the folder torch.

The folder appears when it is whole. The same store gives the same bytes.
docs/export.md walks through it, docs/export-gpu.md says what is different for GPUs.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate),
		Example: "  tune export softmax sgemm --out libkernels\n  tune export attention gemm --lang cuda --devices H200 --out libkernels\n  tune export gemm --lang cuda --embed --out libkernels",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			x.kernels = args
			switch {
			case out == "":
				return badInputf("where should it go? give --out DIR")
			case !slices.Contains(levels, x.min):
				return badInputf("--min-evidence %q is not known: choose one of %s", x.min, strings.Join(levels, ", "))
			case x.lang != string(library.C) && x.lang != string(library.CUDA):
				return badInputf("--lang %q is not known: choose c or cuda", x.lang)
			case (x.embed || x.nvcc != "") && x.lang != string(library.CUDA):
				return badInputf("--embed and --nvcc are for GPUs: add --lang cuda")
			case x.nvcc != "" && !x.embed:
				return badInputf("--nvcc compiles what is to be embedded: add --embed")
			}
			return a.withReader(cmd, func(r server.Reader) error {
				winners, err := a.winners(r, x)
				if err != nil {
					return err
				}
				files, err := library.Export(winners, library.Options{
					Lang: library.Lang(x.lang), Min: library.Level(x.min), By: build.This().String(), Embed: x.embed, NVCC: x.nvcc,
				})
				if errors.Is(err, library.ErrUnproven) {
					return &exitError{exitNoCandidate, fmt.Errorf("%w; see `tune evidence`, or ask for less with --min-evidence", err)}
				}
				if err != nil {
					return badInput(err)
				}
				folder := report.Files(files)
				folder.Seal()
				return a.writeFolder(out, folder, force, strings.Join(args, ", "), nil)
			})
		},
	}
	addFolderFlags(cmd, &out, &force)
	cmd.Flags().StringVar(&x.lang, "lang", string(library.C), "the library's `LANGUAGE`: c for winners on CPUs, cuda for those on GPUs")
	cmd.Flags().BoolVar(&x.embed, "embed", false, "with --lang cuda: machine code instead of sources, which takes nvcc here and nothing there")
	cmd.Flags().StringVar(&x.nvcc, "nvcc", "", "with --embed: the `COMPILER` (default: nvcc on the PATH, in CUDA_HOME, or in /usr/local/cuda)")
	cmd.Flags().StringSliceVar(&x.devices, "devices", nil, "winners on these `DEVICES` only: parts of names, or beginnings of fingerprints (default: all)")
	cmd.Flags().StringSliceVar(&x.shapes, "shapes", nil, "winners that were tuned for one of these `SHAPES` only (default: all)")
	cmd.Flags().StringVar(&x.min, "min-evidence", string(library.Finals), "how much must be proven: `LEVEL` "+strings.Join(levels, ", "))
	return cmd
}

// winners finds what leaves: the best of each kernel, device and set of shapes.
func (a *app) winners(r server.Reader, x exportation) ([]*library.Winner, error) {
	all, err := r.Campaigns()
	if err != nil {
		return nil, storeError(err)
	}
	backend := library.Lang(x.lang).Backend()
	var found []*library.Winner
	for _, name := range slices.Compact(slices.Sorted(slices.Values(x.kernels))) {
		groups := map[string][]store.Campaign{} // by device and shapes
		var devices, shapes []string
		for _, c := range all {
			s := c.Started
			if s.Kernel != name || s.Backend != backend {
				continue
			}
			devices = append(devices, fmt.Sprintf("%s (%s)", s.Name, s.Device))
			shapes = append(shapes, s.Shapes...)
			if !x.wants(s) || candidateOf(c, x.min) == "" {
				continue
			}
			key := s.Device + "\n" + strings.Join(slices.Sorted(slices.Values(s.Shapes)), "\n")
			groups[key] = append(groups[key], c)
		}
		switch {
		case len(devices) == 0:
			return nil, &exitError{exitNoCandidate, fmt.Errorf("no campaign of %q on the %s backend is in %s: run `tune run %s`, or see `tune list`", name, backend, a.v.GetString("store"), name)}
		case len(groups) == 0 && len(x.devices)+len(x.shapes) > 0:
			return nil, &exitError{exitNoCandidate, fmt.Errorf("%s has no winner for %s: there are campaigns on %s, for %s",
				name, x.asked(), distinct(devices), distinct(shapes))}
		case len(groups) == 0:
			return nil, &exitError{exitNoCandidate, fmt.Errorf("nothing of %s is proven yet: no campaign has had finals with a winner: finish one with `tune resume`, or ask for less with --min-evidence", name)}
		}
		for _, key := range sortedKeys(groups) {
			w, err := a.winner(r, groups[key], x.min)
			if err != nil {
				return nil, err
			}
			found = append(found, w)
		}
	}
	return found, nil
}

// asked repeats what the command line narrows to.
func (x exportation) asked() string {
	var flags []string
	if len(x.devices) > 0 {
		flags = append(flags, "--devices "+strings.Join(x.devices, ","))
	}
	if len(x.shapes) > 0 {
		flags = append(flags, "--shapes "+strings.Join(x.shapes, ","))
	}
	return strings.Join(flags, " ")
}

func distinct(list []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(list))), ", ")
}

func (x exportation) wants(s store.Started) bool {
	device := len(x.devices) == 0 || slices.ContainsFunc(x.devices, func(d string) bool {
		return strings.Contains(strings.ToLower(s.Name), strings.ToLower(d)) || strings.HasPrefix(s.Device, d)
	})
	shape := len(x.shapes) == 0 || slices.ContainsFunc(x.shapes, func(n string) bool { return slices.Contains(s.Shapes, n) })
	return device && shape
}

// candidateOf is what a campaign offers: the winner of its finals, else, if that is
// enough, the best of the search; "" for nothing.
func candidateOf(c store.Campaign, min string) string {
	switch {
	case c.Finals != nil && c.Finals.Winner != "":
		return c.Finals.Winner
	case min != string(library.Finals) && c.Best != nil:
		return c.Best.Candidate
	}
	return ""
}

// winner is the best of campaigns for one device and shapes whose source can still
// be had: those with finals first, then by the time relative to the baseline.
func (a *app) winner(r server.Reader, of []store.Campaign, min string) (*library.Winner, error) {
	fitness := func(c store.Campaign) (float64, bool) {
		if f := c.Finals; f != nil && f.Winner != "" {
			return f.Fitness, true
		}
		return c.Best.Fitness, false
	}
	slices.SortStableFunc(of, func(a, b store.Campaign) int {
		fa, finalsA := fitness(a)
		fb, finalsB := fitness(b)
		switch {
		case finalsA != finalsB && finalsA, finalsA == finalsB && fa < fb:
			return -1
		case finalsA != finalsB || fa > fb:
			return 1
		}
		return 0
	})
	var why error
	for _, brief := range of {
		id := candidateOf(brief, min)
		c, err := r.Candidate(id)
		if err != nil {
			return nil, storeError(err)
		}
		whole, err := r.Campaign(brief.ID)
		if err != nil {
			return nil, storeError(err)
		}
		src, rendered, limits := a.renderAgain(c, whole)
		if src.Status != report.SourceRebuilt {
			slog.Warn("a winner is left out", "candidate", c.ID, "kernel", c.Kernel, "why", src.Why)
			if why == nil {
				why = fmt.Errorf("the winner %s of %s cannot be exported: %s", c.ID, c.Kernel, src.Why)
			}
			continue
		}
		subject, err := a.subjectOf(r, c, whole, src)
		if err != nil {
			return nil, err
		}
		e, err := report.NewEvidence(subject)
		if err != nil {
			return nil, err
		}
		return &library.Winner{Evidence: e, Rendered: rendered, Limits: limits}, nil
	}
	return nil, &exitError{exitNoCandidate, why}
}
