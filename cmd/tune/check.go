package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

func (a *app) checkCommand() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Verify a store",
		Long: `Verify a store and its archives: every event's checksum, the order and consistency
of the log, and the indexes, which are rebuilt from the log and compared. The output
has the version of the file's format. --repair replaces the indexes with the rebuilt
ones; the log itself is never changed.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitFindings),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := a.Store
			if repair {
				if _, err := store.Repair(path, store.Options{MustExist: true}); err != nil {
					return a.heldError(cmd.Context(), path, err, "stop it first")
				}
			}
			r, err := store.Check(path, store.Options{})
			if err != nil {
				return a.heldError(cmd.Context(), path, err, "stop it first, or run `tune backup FILE"+a.given("store")+"`, which checks the copy that it makes")
			}
			if a.JSON {
				if err := a.printJSON(r); err != nil {
					return err
				}
			} else {
				for _, f := range r.Findings {
					fmt.Fprintln(a.out, f.What)
				}
				for _, of := range r.Archives {
					fmt.Fprintf(a.out, "%s: format %d, %d events, %d campaigns, %d candidates\n", of.Path, of.Format, of.Events, of.Campaigns, of.Candidates)
				}
				fmt.Fprintf(a.out, "%s: format %d, %d events, %d campaigns, %d candidates: ", path, r.Format, r.Events, r.Campaigns, r.Candidates)
				if r.OK() {
					fmt.Fprintln(a.out, "no fault found")
				} else {
					fmt.Fprintf(a.out, "%s: %s\n", words.Plural(r.Wrong, "finding"), r.Advice())
				}
			}
			if !r.OK() {
				return &exitError{code: exitFindings}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "rebuild the indexes from the log first")
	return cmd
}
