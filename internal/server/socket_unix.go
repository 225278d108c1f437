//go:build unix

package server

import (
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/evotune/evotune/internal/peer"
)

// umask is one for the whole process.
var umask sync.Mutex

// listenPrivate listens on a Unix socket with mode 0600. Between bind and chmod a socket has
// the mode that the umask leaves, and somebody could connect; so the umask leaves nothing for
// others. What another goroutine creates meanwhile is private too, which harms nobody.
func listenPrivate(path string) (net.Listener, error) {
	umask.Lock()
	old := syscall.Umask(0o077)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	umask.Unlock()
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return peer.Outsiders(l), nil
}

// stranger says whether a socket is of another user than the one who asks, the owner of the
// store, and root.
func stranger(socket, storePath string) bool {
	owner := func(info os.FileInfo, err error) (uint32, bool) {
		if err != nil {
			return 0, false
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return 0, false
		}
		return s.Uid, true
	}
	has, known := owner(os.Lstat(socket))
	if !known || has == 0 || int(has) == os.Geteuid() {
		return false
	}
	of, known := owner(os.Stat(storePath))
	return !known || has != of
}
