package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
)

func (a *app) evidenceCommand() *cobra.Command {
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:   "evidence CANDIDATE --out DIR",
		Short: "Write a folder that proves a candidate's result",
		Long: `Write all that is stored about a candidate as one folder: evidence.json for programs,
README.md and index.html for people, plots, its source, and for a GPU kernel
winner.json with winner.cu, from which other programs can launch it.

The source is rendered again from the current kernel, and kept only if its hash
equals the recorded one; otherwise the folder says why it was left out.

The folder appears only when it is complete. A folder that exists and is not empty
is refused; --force replaces it if this command wrote it. docs/evidence.md has the
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

// putFolder writes a folder, whole or not at all.
func putFolder(dir string, files evotune.Files, force bool) error {
	err := evotune.WriteFolder(dir, files, force)
	if err != nil && !errors.Is(err, evotune.ErrInput) {
		return fmt.Errorf("%s was not written: %w", dir, err)
	}
	return err
}

// writeFolder writes a folder and says what is in it.
func (a *app) writeFolder(dir string, files evotune.Files, force bool, of string, notRun []string) error {
	if err := putFolder(dir, files, force); err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(struct {
			Of     string   `json:"of"`
			Dir    string   `json:"dir"`
			Files  []string `json:"files"`
			NotRun []string `json:"not_run"`
		}{of, dir, slices.Sorted(maps.Keys(files)), append([]string{}, notRun...)})
	}
	first := "index.html"
	if _, ok := files[first]; !ok {
		first = "README.md"
	}
	fmt.Fprintf(a.out, "%s: %s about %s, beginning with %s\n", dir, words.Plural(len(files), "file"), of, filepath.Join(dir, first))
	for _, s := range notRun {
		fmt.Fprintf(a.out, "not run: %s\n", words.OneLine(s))
	}
	return nil
}

// subject gathers what the store has about a candidate, and its source.
func (a *app) subject(r server.Reader, id string) (evotune.Subject, error) {
	s, err := a.machine().Subject(r, id)
	s.By, s.Store, s.Made = build.This().String(), filepath.Base(a.Store), time.Now()
	return s, storeError(err)
}
