package cuda

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator/internal/process"
)

// stopWait bounds the wait for processes to stand still, should the system never
// say that they do. A thread that is inside the driver does when it comes out.
const stopWait = 10 * time.Second

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
	// guard outlives evotune where it is killed; told is its input.
	guard *exec.Cmd
	told  io.WriteCloser
}

// guardScript reads lines of process groups, the last of which names those that
// stand still now. When evotune is killed its input ends, and it kills them:
// nobody would ever make them go on, and what stands still does not see that its
// parent has ended.
const guardScript = `trap '' HUP INT TERM
while read -r line; do stopped=$line; done
for p in $stopped; do kill -s KILL -- "-$p"; done`

// tell names those to the guard that stand still. The caller holds the lock.
func (s *startup) tell(groups []int) {
	if s.guard == nil {
		s.guard = exec.Command("/bin/sh", "-c", guardScript)
		s.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		told, err := s.guard.StdinPipe()
		if err == nil {
			err = s.guard.Start()
		}
		if err == nil {
			s.told = told
		}
	}
	if s.told != nil {
		// A guard that is gone can only be missed if evotune is killed now.
		_, _ = fmt.Fprintln(s.told, strings.Trim(fmt.Sprint(groups), "[]"))
	}
}

// close ends the guard.
func (s *startup) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told != nil {
		s.tell(nil)
		_ = s.told.Close()
		_ = s.guard.Wait() // its status says nothing
		s.told = nil
	}
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
		s.stop()
	}
}

// stop makes all stand still and returns them. The caller holds the lock.
func (s *startup) stop() []*worker {
	var all []*worker
	var groups []int
	for w := range s.workers {
		all, groups = append(all, w), append(groups, w.PID)
	}
	if len(all) > 0 {
		s.tell(groups)
	}
	for _, w := range all {
		signalGroup(w, unix.SIGSTOP)
	}
	return all
}

// remove lets a worker go that has started, or has failed to.
func (s *startup) remove(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused > 0 {
		signalGroup(w, unix.SIGCONT)
	}
	delete(s.workers, w)
}

// pause stops all that are starting, and those that will, until resume. It
// returns when they stand still.
func (s *startup) pause() {
	s.mu.Lock()
	if s.paused++; s.paused == 1 {
		s.since = time.Now()
	}
	left := s.stop()
	s.mu.Unlock()
	for begin := time.Now(); len(left) > 0 && time.Since(begin) < stopWait; time.Sleep(200 * time.Microsecond) {
		left = slices.DeleteFunc(left, func(w *worker) bool { return !w.starting.Load() || standsStill(w.PID) })
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
	if s.told != nil {
		s.tell(nil)
	}
}

// lost is the total time that starting workers have been paused.
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
	if !w.Ended() {
		_ = unix.Kill(-w.PID, signal) // it may end in this moment
	}
}

// standsStill says whether no thread of a process and of its descendants runs. One
// that waits for its child to begin a program (vfork) does not see the signal,
// and stands still with the child.
func standsStill(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return true
	}
	for _, task := range tasks {
		thread, err := process.ReadStat(filepath.Join(task, "stat"))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
			continue // it has ended
		case err != nil:
			return false
		}
		children, _ := os.ReadFile(filepath.Join(task, "children"))
		list := strings.Fields(string(children))
		for _, child := range list {
			if n, err := strconv.Atoi(child); err == nil && !standsStill(n) {
				return false
			}
		}
		if strings.IndexByte("TtZX", thread.State) < 0 && (thread.State != 'D' || len(list) == 0) {
			return false
		}
	}
	return true
}
