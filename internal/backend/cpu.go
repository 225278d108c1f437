package backend

import (
	"regexp"
	"time"
)

var cpu = Facts{
	Name: CPU, Device: "the CPU", Language: "C", Source: ".c", Library: "c",
	Flag:    func(flag string) bool { return cFlag.MatchString(flag) && !refusedFlag.MatchString(flag) },
	Sandbox: []string{"seccomp", "landlock"},
	Rules: &Rules{
		Batch: 2 * time.Millisecond, Ask: 1,
		Least: 5, LeastSlow: 3, SlowPair: 300 * time.Millisecond,
		Samples: 20, SampleTime: time.Second, Finals: 20, Processes: 6, LeastSet: time.Second, HeldOut: 500 * time.Microsecond,
		// What an honest batch leaves unclaimed does not depend on how long it takes:
		// 45 to 230 us of the operating system's work around it.
		ClockShare: 0.01, ClockSlack: 80 * time.Microsecond, LaunchSlack: 20 * time.Nanosecond,
		ComputeHeadroom: 1.10, MemoryHeadroom: 1.30,
		Hangs:      5 * time.Second,
		Sanitizers: []string{"asan", "tsan", Guards, "memcheck"},
	},
}

var (
	cFlag = regexp.MustCompile(`^-(O([0-3sgz]|fast)?|std=[a-z0-9+:]+|pthread|lm|W[a-z0-9=+-]+|m[A-Za-z0-9.=+_-]+|f[a-z0-9-]+(=[a-z0-9-]+)?|` +
		`[DU][A-Za-z_]\w*(=[^\x00-\x1f\x7f]*)?)$`)
	// These read or write files, run programs, hide code from a sanitizer, change the
	// format of diagnostics, compile nothing, or name what evotune adds.
	refusedFlag = regexp.MustCompile(`^-(mllvm|[DU]evotune|f(no-)?(diagnostics|syntax-only|preprocessed|directives-only|plugin|pass-plugin|dump|profile|auto-profile|sanitize|opt-info|` +
		`save-optimization|disable-|enable-|dbg-cnt|help|target-help|self-test|wpa|ltrans|resolution|cs-profile|memory-profile|stack-usage|callgraph-info|test-coverage|coverage|compare-debug|use-ld|report-bug|integrated-as|lto|module|prebuilt-module|offload|openmp-targets|embed|deps|proc-stat|time-trace).*)`)
)
