package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/store"
)

// The formats of answers, besides formatTable and formatJSON.
const (
	formatTOML = "toml"
	formatCSV  = "csv"
)

// format returns the format of the answer, by --format or --json.
func (a *app) format(given string, known ...string) (string, error) {
	switch {
	case !slices.Contains(known, given):
		return "", badInputf("unknown format %q: there are %s", given, strings.Join(known, ", "))
	case a.JSON && given == formatTable:
		return formatJSON, nil
	case a.JSON && given != formatJSON:
		return "", badInputf("--json and --format %s exclude each other", given)
	}
	return given, nil
}

func (a *app) bestCommand() *cobra.Command {
	var q evotune.Question
	var objective, text string
	cmd := &cobra.Command{
		Use:   "best KERNEL",
		Short: "Print the best candidates of a kernel, or the nearest",
		Long: `Print the best stored candidates of a kernel for a device, a shape and a type of
data. If there are none for exactly that, print the nearest. Every answer says
which rule found it: the device first (the same, one of the same name, compute
capability or instruction sets, or family), then the shape (the distance is a
sum of doublings over the dimensions). Among equals, winners of finals come
first, marked "*"; then the smaller time relative to the baseline that was
measured beside it. A candidate that was in finals has the figures of the finals,
which measured it again in fresh processes. FROM says whether figures come from
the finals or from the one measurement in the search.

--device takes a name or a part of it, the beginning of a fingerprint, a UUID, or
"auto" for this machine: its GPU or, if nothing matches that, its CPU.
--shape takes dimensions (B=2,H=8,S=512,D=64) or the name of a shape; repeated, it
takes the names of shapes that a campaign was tuned for together.
docs/ask.md has the full rule and the keys of the formats.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate),
		Example: "  tune best sgemm\n  tune best attention --device H200 --shape B=2,H=8,S=1024,D=64 --top 3\n  tune best softmax --device auto --dtype f16 --format toml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.format(text, formatTable, formatJSON, formatTOML, formatCSV)
			if err != nil {
				return err
			}
			if q.Limit < 1 {
				return badInputf("--top is %d: ask for one at least", q.Limit)
			}
			if cmd.Flags().Changed("device") && q.Device == "" {
				return badInputf("--device is empty: name one, or leave it out for any")
			}
			if objective != "time" && objective != "energy" {
				return badInputf("unknown objective %q: there are time and energy", objective)
			}
			q.Kernel = args[0]
			return a.withReader(cmd, func(r server.Reader) error {
				if objective == "energy" {
					return a.noEnergy(cmd.Context(), r, q)
				}
				answers, err := a.machine().Best(cmd.Context(), r, q)
				if errors.Is(err, evotune.ErrNoCandidate) {
					err = fmt.Errorf("%w: see `tune list`", err)
				}
				if err != nil {
					return storeError(err)
				}
				return a.printAnswers(api.AnswersOf(answers), format)
			})
		},
	}
	cmd.Flags().IntVar(&q.Limit, "top", 1, "how many")
	cmd.Flags().StringVar(&q.Device, "device", "", "for this `DEVICE`: a name or a part of it, the beginning of a fingerprint, a UUID, or auto for this machine (default: any)")
	cmd.Flags().StringArrayVar(&q.Shapes, "shape", nil, "for this `SHAPE`: dimensions (B=2,H=8,...) or a name; repeated: names tuned for together (default: any)")
	cmd.Flags().StringVar((*string)(&q.DType), "dtype", "", "for problems with buffers of this `TYPE`, such as f16 (default: any)")
	cmd.Flags().StringVar(&objective, "objective", "time", "what is best: time or energy")
	cmd.Flags().StringVar(&text, "format", formatTable, "table, json, toml or csv")
	cmd.Flags().BoolVar(&q.Proven, "proven", false, "only winners of finals")
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

// noEnergy returns the error for a question about energy: what is wrong with the question,
// else that there is no answer.
func (a *app) noEnergy(ctx context.Context, r server.Reader, q evotune.Question) error {
	q.Device = ""
	if _, err := a.machine().Best(ctx, noCampaigns{r}, q); !errors.Is(err, evotune.ErrNoCandidate) {
		return storeError(err)
	}
	return &exitError{exitNoCandidate, fmt.Errorf("no stored candidate of %q has a measured energy: no backend measures it", q.Kernel)}
}

// noCampaigns is a store without a campaign that could answer.
type noCampaigns struct{ server.Reader }

func (noCampaigns) Campaigns() ([]store.Campaign, error) { return nil, nil }

func (a *app) printAnswers(views []answerView, format string) error {
	switch format {
	case formatJSON:
		return a.printJSON(views)
	case formatTOML:
		rows := make([]map[string]any, len(views))
		for i, v := range views {
			rows[i] = map[string]any{"genome": v.Genome}
			for _, c := range answerColumns(v) {
				rows[i][c.key] = c.value
			}
		}
		return toml.NewEncoder(a.out).Encode(map[string]any{"candidates": rows})
	case formatCSV:
		return writeCSV(a.out, views, answerColumns)
	}
	rows := [][]string{{"CANDIDATE", "", "TIME", "BASELINE", "SPEEDUP", "FROM", "SHAPES", "DEVICE"}}
	for _, v := range views {
		mark := ""
		if v.Proven {
			mark = "*"
		}
		rows = append(rows, []string{
			v.Candidate, mark, nanoseconds(v.MedianNS), nanoseconds(v.BaselineNS), fmt.Sprintf("%.3fx", v.Speedup), v.Measured, strings.Join(v.Shapes, ","), v.DeviceName,
		})
	}
	var table strings.Builder
	printColumns(&table, rows, 16, 1, 10, 10, 9, 6, 26, 32) // only this format cuts long values
	for i, line := range strings.SplitAfter(strings.TrimSuffix(table.String(), "\n"), "\n") {
		fmt.Fprintln(a.out, strings.TrimRight(line, " \n"))
		if i > 0 {
			folded(a.out, "  "+views[i-1].Rule, " ")
			folded(a.out, "  "+views[i-1].Encoding, ",")
			if v := views[i-1]; v.Measured == record.FromFinals && v.Backend != evotune.Replay && (v.Speedup <= 1 || v.Proven && !record.Faster(v.Significant, v.Speedup)) {
				folded(a.out, "  finals did not find it to be faster than the baseline, which is what to use", " ")
			}
			if slower := views[i-1].Slower; slower > 0 {
				folded(a.out, fmt.Sprintf("  the baseline took %.0f%% longer than usual in these finals: tune verify %s measures again", 100*slower, views[i-1].Candidate), " ")
			}
		}
	}
	return nil
}

// A column is one value of a candidate, with its key in JSON.
type column struct {
	key   string
	value any
}

// answerColumns lists what TOML and CSV have of an answer.
func answerColumns(v answerView) []column {
	return append(
		candidateColumns(v.Found), column{"backend", v.Backend}, column{"device_name", v.DeviceName}, column{"rule", v.Rule},
		column{"device_rule", v.DeviceRule}, column{"nearest_shape", v.NearestShape}, column{"distance", v.Distance},
		column{"kernel_changed", v.KernelChanged},
	)
}

func candidateColumns(v candidateView) []column {
	return []column{
		{"candidate", v.Candidate},
		{"campaign", v.Campaign},
		{"kernel", v.Kernel},
		{"shapes", v.Shapes},
		{"device", v.Device},
		{"index", v.Index},
		{"operator", v.Operator},
		{"parent_ids", v.ParentIDs},
		{"verdict", v.Verdict},
		{"fitness", v.Fitness},
		{"speedup", v.Speedup},
		{"median_ns", v.MedianNS},
		{"baseline_ns", v.BaselineNS},
		{"key", v.Key},
		{"finalist", v.Finalist},
		{"proven", v.Proven},
		{"significant", v.Significant},
		{"measured", v.Measured},
		{"encoding", v.Encoding},
		{"slower", v.Slower},
		{"unproven", v.Unproven},
	}
}

// writeCSV prints a header and a row of columns for each view.
func writeCSV[V any](out io.Writer, views []V, columns func(V) []column) error {
	w := csv.NewWriter(out)
	row := func(v V, text func(column) string) error {
		var cells []string
		for _, c := range columns(v) {
			cells = append(cells, text(c))
		}
		return w.Write(cells)
	}
	var empty V
	if err := row(empty, func(c column) string { return c.key }); err != nil {
		return err
	}
	for _, v := range views {
		if err := row(v, func(c column) string { return cell(c.value) }); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// cell formats a value of a column for CSV: lists with spaces, numbers without loss of
// precision.
func cell(value any) string {
	switch v := value.(type) {
	case []string:
		return strings.Join(v, " ")
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(value)
}

// tableWidth is the width that tables aim for, in characters.
const tableWidth = 120

// folded prints a long line in several, broken after a separator and indented
// like the first.
func folded(w io.Writer, line, separator string) {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	rest := strings.TrimLeft(line, " ")
	for len([]rune(rest)) > tableWidth-len(indent) {
		head := string([]rune(rest)[:tableWidth-len(indent)])
		at := strings.LastIndex(head, separator)
		if at <= 0 {
			break
		}
		fmt.Fprintln(w, indent+strings.TrimRight(rest[:at+len(separator)], " "))
		rest = rest[at+len(separator):]
	}
	fmt.Fprintln(w, indent+rest)
}
