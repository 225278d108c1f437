package cuda

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/plain"
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

// profiledKernels names kernels as ncu's --kernel-name takes them.
func profiledKernels(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return "regex:^(" + strings.Join(names, "|") + ")$"
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
// row for each counter of each kernel. Counts of several kernels are added up; of
// percentages, which have no common base, the largest stands.
func readProfile(text string) []evaluator.Evidence {
	start := strings.Index(text, "\"ID\"")
	if start < 0 {
		return notProfiled("ncu wrote no table: " + plain.First(text))
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
		if before, ok := seen[row[name]]; ok && strings.HasSuffix(row[name], ".sum") {
			v, why = v+before.value, cmp.Or(before.why, why)
		} else if ok {
			v, why = max(v, before.value), cmp.Or(before.why, why)
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
