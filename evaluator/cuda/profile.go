package cuda

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// profiled are the counters of Nsight Compute that a finalist's profile has:
// those that [kernels.Counters] lists.
var profiled = []struct{ name, metric string }{
	{"SM busy", "sm__instruction_throughput.avg.pct_of_peak_sustained_active"},
	{"tensor pipe active", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"},
	{"DRAM throughput", "dram__throughput.avg.pct_of_peak_sustained_elapsed"},
	{"L2 throughput", "lts__throughput.avg.pct_of_peak_sustained_elapsed"},
	{"shared memory bank conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"},
	{"achieved occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active"},
}

func profileMetrics() string {
	var names []string
	for _, p := range profiled {
		names = append(names, p.metric)
	}
	return strings.Join(names, ",")
}

// notProfiled says of every counter that it was not measured, which is not
// zero.
func notProfiled(why string) []evaluator.Evidence {
	var list []evaluator.Evidence
	for _, p := range profiled {
		list = append(list, evaluator.Evidence{Check: p.name, Outcome: evaluator.NotRun, Detail: why})
	}
	return list
}

// readProfile reads what ncu --csv wrote: lines of its own, then a table with a
// row for each counter.
func readProfile(text string) []evaluator.Evidence {
	start := strings.Index(text, "\"ID\"")
	if start < 0 {
		return notProfiled("ncu wrote no table: " + printable(firstLine(text)))
	}
	r := csv.NewReader(strings.NewReader(text[start:]))
	r.FieldsPerRecord = -1
	head, err := r.Read()
	if err != nil {
		return notProfiled("ncu's table cannot be read: " + err.Error())
	}
	name, unit, value := slices.Index(head, "Metric Name"), slices.Index(head, "Metric Unit"), slices.Index(head, "Metric Value")
	if name < 0 || unit < 0 || value < 0 {
		return notProfiled("ncu's table has other columns than those of this version of evotune")
	}
	type reading struct {
		value float64
		unit  string
		why   string
	}
	seen := map[string]reading{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(row) <= max(name, unit, value) {
			continue
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(row[value], ",", ""), 64)
		why := ""
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			why = fmt.Sprintf("ncu says %q", row[value])
		}
		seen[row[name]] = reading{v, row[unit], why}
	}
	var list []evaluator.Evidence
	for _, p := range profiled {
		got, ok := seen[p.metric]
		switch {
		case !ok:
			list = append(list, evaluator.Evidence{Check: p.name, Outcome: evaluator.NotRun, Detail: "ncu does not have the counter " + p.metric + " on this device"})
		case got.why != "":
			list = append(list, evaluator.Evidence{Check: p.name, Outcome: evaluator.NotRun, Detail: got.why})
		default:
			list = append(list, evaluator.Evidence{Check: p.name, Outcome: evaluator.Passed, Value: got.value, Unit: got.unit, Detail: p.metric})
		}
	}
	return list
}

// hold holds a finalist's readings against the bounds of its definition: a row
// for each, and the reason of the first that is broken; "" when none is. What
// could not be read breaks no bound and is "not run".
func hold(bounds []kernels.Bound, readings []evaluator.Evidence) (rows []evaluator.Evidence, reason string) {
	for _, b := range bounds {
		i := slices.IndexFunc(readings, func(e evaluator.Evidence) bool { return e.Check == b.Counter })
		for _, side := range []struct {
			limit  *float64
			least  bool
			allows string
		}{{b.Min, true, "at least"}, {b.Max, false, "at most"}} {
			if side.limit == nil {
				continue
			}
			row := evaluator.Evidence{Check: "requires " + b.Counter}
			wanted := fmt.Sprintf("%s %g is required", side.allows, *side.limit)
			switch {
			case i < 0:
				row.Outcome, row.Detail = evaluator.NotRun, wanted+": profiling is switched off"
			case readings[i].Outcome == evaluator.NotRun:
				row.Outcome, row.Detail = evaluator.NotRun, wanted+": "+readings[i].Detail
			default:
				row.Outcome, row.Value, row.Unit = evaluator.Passed, readings[i].Value, readings[i].Unit
				row.Limit, row.AtLeast = *side.limit, side.least
				if side.least && row.Value < row.Limit || !side.least && row.Value > row.Limit {
					row.Outcome, row.Detail = evaluator.Failed, strings.TrimSpace(fmt.Sprintf("%g %s", row.Value, row.Unit))+", "+wanted
					if reason == "" {
						reason = row.Check + ": " + row.Detail
					}
				}
			}
			rows = append(rows, row)
		}
	}
	return rows, reason
}
