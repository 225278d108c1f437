package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/internal/export"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
)

func (a *app) exportCommand() *cobra.Command {
	var x evotune.ExportOptions
	var out string
	var force bool
	levels := make([]string, len(export.Levels()))
	for i, l := range export.Levels() {
		levels[i] = string(l)
	}
	cmd := &cobra.Command{
		Use:   "export KERNEL... --out DIR",
		Short: "Write winners as a library that other programs build and call",
		Long: `Write the winners of kernels as a library: sources, a header, a build, a test that
compares every function with its reference, callers in other languages, and
manifest.json, which says where each kernel came from and what is known about it.
For each device and each set of tuned shapes, the best winner of the finals is
exported; the library chooses among them when it is called.

Unproven kernels are not exported: a kernel must have passed parity, every
sanitizer must have run and found nothing, and it must have won the finals of its
campaign.
--min-evidence asks for less (` + strings.Join(levels, ", ") + `), and the manifest says so.

Kernels for GPUs (--lang cuda) are exported as sources for nvcc. With --embed, nvcc
compiles them now, and building and running the library takes no toolkit. The folder
torch has operators for PyTorch.

The folder appears only when it is complete. The same store gives the same bytes.
docs/export.md walks through an export; docs/export.md says what differs for GPUs.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate),
		Example: "  tune export softmax sgemm --out libkernels\n  tune export attention gemm --lang cuda --devices H200 --out libkernels\n  tune export gemm --lang cuda --embed --out libkernels",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			x.Kernels, x.By = args, build.This().String()
			x.Tell = func(line string) { fmt.Fprintf(a.err, "tune: %s\n", words.OneLine(line)) }
			switch {
			case out == "":
				return badInputf("where should it go? give --out DIR")
			case !slices.Contains(levels, x.MinEvidence):
				return badInputf("--min-evidence %q is not known: choose one of %s", x.MinEvidence, strings.Join(levels, ", "))
			case x.Lang != string(export.C) && x.Lang != string(export.CUDA):
				return badInputf("--lang %q is not known: choose c or cuda", x.Lang)
			case (x.Embed || x.NVCC != "") && x.Lang != string(export.CUDA):
				return badInputf("--embed and --nvcc are for GPUs: add --lang cuda")
			case x.NVCC != "" && !x.Embed:
				return badInputf("--nvcc compiles what is to be embedded: add --embed")
			}
			return a.withReader(cmd, func(r server.Reader) error {
				folder, err := a.machine().Export(r, x)
				if errors.Is(err, evotune.ErrUnproven) {
					err = fmt.Errorf("%w; see `tune evidence`, or ask for less with --min-evidence", err)
				}
				if err != nil {
					return storeError(err)
				}
				return a.writeFolder(out, folder, force, strings.Join(args, ", "), nil)
			})
		},
	}
	addFolderFlags(cmd, &out, &force)
	cmd.Flags().StringVar(&x.Lang, "lang", string(export.C), "the library's `LANGUAGE`: c for winners on CPUs, cuda for those on GPUs")
	cmd.Flags().BoolVar(&x.Embed, "embed", false, "with --lang cuda: machine code instead of sources; needs nvcc here, no toolkit later")
	cmd.Flags().StringVar(&x.NVCC, "nvcc", "", "with --embed: the `COMPILER` (default: nvcc on the PATH, in CUDA_HOME, or in /usr/local/cuda)")
	cmd.Flags().StringSliceVar(&x.Devices, "devices", nil, "winners on these `DEVICES` only: parts of names, or beginnings of fingerprints (default: all)")
	cmd.Flags().StringSliceVar(&x.Shapes, "shapes", nil, "winners that were tuned for one of these `SHAPES` only (default: all)")
	cmd.Flags().StringVar(&x.MinEvidence, "min-evidence", string(export.Finals), "how much must be proven: `LEVEL` "+strings.Join(levels, ", "))
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}
