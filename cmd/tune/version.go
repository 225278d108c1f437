package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A build says which evotune this is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String names the build for what is written to files.
func (b build) String() string {
	s := "evotune " + b.Version
	if b.Revision != "" {
		s += " (revision " + b.Revision
		if b.Modified {
			s += " with changes"
		}
		s += ")"
	}
	return s + " " + b.Go + " " + b.Platform
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which evotune this is",
		Long:  "Say which evotune this is.\n" + exitHelp(exitOK),
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if a.v.GetBool("json") {
				return a.printJSON(b)
			}
			fmt.Fprintf(a.out, "evotune %s %s %s\n", b.Version, b.Go, b.Platform)
			if b.Revision != "" {
				state := ""
				if b.Modified {
					state = " with changes"
				}
				fmt.Fprintf(a.out, "revision %s%s\n", b.Revision, state)
			}
			return nil
		},
	}
}

// printJSON prints one value, indented.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
