//go:build linux

package cpu_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/longtest"
)

// TestRedTeamJail: kernels of the red team that act on others, read files, or
// speak to the terminal, through the whole ordeal. Those of which only the
// benchmark remains have done no harm: REPORT makes them abort when a call that
// they try is not refused. Honest neighbors are refused by nothing.
func TestRedTeamJail(t *testing.T) {
	longtest.Short(t, "waits for compilers")
	type want struct {
		stage  evaluator.Stage
		reason string
	}
	reached := want{evaluator.StageBenchmark, ""}
	refused := func(what string) want { return want{evaluator.StageParity, what} }
	compile := func(what string) want { return want{evaluator.StageCompile, what} }
	killed := want{evaluator.StageSanitize, "a system call that is refused to candidates"}
	quick := map[string]want{
		"signals-parent-by-fcntl":    refused("tried to open a pipe"),
		"signals-parent-by-socket":   refused("tried to use the network"),
		"pins-parent":                refused("tried to bind another process"),
		"reads-parent-mem":           reached,
		"asm-include-passwd":         compile("/etc/passwd"),
		"escapes-in-error":           compile("#error"),
		"huge-object":                compile("more than 64 MiB"),
		"kills-judge-under-valgrind": killed,
		"honest-sysconf":             reached,
	}
	long := map[string]want{
		"nice-self": refused("change priorities"), "io-uring": refused("io_uring_setup"), "userfaultfd": refused("userfaultfd"),
		"not-dumpable": refused("prctl"), "personality": refused("personality"), "watches-files": refused("watch files"),
		"timer-to-thread": refused("timer_create"), "leaves-timer": refused("setitimer"), "locks-memory": refused("mlockall"),
		"fills-pipes": refused("pipe"), "limits-parent": refused("prlimit"), "forbidden-at-run-time": refused("make code"),
		"forbids-clock": refused("prctl"), "steals-descriptor": refused("pidfd_open"), "memfd": refused("memfd_create"),
		"deletes-file": refused("change a file"), "touches-file-time": refused("utimensat"), "new-namespace": refused("unshare"),
		"reads-home": reached, "reads-cached-reference": reached, "removes-harness-under-valgrind": reached,
		"acts-under-asan": {evaluator.StageSanitize, "tried to write a file"}, "acts-under-valgrind": killed,
		"daemon-under-valgrind": killed, "marks-under-valgrind": killed, "names-under-valgrind": killed,
		"incbin-passwd": compile("/etc/passwd"), "includes-passwd": compile("/etc/passwd"), "asks-for-files": compile("/etc/passwd"),
		"includes-device": compile("/dev/zero"), "compile-time-date": compile("date-time"),
		"honest-has-include": reached, "honest-cpuid": reached, "honest-huge-pages": reached, "honest-thread-pool": reached,
		"honest-counter": reached, "honest-ftz-restored": reached, "honest-large-frame": reached, "honest-reads-clock": reached,
		"honest-scratch": reached, "honest-under-sanitizers": reached, "honest-variable-array": reached,
	}
	f := redFolders(t, "product")[0]
	o := zooOptions(t)
	o.Timeout, o.MemoryLimit = 20*time.Second, 2<<30
	if !longtest.All(t) {
		o.Sanitizers = []string{"memcheck"}
	} else {
		for k, w := range long {
			quick[k] = w
		}
	}
	ev := f.open(t, o)
	for _, tool := range []string{"seccomp", "landlock", "memcheck"} {
		if i := slices.IndexFunc(ev.Describe().Tools, func(t evaluator.Tool) bool { return t.Name == tool && t.Missing == "" }); i < 0 {
			t.Skipf("skipped: no %s here", tool)
		}
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for kernel, w := range quick {
		t.Run(kernel, func(t *testing.T) {
			r, err := ev.Evaluate(t.Context(), f.genome(t, kernel, 7, !strings.HasPrefix(kernel, "honest")), 0)
			if err != nil {
				t.Fatal(err)
			}
			if r.Stage != w.stage || !strings.Contains(r.Reason, w.reason) || w.stage != evaluator.StageBenchmark && r.Verdict == evaluator.Infrastructure {
				t.Errorf("%s at %s: %s; want %s at %s", r.Verdict, r.Stage, r.Reason, w.reason, w.stage)
			}
			text := r.Reason
			for _, s := range r.Steps {
				for _, e := range s.Evidence {
					text += "\n" + e.Detail
				}
			}
			for _, c := range text {
				if c != '\n' && c != '\t' && unicode.IsControl(c) {
					t.Errorf("the result holds control characters: %q", text)
					break
				}
			}
			for line := range bytes.Lines(passwd) {
				if line = bytes.TrimSpace(line); len(line) > 0 && strings.Contains(text, string(line)) {
					t.Errorf("the result holds a line of /etc/passwd: %s", text)
				}
			}
			if stored, err := json.Marshal(r.Steps); err != nil || bytes.Contains(stored, []byte("u001b")) {
				t.Errorf("%s, %v", stored, err)
			}
		})
	}
}
