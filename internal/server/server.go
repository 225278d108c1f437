// Package server answers queries for a store that a running campaign holds.
//
// bbolt takes an exclusive lock, so while a campaign runs no other process can
// open its store. The campaign therefore listens on a Unix socket beside the
// store, and [OpenReader] turns to it when the file is locked. The protocol is
// JSON over HTTP; the socket is as private as the store (mode 0600).
//
// Caveats: the path of a Unix socket is limited to about 100 bytes; for a
// longer one the socket lives in the temporary folder under a name derived from
// the store's path.
package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/evotune/evotune"
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

// maxRequest bounds a request's body, in bytes.
const maxRequest = 1 << 20

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

// OpenReader opens a store for queries: the file itself or, when a campaign
// holds it, that campaign over its socket. The error is store.ErrLocked when
// the store is held by a process that does not answer.
func OpenReader(ctx context.Context, path string) (Reader, error) {
	s, err := store.Open(path, store.Options{ReadOnly: true, MustExist: true})
	if !errors.Is(err, store.ErrLocked) {
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	c := newClient(ctx, Socket(path))
	if _, pingErr := c.Campaigns(); pingErr != nil {
		return nil, fmt.Errorf("%w, and no campaign answers on %s: try again when that process has ended", err, Socket(path))
	}
	return c, nil
}

// ListenSocket listens on the socket of a store that the caller has open for writing. It
// removes a socket that a dead process left: whoever holds the store's lock owns the socket.
// Nobody but the user who runs this process can connect to it, from its first moment on.
func ListenSocket(storePath string) (net.Listener, error) {
	path := Socket(storePath)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return listenPrivate(path)
}

// Serve answers queries for s until stop is called.
func Serve(s *store.Store) (stop func(), err error) {
	l, err := ListenSocket(s.Path())
	if err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: handler(s), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Warn("the store's socket no longer answers", "socket", l.Addr().String(), "error", err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
		<-done
	}, nil
}

// An answer carries a value, or an error with the name of its sentinel.
type answer struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	Kind  string          `json:"kind,omitempty"`
}

// sentinels are the errors that callers test for on either side.
var sentinels = map[string]error{
	"not-found": store.ErrNotFound,
	"ambiguous": store.ErrAmbiguous,
	"corrupt":   store.ErrCorrupt,
}

// lineage is a graph of candidates without repetitions: the first one is the
// candidate asked for, and parents are named by position.
type lineage struct {
	Candidates []store.Candidate `json:"candidates"`
	Parents    [][]int           `json:"parents"`
}

func flatten(root *store.Node) lineage {
	var l lineage
	at := map[*store.Node]int{}
	var walk func(n *store.Node) int
	walk = func(n *store.Node) int {
		if i, ok := at[n]; ok {
			return i
		}
		i := len(l.Candidates)
		at[n] = i
		l.Candidates = append(l.Candidates, n.Candidate)
		l.Parents = append(l.Parents, nil)
		for _, p := range n.Parents {
			j := walk(p)
			l.Parents[i] = append(l.Parents[i], j)
		}
		return i
	}
	walk(root)
	return l
}

func (l lineage) node() (*store.Node, error) {
	if len(l.Candidates) == 0 || len(l.Parents) != len(l.Candidates) {
		return nil, errors.New("the campaign's answer is no lineage")
	}
	nodes := make([]store.Node, len(l.Candidates))
	for i, c := range l.Candidates {
		nodes[i].Candidate = c
		for _, j := range l.Parents[i] {
			if j < 0 || j >= len(nodes) {
				return nil, errors.New("the campaign's answer is no lineage")
			}
			nodes[i].Parents = append(nodes[i].Parents, &nodes[j])
		}
	}
	return &nodes[0], nil
}

// A scan asks for a page of candidates, a page answers it.
type scan struct {
	Query store.Query `json:"query"`
	From  uint64      `json:"from"`
}

type page struct {
	Candidates []store.Candidate `json:"candidates"`
	Next       uint64            `json:"next"`
}

func handler(s *store.Store) http.Handler {
	mux := http.NewServeMux()
	handle(mux, "campaigns", func(struct{}) ([]store.Campaign, error) { return s.Campaigns() })
	handle(mux, "campaign", s.Campaign)
	handle(mux, "candidate", s.Candidate)
	handle(mux, "best", s.Best)
	handle(mux, "candidates", func(in scan) (out page, err error) {
		out.Candidates, out.Next, err = s.Candidates(in.Query, in.From)
		return out, err
	})
	handle(mux, "lineage", func(id string) (lineage, error) {
		n, err := s.Lineage(id)
		if err != nil {
			return lineage{}, err
		}
		return flatten(n), nil
	})
	return mux
}

// handle serves one query: a JSON argument in, an answer out.
func handle[In, Out any](mux *http.ServeMux, name string, f func(In) (Out, error)) {
	mux.HandleFunc("POST /v1/"+name, func(w http.ResponseWriter, r *http.Request) {
		var in In
		var ans answer
		err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&in)
		if err == nil {
			var out Out
			if out, err = f(in); err == nil {
				ans.Value, err = json.Marshal(out)
			}
		}
		if err != nil {
			ans = answer{Error: err.Error()}
			for kind, sentinel := range sentinels {
				if errors.Is(err, sentinel) {
					ans.Kind = kind
				}
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(ans); err != nil {
			slog.Debug("a query was not answered", "query", name, "error", err)
		}
	})
}

// client is a Reader over a socket.
type client struct {
	ctx  context.Context //nolint:containedctx // Reader's queries are short and share the command's life
	http *http.Client
}

var _ Reader = (*client)(nil)

func newClient(ctx context.Context, socket string) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &client{ctx, &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 30 * time.Second}}
}

// A remoteError keeps the other side's words and the sentinel they stand for.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

func call[In, Out any](c *client, name string, in In) (out Out, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "http://store/v1/"+name, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("the campaign does not know the query %q: is it an older evotune? (%s)", name, resp.Status)
	}
	var ans answer
	if err := json.NewDecoder(resp.Body).Decode(&ans); err != nil {
		return out, fmt.Errorf("the campaign's answer cannot be read: %w", err)
	}
	if ans.Error != "" {
		return out, &remoteError{ans.Error, sentinels[ans.Kind]}
	}
	return out, json.Unmarshal(ans.Value, &out)
}

func (c *client) Campaigns() ([]store.Campaign, error) {
	return call[struct{}, []store.Campaign](c, "campaigns", struct{}{})
}

func (c *client) Campaign(id string) (store.Campaign, error) {
	return call[string, store.Campaign](c, "campaign", id)
}

func (c *client) Candidate(id string) (store.Candidate, error) {
	return call[string, store.Candidate](c, "candidate", id)
}

func (c *client) Best(q store.Query) ([]store.Candidate, error) {
	return call[store.Query, []store.Candidate](c, "best", q)
}

func (c *client) Candidates(q store.Query, from uint64) ([]store.Candidate, uint64, error) {
	p, err := call[scan, page](c, "candidates", scan{q, from})
	return p.Candidates, p.Next, err
}

func (c *client) Lineage(id string) (*store.Node, error) {
	l, err := call[string, lineage](c, "lineage", id)
	if err != nil {
		return nil, err
	}
	return l.node()
}

func (c *client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
