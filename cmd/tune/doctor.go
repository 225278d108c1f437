package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/words"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say which tools were found and what each missing one costs",
		Long: `Try every tool that the ordeal uses, and say what was found and what each missing
one costs. A check whose tool is missing is reported as "not run" on every result.
The tools are those of --backend; "auto" means those for the CPU and, if a GPU can
be used, for GPUs.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitFindings),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tools, err := a.machine().Doctor(cmd.Context(), a.Run.Backend)
			if err != nil {
				return err
			}
			missing := 0
			for _, t := range tools {
				if t.Missing != "" {
					missing++
				}
			}
			if a.JSON {
				if err := a.printJSON(tools); err != nil {
					return err
				}
			} else {
				w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
				for _, t := range tools {
					if t.Missing != "" {
						fmt.Fprintf(w, "missing\t%s\t%s\n", t.Name, words.OneLine(t.Missing))
					} else {
						fmt.Fprintf(w, "ok\t%s\t%s %s\n", t.Name, t.Version, t.Path)
					}
				}
				if err := w.Flush(); err != nil {
					return err
				}
			}
			if missing > 0 {
				return &exitError{code: exitFindings}
			}
			return nil
		},
	}
	addOptions(cmd.Flags(), backendOptions)
	addOptions(cmd.Flags(), option.Named(runOptions, "backend"))
	return cmd
}
