package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

func (a *app) archiveCommand() *cobra.Command {
	var older time.Duration
	var dry bool
	cmd := &cobra.Command{
		Use:   "archive [CAMPAIGN...]",
		Short: "Move finished campaigns out of a store into an archive",
		Long: `Move finished campaigns to an archive: a store file in the folder STORE.archive beside
the store. An archive never changes again. Every command finds the campaigns there as
before, as long as store and folder stay together. They take no more evaluations.

Name campaigns by ids or unique prefixes, or choose those whose last event is at least
--older-than ago. Only finished campaigns are moved. The archive is written, checked
and synced before anything leaves the store: nothing is lost if the command is killed.
The store's file does not shrink, but later writes reuse the space.
` + exitHelp(exitOK, exitFailure, exitBadInput) + interruptedHelp,
		Example: "  tune archive --older-than 720h --dry-run\n  tune archive sgemm-79a32cfc",
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen := cmd.Flags().Changed("older-than")
			switch {
			case chosen == (len(args) > 0):
				return badInputf("which campaigns? name them, or give --older-than alone")
			case older < 0:
				return badInputf("--older-than %s is negative", older)
			}
			if dry {
				r, err := server.OpenReader(cmd.Context(), a.Store)
				if err != nil {
					return storeError(err)
				}
				defer r.Close()
				ids, err := archivable(r, args, older)
				if err != nil {
					return storeError(err)
				}
				return a.tellArchived(store.Archived{Campaigns: ids}, true)
			}
			s, err := store.Open(a.Store, store.Options{MustExist: true})
			if errors.Is(err, store.ErrLocked) {
				in := api.Archive{Campaigns: args}
				if chosen {
					age := older.Seconds()
					in.OlderThan = &age
				}
				done, err := askHolder[store.Archived](cmd.Context(), a, err, func(c *api.Client) (api.Operation, error) { return c.Archive(cmd.Context(), in) })
				if err != nil {
					return err
				}
				return a.tellArchived(done, false)
			}
			if err != nil {
				return storeError(err)
			}
			defer s.Close()
			ids, err := archivable(s, args, older)
			if err != nil {
				return storeError(err)
			}
			var done store.Archived
			err = a.interruptible(cmd.Context(), 1, func(ctx context.Context, _ func()) (err error) {
				done, err = s.Archive(ctx, ids...)
				return err
			})
			switch {
			case errors.Is(err, store.ErrInvalid):
				return badInput(err)
			case err != nil:
				return storeError(err)
			}
			return a.tellArchived(done, false)
		},
	}
	cmd.Flags().DurationVar(&older, "older-than", 0, "choose campaigns whose last event is at least this `DURATION` ago")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say which would be moved")
	return cmd
}

// archivable lists the named campaigns, each of which must be movable; without names, the finished
// ones that ended at least age ago.
func archivable(r evotune.Reader, names []string, age time.Duration) ([]string, error) {
	ids := []string{}
	if len(names) == 0 {
		all, err := r.Campaigns()
		for _, c := range all {
			if c.Archivable(time.Now().Add(-age)) {
				ids = append(ids, c.ID)
			}
		}
		return ids, err
	}
	for _, name := range names {
		c, err := r.Campaign(name)
		switch {
		case err != nil:
			return nil, err
		case c.Archive != "":
			return nil, badInputf("campaign %s is in the archive %s already", c.ID, c.Archive)
		case c.State != store.Finished:
			return nil, badInputf("campaign %s is not finished: only finished campaigns are archived", c.ID)
		}
		ids = append(ids, c.ID)
	}
	return ids, nil
}

func (a *app) tellArchived(done store.Archived, dry bool) error {
	if a.JSON {
		return a.printJSON(done)
	}
	n := words.Plural(len(done.Campaigns), "campaign")
	switch {
	case len(done.Campaigns) == 0:
		fmt.Fprintln(a.out, "no finished campaign is that old: nothing is moved")
	case dry:
		for _, id := range done.Campaigns {
			fmt.Fprintln(a.out, id)
		}
		fmt.Fprintf(a.out, "%s would be moved\n", n)
	default:
		for _, id := range done.Campaigns {
			fmt.Fprintf(a.out, "%s  moved\n", id)
		}
		fmt.Fprintf(a.out, "%s: %s, %d events, %s: no fault found\n", done.Path, n, done.Events, words.Plural(done.Report.Candidates, "candidate"))
		if done.Left {
			fmt.Fprintln(a.out, "the store still has room to give back: the next `tune archive` does that")
		}
	}
	return nil
}
