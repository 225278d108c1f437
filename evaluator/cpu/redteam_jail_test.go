//go:build linux

package cpu_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/internal/longtest"
)

// An inmate of the jail ends at a stage, with a reason. Those that try what is refused quietly reach the last
// stage and have done no harm: REPORT makes them abort when a call is not refused.
type jailed struct {
	stage  evaluator.Stage
	reason string
}

func refusedAt(stage evaluator.Stage, reason string) jailed { return jailed{stage, reason} }

const (
	compiled, verified, sanitized = evaluator.StageCompile, evaluator.StageParity, evaluator.StageSanitize
	killed                        = "a system call that is refused to candidates"
)

// TestRedTeamJail: kernels of the red team that act on others, read files, or
// speak to the terminal. Honest neighbors are refused by nothing.
func TestRedTeamJail(t *testing.T) {
	redTeamJail(t, verified, []string{"none"}, map[string]jailed{
		"pins-parent":      refusedAt(verified, "tried to bind another process"),
		"reads-parent-mem": {}, "honest-sysconf": {},
		"asm-include-passwd": refusedAt(compiled, "/etc/passwd"),
		"escapes-in-error":   refusedAt(compiled, "#error"),
	})
}

// TestRedTeamJailLong has more of them, one of which acts under valgrind.
func TestRedTeamJailLong(t *testing.T) {
	longtest.Long(t, "runs valgrind")
	redTeamJail(t, sanitized, []string{"memcheck"}, map[string]jailed{
		"signals-parent-by-fcntl":    refusedAt(verified, "tried to open a pipe"),
		"signals-parent-by-socket":   refusedAt(verified, "tried to use the network"),
		"huge-object":                refusedAt(compiled, "more than 64 MiB"),
		"kills-judge-under-valgrind": refusedAt(sanitized, killed),
	})
}

// TestRedTeamJailNightly has all others, through the whole ordeal.
func TestRedTeamJailNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "judges many candidates with every tool")
	refused := func(what string) jailed { return jailed{verified, what} }
	compile := func(what string) jailed { return jailed{compiled, what} }
	reached, underTool := jailed{}, jailed{sanitized, killed}
	redTeamJail(t, evaluator.StageBenchmark, nil, map[string]jailed{
		"nice-self": refused("change priorities"), "io-uring": refused("io_uring_setup"), "userfaultfd": refused("userfaultfd"),
		"not-dumpable": refused("prctl"), "personality": refused("personality"), "watches-files": refused("watch files"),
		"timer-to-thread": refused("timer_create"), "leaves-timer": refused("setitimer"), "locks-memory": refused("mlockall"),
		"fills-pipes": refused("pipe"), "limits-parent": refused("prlimit"), "forbidden-at-run-time": refused("make code"),
		"forbids-clock": refused("prctl"), "steals-descriptor": refused("pidfd_open"), "memfd": refused("memfd_create"),
		"deletes-file": refused("change a file"), "touches-file-time": refused("utimensat"), "new-namespace": refused("unshare"),
		"child-shares-memory": refused("start a process"), "child-of-fork": refused("start a process"), "child-by-vfork": refused("start a process"),
		"reads-home": reached, "reads-cached-reference": reached, "removes-harness-under-valgrind": reached,
		"acts-under-asan": {sanitized, "tried to write a file"}, "acts-under-valgrind": underTool,
		"daemon-under-valgrind": underTool, "marks-under-valgrind": underTool, "names-under-valgrind": underTool,
		"incbin-passwd": compile("/etc/passwd"), "includes-passwd": compile("/etc/passwd"), "asks-for-files": compile("/etc/passwd"),
		"includes-device": compile("/dev/zero"), "compile-time-date": compile("date-time"),
		"honest-has-include": reached, "honest-cpuid": reached, "honest-huge-pages": reached, "honest-thread-pool": reached,
		"honest-counter": reached, "honest-ftz-restored": reached, "honest-large-frame": reached, "honest-reads-clock": reached,
		"honest-scratch": reached, "honest-under-sanitizers": reached, "honest-variable-array": reached,
	})
}

// redTeamJail judges kernels up to a stage.
func redTeamJail(t *testing.T, last evaluator.Stage, sanitizers []string, kernels map[string]jailed) {
	t.Helper()
	f := redFolders(t, "product")[0]
	o := zooOptions(t)
	o.Timeout, o.MemoryLimit, o.Sanitizers = 20*time.Second, 2<<30, sanitizers
	ev := f.open(t, o)
	needs := []string{"seccomp", "landlock"}
	if !slices.Equal(sanitizers, []string{"none"}) {
		needs = append(needs, "memcheck")
	}
	for _, tool := range needs {
		if backendtest.Missing(ev.Describe(), tool) {
			t.Skipf("skipped: no %s here", tool)
		}
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for kernel, w := range kernels {
		t.Run(kernel, func(t *testing.T) {
			r, err := ev.Until(t.Context(), f.genome(t, kernel, 7, !strings.HasPrefix(kernel, "honest")), last)
			if err != nil {
				t.Fatal(err)
			}
			w.stage = cmp.Or(w.stage, last)
			passes := r.Verdict == "" || last == evaluator.StageBenchmark && r.Stage == last // where a busy machine may disturb it
			if r.Stage != w.stage || !strings.Contains(r.Reason, w.reason) || passes != (w.reason == "") || w.reason != "" && r.Verdict == evaluator.Infrastructure {
				t.Errorf("%s at %s: %s; want %q at %s", r.Verdict, r.Stage, r.Reason, w.reason, w.stage)
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
