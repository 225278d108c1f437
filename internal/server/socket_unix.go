//go:build unix

package server

import (
	"net"
	"os"
	"sync"
	"syscall"
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
	return l, nil
}
