package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/internal/server"
)

// allFigures is the kind that stands for every other.
const allFigures = "all"

func (a *app) plotCommand() *cobra.Command {
	var out, format, kind string
	var force bool
	cmd := &cobra.Command{
		Use:   "plot CAMPAIGN --out DIR",
		Short: "Draw a campaign: progress, verdicts, genes",
		Long: `Write plots of a campaign to one folder, each a file of its own:

  progress   the best so far over evaluations, with every correct candidate
  time       the same over time, without the pauses between resumptions
  verdicts   how many candidates got which verdict, over time
  parallel   the genes of the correct candidates; the faster ones stand out

What cannot be drawn is left out and named. The same store gives the same bytes. The
folder appears only when it is complete. A folder that exists and is not empty is
refused; --force replaces it if evotune wrote it.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate),
		Example: "  tune plot sgemm-44d7aa49 --out plots\n  tune plot sgemm-44d7aa49 --out plots --kind parallel --format svg",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return badInputf("where should they go? give --out DIR")
			}
			if formats := report.FigureFormats(); !slices.Contains(formats, format) {
				return badInputf("unknown format %q: there are %s", format, strings.Join(formats, ", "))
			}
			kinds := report.FigureKinds()
			if kind != allFigures {
				if !slices.Contains(kinds, kind) {
					return badInputf("unknown kind %q: there are %s, %s", kind, strings.Join(kinds, ", "), allFigures)
				}
				kinds = []string{kind}
			}
			return a.withReader(cmd, func(r server.Reader) error {
				l, err := a.campaignLog(cmd.Context(), r, args[0])
				if err != nil {
					return err
				}
				c, err := report.NewCampaign(l)
				if err != nil {
					return err
				}
				files, missing, err := c.Figures(kinds, format)
				if err != nil {
					return err
				}
				if len(files) == 0 {
					return &exitError{exitNoCandidate, fmt.Errorf("campaign %s: nothing can be drawn: %s", c.Campaign, strings.Join(missing, "; "))}
				}
				return a.writePlots(out, files, force, c.Campaign, missing)
			})
		},
	}
	addFolderFlags(cmd, &out, &force)
	cmd.Flags().StringVar(&format, "format", "png", strings.Join(report.FigureFormats(), " or "))
	cmd.Flags().StringVar(&kind, "kind", allFigures, strings.Join(report.FigureKinds(), ", ")+" or "+allFigures)
	return cmd
}

// writePlots writes the folder and says what is in it, and what is not.
func (a *app) writePlots(dir string, files report.Files, force bool, of string, missing []string) error {
	if err := putFolder(dir, files, force); err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(struct {
			Of      string   `json:"of"`
			Dir     string   `json:"dir"`
			Files   []string `json:"files"`
			Missing []string `json:"missing"`
		}{of, dir, slices.Sorted(maps.Keys(files)), append([]string{}, missing...)})
	}
	fmt.Fprintf(a.out, "%s: %s of %s\n", dir, strings.Join(slices.Sorted(maps.Keys(files)), ", "), of)
	for _, m := range missing {
		fmt.Fprintf(a.out, "missing: %s\n", m)
	}
	return nil
}
