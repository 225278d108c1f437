// Package peer tells who connects to a Unix socket.
package peer

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

type outsiders struct{ net.Listener }

// Outsiders refuses connections to a listener's Unix socket from what this process started, at
// whatever remove: a tool around a GPU candidate may open such sockets, and has the same user.
// On other systems than Linux it refuses nobody.
func Outsiders(l net.Listener) net.Listener { return outsiders{l} }

func (g outsiders) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if pid, known := peer(c); known && !descends(pid, os.Getpid()) {
			return c, nil
		}
		c.Close()
	}
}

// peer is the process that connected.
func peer(c net.Conn) (pid int, known bool) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	var who *unix.Ucred
	if failed := raw.Control(func(fd uintptr) { who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); failed != nil || err != nil {
		return 0, false
	}
	return int(who.Pid), true
}

// descends says whether a process comes from another one. One that has ended by now may
// have: nobody waits for an answer.
func descends(pid, from int) bool {
	if pid == from {
		return false
	}
	for pid > 1 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name may have spaces
		if len(fields) < 2 {
			return true
		}
		if pid, err = strconv.Atoi(string(fields[1])); err != nil || pid == from {
			return true
		}
	}
	return false // also one outside of this namespace of processes, 0
}
