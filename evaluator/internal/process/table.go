package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// An Entry is one line of the process table.
type Entry struct {
	PID, Parent, Group int
	Name               string
	State              byte // as in proc(5): 'R', 'T', 'Z'
}

// Table lists all processes; it is nil where there is no /proc.
func Table() []Entry {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return nil
	}
	var list []Entry
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		if e, err := ReadStat(filepath.Join("/proc", name, "stat")); err == nil {
			list = append(list, e)
		}
	}
	return list
}

// userThreads is what UserThreads found last, and when.
var userThreads struct {
	sync.Mutex
	count int
	at    time.Time
}

// UserThreads counts the threads of all processes of this user, or did so some seconds
// ago.
func UserThreads() int {
	known := &userThreads
	known.Lock()
	defer known.Unlock()
	if time.Since(known.at) < 5*time.Second {
		return known.count
	}
	known.count, known.at = 0, time.Now()
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if text, err := os.ReadFile(filepath.Join(dir, "status")); err == nil { // others have gone meanwhile
			if m := userStatus.FindSubmatch(text); m != nil && string(m[1]) == strconv.Itoa(os.Getuid()) {
				n, _ := strconv.Atoi(string(m[2]))
				known.count += n
			}
		}
	}
	return known.count
}

var userStatus = regexp.MustCompile(`(?s)\nUid:\t(\d+)\t.*\nThreads:\t(\d+)\n`)

// ReadStat reads the entry of a process or a thread from its file "stat". The error
// is fs.ErrNotExist or ESRCH when it has gone.
func ReadStat(path string) (e Entry, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	// "pid (name) state ppid pgrp ...", where the name may hold anything.
	left, right := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if left < 0 || right < left {
		return e, fmt.Errorf("%s: %.100q is not an entry", path, text)
	}
	fields := strings.Fields(string(text[right+1:]))
	if len(fields) < 3 {
		return e, fmt.Errorf("%s: %.100q is not an entry", path, text)
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(string(text[:left])))
	parent, err2 := strconv.Atoi(fields[1])
	group, err3 := strconv.Atoi(fields[2])
	return Entry{pid, parent, group, string(text[left+1 : right]), fields[0][0]}, errors.Join(err1, err2, err3)
}

// Descendants lists those in a table of whom a process is an ancestor.
func Descendants(table []Entry, of int) (list []Entry) {
	for queue := []int{of}; len(queue) > 0; queue = queue[1:] {
		for _, e := range table {
			if e.Parent == queue[0] {
				queue, list = append(queue, e.PID), append(list, e)
			}
		}
	}
	return list
}
