package cpu

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
)

// cpuInfo reads the first processor of /proc/cpuinfo.
var cpuInfo = sync.OnceValue(func() map[string]string {
	info := map[string]string{}
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return info
	}
	defer discard(f)
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, ok := strings.Cut(s.Text(), ":")
		if !ok {
			if len(info) > 0 {
				break
			}
			continue
		}
		info[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return info
})

// cpuFlags are the instruction sets, in one order.
func cpuFlags() string {
	info := cpuInfo()
	flags := info["flags"]
	if flags == "" {
		flags = info["Features"] // aarch64
	}
	return strings.Join(slices.Sorted(strings.FieldsSeq(flags)), " ")
}

// A cacheLevel is one cache as the first processor sees it.
type cacheLevel struct {
	level int
	kind  string // Data, Instruction, Unified
	bytes int64
	line  int64
}

// caches reads the cache hierarchy; empty where the kernel does not tell.
var caches = sync.OnceValue(func() []cacheLevel {
	dirs, _ := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*")
	var list []cacheLevel
	for _, d := range dirs {
		level, err1 := strconv.Atoi(readLine(d, "level"))
		size, err2 := parseBinarySize(readLine(d, "size"))
		if err1 != nil || err2 != nil {
			continue
		}
		line, _ := strconv.ParseInt(readLine(d, "coherency_line_size"), 10, 64)
		list = append(list, cacheLevel{level, readLine(d, "type"), size, line})
	}
	return list
})

func readLine(parts ...string) string {
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// parseBinarySize reads "32K" or "1024K" or "8M".
func parseBinarySize(s string) (int64, error) {
	shift := 0
	switch {
	case strings.HasSuffix(s, "K"):
		shift = 10
	case strings.HasSuffix(s, "M"):
		shift = 20
	case strings.HasSuffix(s, "G"):
		shift = 30
	}
	n, err := strconv.ParseInt(strings.TrimRight(s, "KMG"), 10, 64)
	return n << shift, err
}

// cacheBytes is the size of the data cache of a level; 0 where there is none.
func cacheBytes(level int) int64 {
	for _, c := range caches() {
		if c.level == level && c.kind != "Instruction" {
			return c.bytes
		}
	}
	return 0
}

// lastLevelBytes is the size of the largest cache; 8 MiB where nobody says.
func lastLevelBytes() int64 {
	var most int64
	for _, c := range caches() {
		if c.kind != "Instruction" {
			most = max(most, c.bytes)
		}
	}
	if most == 0 {
		return 8 << 20
	}
	return most
}

// cores is how many processors this process may use.
func cores() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err == nil && set.Count() > 0 {
		return set.Count()
	}
	return runtime.NumCPU()
}

// vectorBytes is the width of the widest vector register.
func vectorBytes() int64 {
	flags := strings.Fields(cpuFlags())
	switch {
	case slices.Contains(flags, "avx512f"):
		return 64
	case slices.Contains(flags, "avx"):
		return 32
	}
	return 16
}

// Available implements [evaluator.Backend].
func (b *Backend) Available(context.Context) error { return nil }

// Limits implements [evaluator.Backend].
func (b *Backend) Limits() map[string]any {
	m := map[string]any{
		"device_cores":        int64(cores()),
		"device_vector_bytes": vectorBytes(),
		"device_l3_bytes":     cacheBytes(3),
	}
	if n := cacheBytes(1); n > 0 {
		m["device_l1_bytes"] = n
	}
	if n := cacheBytes(2); n > 0 {
		m["device_l2_bytes"] = n
	}
	for _, c := range caches() {
		if c.level == 1 && c.line > 0 {
			m["device_line_bytes"] = c.line
		}
	}
	return m
}

// Device implements [evaluator.Backend].
func (b *Backend) Device(context.Context) (evaluator.Device, error) { return describeDevice(), nil }

// describeDevice collects what identifies this machine. The fingerprint holds
// what changes how fast code runs and is stable over a boot; the rest is for
// people.
func describeDevice() evaluator.Device {
	info := cpuInfo()
	name := info["model name"]
	if name == "" {
		name = strings.TrimSpace("CPU " + info["CPU implementer"] + " " + info["CPU part"])
	}
	facts := map[string]string{
		"architecture": runtime.GOARCH,
		"cores":        strconv.Itoa(cores()),
		"flags":        cpuFlags(),
		"microcode":    info["microcode"],
		"stepping":     strings.TrimSpace(info["cpu family"] + "." + info["model"] + "." + info["stepping"]),
	}
	for _, c := range caches() {
		if c.kind != "Instruction" {
			facts["l"+strconv.Itoa(c.level)] = strconv.FormatInt(c.bytes>>10, 10) + "K"
		}
	}
	fingerprint := cache.Key("cpu 1", name, facts["architecture"], facts["cores"], facts["flags"],
		facts["microcode"], facts["stepping"], facts["l1"], facts["l2"], facts["l3"])[:16]
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		facts["kernel"] = cString(uts.Release[:])
	}
	if g := readLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"); g != "" {
		facts["governor"] = g
	} else {
		facts["governor"] = "not visible"
	}
	if h := readLine("/sys/hypervisor/type"); h != "" {
		facts["hypervisor"] = h
	} else if slices.Contains(strings.Fields(facts["flags"]), "hypervisor") {
		facts["hypervisor"] = "yes"
	}
	facts["memory"] = memoryTotal()
	for k, v := range facts {
		if v == "" {
			delete(facts, k)
		}
	}
	return evaluator.Device{Name: name, Kind: "cpu", Fingerprint: fingerprint, Facts: facts}
}

func memoryTotal() string {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.Join(strings.Fields(strings.TrimPrefix(line, "MemTotal:")), " ")
}

func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
