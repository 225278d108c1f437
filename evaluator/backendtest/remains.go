package backendtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/internal/process"
)

// descendants lists the living processes that this one is an ancestor of. Where
// there is no /proc it returns false.
func descendants() ([]process.Entry, bool) {
	table := process.Table()
	found := process.Descendants(table, os.Getpid())
	// A zombie holds nothing but its number.
	return slices.DeleteFunc(found, func(p process.Entry) bool { return p.State == 'Z' }), table != nil
}

// noProcesses fails the test when more processes than may be kept stay longer than grace,
// besides those known. Orphans count too: the suite makes itself their reaper.
func noProcesses(t *testing.T, known []process.Entry, keeps int, grace time.Duration) {
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
			if !slices.ContainsFunc(known, func(k process.Entry) bool { return k.PID == p.PID }) {
				left = append(left, fmt.Sprintf("%d (%s, state %c)", p.PID, p.Name, p.State))
			}
		}
		return len(left) <= keeps
	})
	if len(left) > keeps {
		t.Errorf("processes left behind, of which %d may be kept: %s", keeps, strings.Join(left, ", "))
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
