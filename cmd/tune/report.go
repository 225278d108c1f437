package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/store"
)

func (a *app) reportCommand() *cobra.Command {
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:   "report CAMPAIGN --out DIR",
		Short: "Write a folder that describes a campaign",
		Long: `Describe a campaign in one folder: report.json for programs, README.md and
index.html for people, and plots, with configuration, progress, verdicts and reasons
for failures, the finals with their tests, operators, genes, the lineage of the
best, what was not run, and the commands that make it again.

The folder appears only when it is complete. A folder that exists and is not empty
is refused; --force replaces it if this command wrote it. docs/evidence.md has the
format.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: "  tune report sgemm-44d7aa49 --out report-sgemm",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return badInputf("where should it go? give --out DIR")
			}
			return a.withReader(cmd, func(r server.Reader) error {
				if c, ok := r.(*api.Reader); ok {
					return a.reportThere(cmd, c.Client, args[0], out, force)
				}
				l, err := a.campaignLog(cmd.Context(), r, args[0])
				if err != nil {
					return err
				}
				c, err := report.NewCampaign(l)
				if err != nil {
					return err
				}
				files, err := c.Files()
				if err != nil {
					return err
				}
				return a.writeFolder(out, files, force, c.Campaign, c.NotRun)
			})
		},
	}
	addFolderFlags(cmd, &out, &force)
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

// campaignLog gathers what the store has about a campaign.
func (a *app) campaignLog(ctx context.Context, r server.Reader, id string) (report.Log, error) {
	c, err := r.Campaign(id)
	if err != nil {
		return report.Log{}, storeError(err)
	}
	s, ok := r.(*store.Store)
	if !ok {
		path := a.Store
		return report.Log{}, a.heldError(ctx, path, fmt.Errorf("store %s: %w", path, store.ErrLocked), fmt.Sprintf("`tune report %s --out DIR%s` has the plots too", c.ID, a.given("store")))
	}
	l, err := report.ReadLog(s, c.ID)
	return l, storeError(err)
}

// reportThere writes a report that is made by the process that holds the store.
func (a *app) reportThere(cmd *cobra.Command, c *api.Client, id, out string, force bool) error {
	files, err := c.Report(cmd.Context(), id)
	if err != nil {
		return storeError(err)
	}
	var about struct {
		Campaign string   `json:"campaign"`
		NotRun   []string `json:"not_run"`
	}
	if err := json.Unmarshal(files["report.json"], &about); err != nil {
		return fmt.Errorf("%s: the report cannot be read: %w", c.Address(), err)
	}
	return a.writeFolder(out, files, force, about.Campaign, about.NotRun)
}
