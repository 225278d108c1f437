package cuda

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// stopWait bounds the wait for processes to stand still. A thread that is inside
// the driver does so when it comes out.
const stopWait = time.Second

// A startup holds the workers of one GPU that are being started. To start one,
// under a tool above all, takes seconds and disturbs what is timed, and timing
// cannot wait so long each time that a candidate has cost a worker. So nobody
// waits: while something is timed the starting processes are stopped
// (SIGSTOP), and go on afterwards.
type startup struct {
	mu      sync.Mutex
	workers map[*worker]bool
	paused  int // times, without as many resumes
	since   time.Time
	total   time.Duration
}

// add takes a worker in as soon as it has a process.
func (s *startup) add(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers == nil {
		s.workers = map[*worker]bool{}
	}
	s.workers[w] = true
	if s.paused > 0 {
		signalGroup(w, unix.SIGSTOP)
	}
}

// remove lets a worker go that has started, or has failed to.
func (s *startup) remove(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers[w] && s.paused > 0 {
		signalGroup(w, unix.SIGCONT)
	}
	delete(s.workers, w)
}

// pause stops all that are starting, and those that will, until resume.
func (s *startup) pause() {
	s.mu.Lock()
	if s.paused++; s.paused == 1 {
		s.since = time.Now()
	}
	var pids []int
	for w := range s.workers {
		signalGroup(w, unix.SIGSTOP)
		pids = append(pids, w.pid)
	}
	s.mu.Unlock()
	for begin := time.Now(); len(pids) > 0 && time.Since(begin) < stopWait; time.Sleep(200 * time.Microsecond) {
		for len(pids) > 0 && standsStill(pids[0]) {
			pids = pids[1:]
		}
	}
}

func (s *startup) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused--; s.paused > 0 {
		return
	}
	s.total += time.Since(s.since)
	for w := range s.workers {
		signalGroup(w, unix.SIGCONT)
	}
}

// lost is the time for which those that were starting stood still, ever.
func (s *startup) lost() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused > 0 {
		return s.total + time.Since(s.since)
	}
	return s.total
}

// signalGroup signals a worker that has not ended, and the tool around it.
func signalGroup(w *worker, signal unix.Signal) {
	if !w.ended() {
		_ = unix.Kill(-w.pid, signal) // it may end in this moment
	}
}

// standsStill says whether no thread of a process and of its descendants runs.
func standsStill(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return true
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(filepath.Join(task, "stat"))
		if err != nil {
			continue // it has ended
		}
		// The state follows the name, which may hold anything.
		state := bytes.TrimLeft(stat[bytes.LastIndexByte(stat, ')')+1:], " ")
		if len(state) > 0 && !strings.ContainsRune("TtZX", rune(state[0])) {
			return false
		}
		children, _ := os.ReadFile(filepath.Join(task, "children"))
		for _, child := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(child); err == nil && !standsStill(n) {
				return false
			}
		}
	}
	return true
}
