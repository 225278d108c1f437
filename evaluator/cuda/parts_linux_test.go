package cuda

import (
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
)

func TestFaultLines(t *testing.T) {
	for _, c := range []struct {
		line string
		what string
		kind faultKind
	}{
		{"========= COMPUTE-SANITIZER", "", faultNone},
		{"=========", "", faultNone},
		{"========= ", "", faultNone},
		{"========= ERROR SUMMARY: 0 errors", "", faultNone},
		{"========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "", faultNone},
		{"=========     at 0x2d0 in fake", "", faultNone},
		{"========= Invalid __global__ write of size 4 bytes", "Invalid __global__ write of size 4 bytes", faultFound},
		{"========= Error: Race reported between Write access at 0x120 in k and Read access at 0x150 in k [1 hazards]", "Error: Race reported between Write access", faultFound},
		{"========= Warning: Race reported between Read access at 0x1 in k", "Warning: Race reported between Read access", faultFound},
		{"========= Barrier error detected. Divergent thread(s) in warp.", "Barrier error detected. Divergent thread(s) in warp.", faultFound},
		{"========= Uninitialized __global__ memory read of size 4 bytes", "Uninitialized __global__ memory read of size 4 bytes", faultFound},
		{"========= ERROR SUMMARY: 12 errors", "ERROR SUMMARY: 12 errors", faultFound},
		{"========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)", "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)", faultFound},
		{"========= Internal Sanitizer Error: something", "", faultBroken},
		{"========= Error: process didn't terminate successfully", "", faultNone},
		{"what the program wrote", "", faultNone},
	} {
		what, kind := readFault(c.line)
		if kind != c.kind || c.kind == faultFound && what != c.what {
			t.Errorf("%q: %q, kind %d; want %q, kind %d", c.line, what, kind, c.what, c.kind)
		}
	}
	if got := firstFault([]string{"Program hit CUDA_ERROR_ASSERT", "Invalid read"}); got != "Invalid read" {
		t.Errorf("the report that says most is %q", got)
	}
}

func TestArchitecture(t *testing.T) {
	for _, c := range []struct {
		target     string
		capability int
		known      []int
		want       string
	}{
		{"sm_80", 90, []int{50, 80, 86, 89, 90}, "sm_90"},
		{"sm_80", 90, nil, "sm_90"},
		{"sm_80", 89, []int{80, 86}, "sm_86"}, // a cubin of the same generation
		{"sm_80", 80, []int{80, 90}, "sm_80"},
		{"sm_90a", 90, []int{90}, "sm_90a"},
		{"sm_90a", 100, []int{90, 100}, ""},
		{"sm_90", 80, []int{80, 90}, ""},
		{"sm_80", 120, []int{80, 90}, ""}, // the toolkit is too old
		{"native", 90, nil, ""},
	} {
		got, err := architecture(c.target, c.capability, c.known)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s on %d with %v: %q, %v; want %q", c.target, c.capability, c.known, got, err, c.want)
		}
	}
}

func TestRTCFlags(t *testing.T) {
	got := rtcFlags([]string{"-O3", "-Xcompiler", "-Wall", "--maxrregcount=64", "-Xptxas", "-dlcm=cg,-O2", "-use_fast_math", "-D", "X=1", "-DY", "-I."})
	want := []string{"--maxrregcount=64", "--ptxas-options=-dlcm=cg", "--ptxas-options=-O2", "-use_fast_math", "-DX=1", "-DY"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOccupancy(t *testing.T) {
	// Worked out by hand for capability 9.0.
	for _, c := range []struct {
		threads, registers, shared int64
		want                       float64
		bound                      string
	}{
		{128, 32, 0, 1, "threads"},
		{128, 128, 0, 0.25, "registers"},
		{256, 32, 100 << 10, 0.25, "shared memory"},
		{32, 16, 0, 0.5, "blocks"},
		{1024, 64, 0, 0.5, "registers"},
	} {
		got, bound := occupancy(c.threads, c.registers, c.shared, 2048, 65536, 228<<10)
		if got != c.want || bound != c.bound {
			t.Errorf("%d threads, %d registers, %d bytes: %g bound by %s, want %g by %s", c.threads, c.registers, c.shared, got, bound, c.want, c.bound)
		}
	}
}

func TestProfile(t *testing.T) {
	text := `==PROF== Connected to process 12
==PROF== Profiling "gemm" - 0: 0%....50%....100% - 3 passes
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","12","tune-cuda","127.0.0.1","gemm","1","7","(128, 1, 1)","(16, 16, 1)","0","9.0","Command line profiler metrics","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","12.50"
"0","12","tune-cuda","127.0.0.1","gemm","1","7","(128, 1, 1)","(16, 16, 1)","0","9.0","Command line profiler metrics","l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum","","1,234"
"0","12","tune-cuda","127.0.0.1","gemm","1","7","(128, 1, 1)","(16, 16, 1)","0","9.0","Command line profiler metrics","sm__warps_active.avg.pct_of_peak_sustained_active","%","n/a"
`
	found := map[string]evaluator.Evidence{}
	for _, e := range readProfile(text) {
		found[e.Check] = e
	}
	if e := found["DRAM throughput"]; e.Outcome != evaluator.Passed || e.Value != 12.5 || e.Unit != "%" {
		t.Errorf("DRAM throughput %+v", e)
	}
	if e := found["shared memory bank conflicts"]; e.Value != 1234 {
		t.Errorf("bank conflicts %+v", e)
	}
	for _, check := range []string{"achieved occupancy", "tensor pipe active"} {
		if e := found[check]; e.Outcome != evaluator.NotRun || e.Detail == "" {
			t.Errorf("%s was not measured, and says %+v", check, e)
		}
	}
	// Of several kernels counts are added up, and the busiest is told.
	second := strings.ReplaceAll(strings.ReplaceAll(strings.SplitAfterN(text, "\n", 4)[3], "12.50", "7"), "1,234", "6")
	both := readProfile(text + second)
	if e := both[2]; e.Check != "DRAM throughput" || e.Value != 12.5 {
		t.Errorf("DRAM throughput of two kernels %+v", e)
	}
	if e := both[4]; e.Check != "shared memory bank conflicts" || e.Value != 1240 {
		t.Errorf("bank conflicts of two kernels %+v", e)
	}
	if a, b := profiledKernels([]string{"one"}), profiledKernels([]string{"one", "two"}); a != "one" || b != "regex:^(one|two)$" {
		t.Errorf("kernels are named %q and %q", a, b)
	}
	for _, e := range readProfile("==ERROR== ERR_NVGPUCTRPERM - no permission\n") {
		if e.Outcome != evaluator.NotRun || !strings.Contains(e.Detail, "ERR_NVGPUCTRPERM") {
			t.Errorf("without permission: %+v", e)
		}
	}
}
