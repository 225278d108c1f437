package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

func (a *app) mergeCommand() *cobra.Command {
	var into string
	cmd := &cobra.Command{
		Use:   "merge STORE... --into FILE",
		Short: "Merge the stores of several machines",
		Long: `Copy the campaigns of several stores into one, without loss or duplicates. FILE may
be a store, whose campaigns are kept, or new. A campaign that several stores have
is taken once, from the one that has most of it. If two stores contradict each other
about a campaign, the command fails and writes nothing.

Every store is checked first. The new file is written beside FILE, checked, and
takes its place in one step. Merging again changes nothing, and the order of the
stores does not matter. Wait until no campaign is writing to any of the stores.
` + exitHelp(exitOK, exitFailure, exitBadInput) + interruptedHelp,
		Example: "  tune merge h200.db epyc.db --into all.db\n  tune merge elsewhere.db --into evotune.db",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if into == "" {
				return badInputf("where should they go? give --into FILE")
			}
			var m store.Merged
			err := a.interruptible(cmd.Context(), 1, func(ctx context.Context, _ func()) (err error) {
				m, err = store.Merge(ctx, into, args, store.Options{})
				return err
			})
			switch {
			case errors.Is(err, store.ErrDiffer), errors.Is(err, store.ErrInvalid):
				return badInput(err)
			case errors.Is(err, store.ErrLocked):
				return a.mergeHeld(cmd.Context(), into, args, err)
			case err != nil:
				return storeError(err)
			case a.JSON:
				return a.printJSON(m)
			}
			a.printMerged(m)
			return nil
		},
	}
	cmd.Flags().StringVar(&into, "into", "", "the store to copy them to, a `FILE`")
	return cmd
}

// mergeHeld says which of the stores is held, and what to do. (A store that is read may have
// other readers: only a writer is asked.)
func (a *app) mergeHeld(ctx context.Context, into string, from []string, err error) error {
	for _, path := range append([]string{into}, from...) {
		if !strings.Contains(err.Error(), "store "+path+":") {
			continue
		}
		if path == into {
			return a.heldError(ctx, path, err, "stop it first, or merge into another file")
		}
		return a.heldError(ctx, path, err, "copy it with `tune backup FILE --store "+shellWord(path)+"`, and merge the copy")
	}
	return err
}

func (a *app) printMerged(m store.Merged) {
	n := map[store.Change]int{}
	for _, c := range m.Campaigns {
		n[c.Change]++
		if c.Change != store.Kept {
			fmt.Fprintf(a.out, "%s  %s from %s\n", c.ID, c.Change, c.From)
		}
	}
	if !m.Changed {
		fmt.Fprintf(a.out, "%s has all of it already: %s, nothing was changed\n", m.Path, words.Plural(len(m.Campaigns), "campaign"))
		return
	}
	var parts []string
	for _, c := range []store.Change{store.Added, store.Extended, store.Kept} {
		if n[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[c], c))
		}
	}
	fmt.Fprintf(a.out, "%s: %s (%s), %d events, %s: no fault found\n", m.Path, words.Plural(len(m.Campaigns), "campaign"),
		orNone(strings.Join(parts, ", ")), m.Report.Events, words.Plural(m.Report.Candidates, "candidate"))
}
