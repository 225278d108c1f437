package cpu

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/plain"
	programs "github.com/evotune/evotune/evaluator/internal/process"
)

const (
	// disturbedShare of the cores' time in others' hands disturbs measurements: a
	// batch is about as long as a time slice, so that about this share of the
	// batches is hit, and the median of five stands one in ten.
	disturbedShare = 0.1
	// The kernel counts in hundredths of a second: shorter times than
	// shortestWindow tell nothing, and usualWindow is what is looked at.
	shortestWindow = 100 * time.Millisecond
	usualWindow    = 250 * time.Millisecond
	tick           = 0.01 // seconds
)

// A usage is what the kernel's counters say at one moment, in seconds since the
// machine was started.
type usage struct {
	at          time.Time
	busy, steal float64 // of the cores that evotune may use
	own         float64 // what evotune and its processes used
	pressure    float64 // in which some process waited for a core
}

// readUsage reads the counters. The processor time of the given processes is
// evotune's own.
func readUsage(pids []int) *usage {
	u := &usage{at: time.Now()}
	var allowed unix.CPUSet
	all := unix.SchedGetaffinity(0, &allowed) != nil
	text, _ := os.ReadFile("/proc/stat")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		n, err := strconv.Atoi(f[0][len("cpu"):])
		if err != nil || !all && !allowed.IsSet(n) {
			continue
		}
		// user nice system idle iowait irq softirq steal
		for i, field := range f[1:9] {
			v, _ := strconv.ParseFloat(field, 64)
			switch i {
			case 3, 4:
			case 7:
				u.steal += v * tick
			default:
				u.busy += v * tick
			}
		}
	}
	text, _ = os.ReadFile("/proc/pressure/cpu")
	if _, total, ok := strings.Cut(plain.First(string(text)), "total="); ok {
		v, _ := strconv.ParseFloat(total, 64)
		u.pressure = v / 1e6
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if unix.Getrusage(who, &r) == nil {
			u.own += float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
		}
	}
	for _, pid := range pids {
		if t, err := processorTime(pid); err == nil {
			u.own += t.Seconds() + waitedFor(pid)
		}
	}
	return u
}

// waitedFor is the processor time, in seconds, of those that a process has started and waited for: a compiler's parts.
func waitedFor(pid int) float64 {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// The name of the program, in parentheses, may have spaces; the times are the 16th and the 17th field, and the third is behind the name.
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 15 {
		return 0
	}
	user, _ := strconv.ParseFloat(string(f[13]), 64)
	system, _ := strconv.ParseFloat(string(f[14]), 64)
	return (user + system) * tick
}

// descendants lists the processes that evotune started, and theirs.
func descendants() (pids []int) {
	for _, p := range programs.Descendants(programs.Table(), os.Getpid()) {
		pids = append(pids, p.PID)
	}
	return pids
}

// since says what the machine did since an earlier reading.
func (u *usage) since(before *usage) (c evaluator.Conditions) {
	window := u.at.Sub(before.at).Seconds()
	n := float64(cores())
	share := func(seconds float64) float64 {
		if seconds <= 2*tick {
			return 0 // rounding
		}
		return math.Min(1, seconds/(window*n))
	}
	c.Busy = share(u.busy - before.busy - (u.own - before.own))
	c.Steal = share(u.steal - before.steal)
	c.Pressure = math.Min(1, max(0, u.pressure-before.pressure)/window)
	var words []string
	if c.Busy >= disturbedShare {
		words = append(words, fmt.Sprintf("other processes keep %.1f of %d cores busy", c.Busy*n, cores()))
	}
	if c.Steal >= disturbedShare {
		words = append(words, fmt.Sprintf("the hypervisor takes %.0f%% of the time", 100*c.Steal))
	}
	c.Disturbed = strings.Join(words, ", and ")
	return c
}

// Conditions implements [evaluator.Lab]. It looks for a fifth of a second.
func (h *lab) Conditions(ctx context.Context) evaluator.Conditions {
	before := readUsage(descendants())
	select {
	case <-time.After(2 * shortestWindow):
	case <-ctx.Done():
		return evaluator.Conditions{}
	}
	c := readUsage(descendants()).since(before)
	c.ClockMHz = clockMHz()
	return c
}

// usage reads the counters for a session that has the machine to itself, or all but the cores that it leaves.
func (s *session) usage() *usage {
	if s.leaves > 0 {
		return readUsage(descendants())
	}
	var pids []int
	for _, e := range s.entries {
		if e.p != nil && !e.p.ended {
			pids = append(pids, e.p.pid)
		}
	}
	for _, b := range []*process{s.state.timed, s.state.answers} {
		if b != nil {
			pids = append(pids, b.pid)
		}
	}
	return readUsage(pids)
}

// conditions says what happened since it last said something. It says nothing
// while that is not long ago.
func (s *session) conditions(last bool) (c evaluator.Conditions) {
	window := usualWindow
	if last {
		window = shortestWindow
	}
	if time.Since(s.seen.at) >= window {
		now := s.usage()
		c = now.since(s.seen)
		s.seen = now
	}
	c.Cores = runtime.NumCPU()
	if last {
		c.ClockMHz = clockMHz()
	}
	return c
}

// clockMHz is the clock of the fastest core; zero where the kernel does not tell.
func clockMHz() int {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return 0
	}
	most := 0.0
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "cpu MHz" {
			v, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			most = max(most, v)
		}
	}
	return int(math.Round(most))
}
