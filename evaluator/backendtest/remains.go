package backendtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A process is one line of the process table.
type process struct {
	pid, parent int
	name        string
	state       string
}

// descendants lists the living processes that this one is an ancestor of, by
// /proc. Where there is no /proc it says so and returns false.
func descendants() ([]process, bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false
	}
	children := map[int][]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	var found []process
	for queue := []int{os.Getpid()}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			queue = append(queue, p.pid)
			if p.state != "Z" { // a zombie holds nothing but its number
				found = append(found, p)
			}
		}
	}
	return found, true
}

// readProcess reads /proc/PID/stat; false when the process has gone.
func readProcess(pid int) (process, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	// "pid (name) state ppid ...": the name may hold anything, parentheses too.
	left, right := strings.Index(string(text), "("), strings.LastIndex(string(text), ")")
	if left < 0 || right < left {
		return process{}, false
	}
	fields := strings.Fields(string(text[right+1:]))
	if len(fields) < 2 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}, false
	}
	return process{pid: pid, parent: parent, name: string(text[left+1 : right]), state: fields[0]}, true
}

// noProcesses fails the test when a process other than those known stays
// longer than grace. Orphans count too: the suite makes itself their reaper.
func noProcesses(t *testing.T, known []process, grace time.Duration) {
	t.Helper()
	var left []string
	eventually(grace, func() bool {
		now, ok := descendants()
		if !ok {
			t.Log("no /proc here: whether processes are left was not looked at")
			return true
		}
		left = left[:0]
		for _, p := range now {
			if !slices.ContainsFunc(known, func(k process) bool { return k.pid == p.pid }) {
				left = append(left, fmt.Sprintf("%d (%s, state %s)", p.pid, p.name, p.state))
			}
		}
		return len(left) == 0
	})
	if len(left) > 0 {
		t.Errorf("processes left behind: %s", strings.Join(left, ", "))
	}
}

// descriptors counts the open file descriptors of this process; -1 where they
// cannot be counted.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// noFiles fails the test when the folder holds anything.
func noFiles(t *testing.T, dir string) {
	t.Helper()
	var left []string
	eventually(time.Second, func() bool {
		left = left[:0]
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil && path != dir {
				left = append(left, strings.TrimPrefix(path, dir+"/"))
			}
			return nil
		})
		return len(left) == 0
	})
	if len(left) > 0 {
		t.Errorf("temporary files left behind in %s: %s", dir, strings.Join(left[:min(len(left), 12)], ", "))
	}
}

// eventually asks until the answer is yes or the time is over.
func eventually(limit time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(limit)
	for {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
}
