package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/internal/build"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which evotune this is",
		Long:  "Say which evotune this is.\n" + exitHelp(exitOK),
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := build.This()
			if a.JSON {
				return a.printJSON(struct {
					build.Info
					Name string `json:"name"` // tells two builds apart
				}{b, build.Name()})
			}
			_, err := fmt.Fprintf(a.out, "%s\n%s %s\n", build.Program(), b.Go, b.Platform)
			return err
		},
	}
}

// printJSON prints one value, indented.
func (a *app) printJSON(v any) error { return writeJSON(a.out, v) }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printJSONLine prints an event.
func (a *app) printJSONLine(v any) error { return json.NewEncoder(a.out).Encode(v) }
