// Package server is the service: it answers over HTTP for a store that this process holds,
// and runs the campaigns that are submitted to it.
//
// bbolt takes an exclusive lock, so while a process holds a store no other can open it. That
// process, `tune serve` or one `tune run`, therefore listens on a Unix socket beside the
// store, as private as the store (mode 0600), and [OpenReader] turns to it when the file is
// locked. Both answer with the same tree of handlers; that of `tune run` takes no campaigns.
//
// Caveats: the path of a Unix socket is limited to about 100 bytes; for a
// longer one the socket lives in the temporary folder under a name derived from
// the store's path.
package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/store"
)

// A Reader answers queries about a store.
type Reader interface {
	evotune.Reader
	// Close ends the use of the store.
	Close() error
}

// maxSocketPath is what every platform's sockaddr_un holds.
const maxSocketPath = 100

// Socket is the path of the socket that belongs to a store.
func Socket(storePath string) string {
	abs, err := filepath.Abs(storePath)
	if err != nil {
		abs = storePath
	}
	if p := abs + ".sock"; len(p) <= maxSocketPath {
		return p
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(os.TempDir(), fmt.Sprintf("evotune-%x.sock", sum[:8]))
}

// Trusted refuses a socket that is not beside its store, and that another has made than the
// user who asks, the store's owner, or root: in the folder of temporary files everybody can
// take its name, and would answer in the place of the service.
func Trusted(storePath string) error {
	socket := Socket(storePath)
	if abs, err := filepath.Abs(storePath); err != nil || socket == abs+".sock" {
		return nil //nolint:nilerr // whoever opens it says what is wrong
	}
	if stranger(socket, storePath) {
		return fmt.Errorf("the socket %s of the store %s belongs to another user, who may not be trusted: have it removed, or give the store a shorter path", socket, storePath)
	}
	return nil
}

// Dial makes a client of the process that holds a store. The error is store.ErrLocked when
// that process does not answer.
func Dial(ctx context.Context, storePath string) (*api.Client, api.Who, error) {
	socket := Socket(storePath)
	if err := Trusted(storePath); err != nil {
		return nil, api.Who{}, err
	}
	c, err := api.NewClient("unix://"+socket, "")
	if err != nil {
		return nil, api.Who{}, err
	}
	c.Attempts = 1
	who, err := c.Who(ctx)
	if p := (*api.Problem)(nil); errors.As(err, &p) {
		return nil, who, fmt.Errorf("store %s: %w of another version of evotune, which does not know what is asked: use that version to ask it", storePath, store.ErrLocked)
	}
	if err != nil {
		return nil, who, fmt.Errorf("store %s: %w, and no campaign answers on %s: try again when that process has ended", storePath, store.ErrLocked, socket)
	}
	c.Attempts = 0
	return c, who, nil
}

// OpenReader opens a store for queries: the file itself or, when a process holds it, that
// process over its socket. The error is store.ErrLocked when the store is held by a process
// that does not answer.
func OpenReader(ctx context.Context, path string) (Reader, error) {
	s, err := store.Open(path, store.Options{ReadOnly: true, MustExist: true})
	if err == nil {
		return s, nil
	}
	if !errors.Is(err, store.ErrLocked) {
		return nil, err
	}
	c, _, err := Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	return c.Reader(ctx), nil
}

// Serve answers queries for s, which one campaign of this process writes, until stop is
// called.
func Serve(s *store.Store) (stop func(), err error) {
	l, err := ListenSocket(s.Path())
	if err != nil {
		return nil, err
	}
	service, err := New(Options{Store: s})
	if err != nil {
		l.Close()
		return nil, err
	}
	service.Listen(l, true)
	return func() { service.Close(context.Background()) }, nil //nolint:errcheck // without campaigns and state there is nothing to fail
}

// ListenSocket listens on the socket of a store that the caller has open for writing. It
// removes a socket that a dead process left: whoever holds the store's lock owns the socket.
// Nobody but the user who runs this process can connect to it, from its first moment on.
func ListenSocket(storePath string) (net.Listener, error) {
	path := Socket(storePath)
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the socket of %s would be %s, of %d bytes, and at most %d work: give the store a shorter path, or set TMPDIR to a folder with one", storePath, path, len(path), maxSocketPath)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return listenPrivate(path)
}
