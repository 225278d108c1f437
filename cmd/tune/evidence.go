package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/report"
	"github.com/evotune/evotune/server"
	"github.com/evotune/evotune/store"
)

func (a *app) evidenceCommand() *cobra.Command {
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:   "evidence CANDIDATE --out DIR",
		Short: "Write a folder that proves a candidate's result",
		Long: `Write all that is kept of a candidate as one folder: evidence.json for programs,
README.md and index.html for people, plots, its source, and for a GPU kernel
winner.json with winner.cu, from which other programs can launch it.

The source is rendered again from the kernel as it is now and kept only if its
hash is the recorded one; otherwise the folder says why it was left out.

The folder appears when it is whole. One that is there and not empty is refused;
--force replaces it if it was written by this command. docs/evidence.md has the
format.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: "  tune evidence 3f2a --out evidence-3f2a",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return badInputf("where should it go? give --out DIR")
			}
			return a.withReader(cmd, func(r server.Reader) error {
				s, err := a.subject(r, args[0])
				if err != nil {
					return err
				}
				e, err := report.NewEvidence(s)
				if err != nil {
					return err
				}
				files, err := e.Files()
				if err != nil {
					return err
				}
				return a.writeFolder(out, files, force, e.Candidate, e.NotRun)
			})
		},
	}
	addFolderFlags(cmd, &out, &force)
	return cmd
}

func addFolderFlags(cmd *cobra.Command, out *string, force *bool) {
	cmd.Flags().StringVar(out, "out", "", "the folder to write, a `DIR`")
	cmd.Flags().BoolVar(force, "force", false, "replace a folder that was written before")
}

// putFolder puts a folder in place, whole.
func putFolder(dir string, files report.Files, force bool) error {
	err := report.Write(dir, files, force)
	if refused := (*report.RefusedError)(nil); errors.As(err, &refused) {
		return badInput(err)
	}
	if err != nil {
		return fmt.Errorf("%s was not written: %w", dir, err)
	}
	return nil
}

// writeFolder puts a folder in place and says what is in it.
func (a *app) writeFolder(dir string, files report.Files, force bool, of string, notRun []string) error {
	if err := putFolder(dir, files, force); err != nil {
		return err
	}
	if a.v.GetBool("json") {
		return a.printJSON(struct {
			Of     string   `json:"of"`
			Dir    string   `json:"dir"`
			Files  []string `json:"files"`
			NotRun []string `json:"not_run"`
		}{of, dir, sortedKeys(files), append([]string{}, notRun...)})
	}
	first := "index.html"
	if _, ok := files[first]; !ok {
		first = "README.md"
	}
	fmt.Fprintf(a.out, "%s: %s about %s, beginning with %s\n", dir, plural(len(files), "file"), of, filepath.Join(dir, first))
	for _, s := range notRun {
		fmt.Fprintf(a.out, "not run: %s\n", oneLine(s))
	}
	return nil
}

// subject gathers what the store holds of a candidate, and its source.
func (a *app) subject(r server.Reader, id string) (report.Subject, error) {
	c, err := r.Candidate(id)
	if err != nil {
		return report.Subject{}, storeError(err)
	}
	of, err := r.Campaign(c.Campaign)
	if err != nil {
		return report.Subject{}, storeError(err)
	}
	return a.subjectOf(r, c, of, a.rebuild(c, of))
}

// subjectOf is subject for a candidate that was found, with a source that was
// rendered.
func (a *app) subjectOf(r server.Reader, c store.Candidate, of store.Campaign, src report.Source) (report.Subject, error) {
	n, err := r.Lineage(c.ID)
	if err != nil {
		return report.Subject{}, storeError(err)
	}
	s := report.Subject{
		Candidate: c, Campaign: of, Lineage: n, Source: src,
		By: build.This().String(), Store: filepath.Base(a.v.GetString("store")), Made: time.Now(),
	}
	s.Finals = c.Finals
	return s, nil
}

// rebuild renders a candidate again from the kernel as it is now.
func (a *app) rebuild(c store.Candidate, of store.Campaign) report.Source {
	src, _, _ := a.renderAgain(c, of)
	return src
}

// renderAgain is rebuild, with what was rendered and the limits of the device. They
// are those of the stored candidate only if the source says that it was rebuilt.
func (a *app) renderAgain(c store.Candidate, of store.Campaign) (report.Source, kernels.Rendered, map[string]any) {
	none := func(recorded, format string, args ...any) (report.Source, kernels.Rendered, map[string]any) {
		return report.LeftOut(recorded, format, args...), kernels.Rendered{}, nil
	}
	var recorded struct {
		Source string `json:"source"`
	}
	if c.Told != nil {
		if err := json.Unmarshal(c.Told.Detail, &recorded); err != nil {
			return none("", "the result cannot be read: %v", err)
		}
	}
	if recorded.Source == "" {
		return none("", "no source was recorded with the result")
	}
	// A kernel that has changed may still render this candidate as it was.
	cfg, t, err := a.recordedCampaign(of)
	if t.definition == nil {
		if err == nil {
			err = errors.New("a recorded table has no sources")
		}
		return none(recorded.Source, "%s", oneLine(err.Error()))
	}
	space, err := t.space()
	if err != nil {
		return none(recorded.Source, "the kernel as it is now has no such space: %s", oneLine(err.Error()))
	}
	g, err := space.Parse(c.Asked.Genome)
	if err != nil {
		return none(recorded.Source, "it is no genome of the kernel as it is now: %s", oneLine(err.Error()))
	}
	im := t.definition.Implementation(g, t.chosen)
	if im == nil {
		return none(recorded.Source, "the kernel as it is now has no implementation for it")
	}
	rendered, err := im.Render(g)
	if err != nil {
		return none(recorded.Source, "the kernel as it is now does not render: %s", oneLine(err.Error()))
	}
	src := report.NewSource(rendered, recorded.Source, cfg.Extra["hash"])
	var shapes []kernels.Shape
	for _, name := range c.Shapes {
		if s, err := im.Problem().Shape(name); err == nil {
			shapes = append(shapes, s)
		}
	}
	if err := src.SetWinners(rendered, c.ID, shapes); err != nil {
		return none(recorded.Source, "its launch cannot be computed: %s", oneLine(err.Error()))
	}
	return src, rendered, t.limits
}
