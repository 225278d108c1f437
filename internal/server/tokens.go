package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.etcd.io/bbolt"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/internal/words"
)

const (
	// tokensPath is where tokens are made: the only answer that has a secret.
	tokensPath = "/v1/tokens"
	// secretBytes are random.
	secretBytes = 32
	// mostTokens bounds how many valid tokens there may be.
	mostTokens = 10_000
	// tokenMemory is how long a token is listed that is no longer valid, and mostInvalid how many
	// of those are, the newest.
	tokenMemory = 30 * 24 * time.Hour
	mostInvalid = 10_000
	// socketName is who sends what comes over the socket. No token may have this name.
	socketName = "socket"
)

// A token as the service's state keeps it: the secret is not in it, only its SHA-256. A
// secret has 256 random bits, so a hash that is fast to compute cannot be searched either.
type token struct {
	api.Token
	Hash string `json:"hash"`
}

// A held token is one that can be presented.
type held struct {
	token
	used time.Time           // newer than Used, which is written now and then
	live map[*liveKey]func() // ends the requests that it was presented with
}

// liveKey names a request.
type liveKey struct{ _ byte }

// Tokens knows them all. They are found by the hash of the secret, so that how long it takes
// tells nothing about the secrets that there are.
type tokens struct {
	state *state

	mu     sync.Mutex
	byHash map[string]*held
	byID   map[string]*held
}

func openTokens(s *state) (*tokens, error) {
	t := &tokens{state: s, byHash: map[string]*held{}, byID: map[string]*held{}}
	list, err := all[token](s, tokensBucket)
	for _, kept := range list {
		t.add(kept)
	}
	return t, err
}

func (t *tokens) add(kept token) {
	h := &held{token: kept, used: kept.Used, live: map[*liveKey]func(){}}
	t.byHash[kept.Hash], t.byID[kept.ID] = h, h
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// why says why a token is not valid; empty when it is.
func (t *token) why(now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "revoked"
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return "expired"
	}
	return ""
}

// present gives the caller that a secret stands for. Its request's context ends with the
// token: when that is revoked, or expires. Done must be called when the request is answered.
func (t *tokens) present(ctx context.Context, secret string) (c caller, _ context.Context, done func(), ok bool) {
	hash, now := hashOf(secret), time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.byHash[hash]
	if h == nil || h.why(now) != "" {
		return c, ctx, func() {}, false
	}
	h.used = now
	var cancel context.CancelFunc
	if h.Expires.IsZero() {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithDeadline(ctx, h.Expires)
	}
	key := &liveKey{}
	h.live[key] = cancel
	return caller{h.Name, h.Scope, h.ID}, ctx, func() {
		t.mu.Lock()
		delete(h.live, key)
		t.mu.Unlock()
		cancel()
	}, true
}

// create makes a token; its secret is in the answer and nowhere else.
func (t *tokens) create(in api.NewToken) (api.Token, error) {
	now := time.Now().UTC()
	if !in.Expires.IsZero() && !in.Expires.After(now) {
		return api.Token{}, fail(http.StatusUnprocessableEntity, api.BadRequest, "the token would have expired before it is made: give a later time", api.Detail{Location: "body.expires", Message: "is in the past"})
	}
	secret := make([]byte, secretBytes)
	id := make([]byte, 6)
	rand.Read(secret) //nolint:errcheck // never fails
	rand.Read(id)     //nolint:errcheck // never fails
	made := api.Token{ID: hex.EncodeToString(id), Name: in.Name, Scope: in.Scope, Created: now, Expires: in.Expires.UTC()}
	text := words.TokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	kept := token{made, hashOf(text)}
	t.mu.Lock()
	defer t.mu.Unlock()
	valid := 0
	for _, h := range t.byID {
		if h.why(now) == "" {
			valid++
		}
		if h.Name == in.Name && h.why(now) == "" || in.Name == socketName {
			return api.Token{}, fail(http.StatusConflict, api.Conflict, fmt.Sprintf("the name %q is taken: the audit log tells callers by their names, so give another or revoke that token first", in.Name), api.Detail{Location: "body.name", Message: "is taken"})
		}
	}
	if valid >= mostTokens {
		return api.Token{}, fail(http.StatusConflict, api.Conflict, fmt.Sprintf("there are %d valid tokens, the most that a service takes: revoke those that nobody uses", valid))
	}
	if err := t.state.change(func(tx *bbolt.Tx) error { return put(tx, tokensBucket, kept.ID, kept) }); err != nil {
		return api.Token{}, err
	}
	t.add(kept)
	made.Secret = text
	return made, nil
}

// revoke makes a token invalid, for good, and ends the requests that it was presented with.
func (t *tokens) revoke(id string) (api.Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.byID[id]
	if h == nil {
		return api.Token{}, fail(http.StatusNotFound, api.NotFound, fmt.Sprintf("there is no token %q: `tune token list` has their IDs", id))
	}
	if h.Revoked.IsZero() {
		kept := h.token
		kept.Revoked, kept.Used = time.Now().UTC(), h.used.UTC()
		if err := t.state.change(func(tx *bbolt.Tx) error { return put(tx, tokensBucket, id, kept) }); err != nil {
			return api.Token{}, err
		}
		h.token = kept
	}
	for _, end := range h.live {
		end()
	}
	return h.told(), nil
}

// ended is when a token became invalid; zero for a valid one.
func (t *token) ended(now time.Time) time.Time {
	switch {
	case t.why(now) == "":
		return time.Time{}
	case t.Revoked.IsZero(), !t.Expires.IsZero() && t.Expires.Before(t.Revoked):
		return t.Expires
	}
	return t.Revoked
}

// prune forgets tokens that have long been invalid, and gives them.
func (t *tokens) prune(now time.Time) (gone []api.Token, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var invalid []*held
	for _, h := range t.byID {
		if h.why(now) != "" && len(h.live) == 0 {
			invalid = append(invalid, h)
		}
	}
	slices.SortFunc(invalid, func(a, b *held) int { return a.ended(now).Compare(b.ended(now)) })
	n := max(0, len(invalid)-mostInvalid)
	for n < len(invalid) && now.Sub(invalid[n].ended(now)) > tokenMemory {
		n++
	}
	invalid = invalid[:n]
	if n == 0 {
		return nil, nil
	}
	err = t.state.change(func(tx *bbolt.Tx) error {
		for _, h := range invalid {
			if err := tx.Bucket([]byte(tokensBucket)).Delete([]byte(h.ID)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, h := range invalid {
		delete(t.byHash, h.Hash)
		delete(t.byID, h.ID)
		gone = append(gone, h.told())
	}
	return gone, nil
}

// told is what is told of a token.
func (h *held) told() api.Token {
	out := h.Token
	out.Used = h.used.UTC()
	if h.used.IsZero() {
		out.Used = time.Time{}
	}
	return out
}

// list is all tokens, the oldest first.
func (t *tokens) list() []api.Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]api.Token, 0, len(t.byID))
	for _, h := range t.byID {
		out = append(out, h.told())
	}
	slices.SortFunc(out, func(a, b api.Token) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// noteUse writes down when tokens were last used. A request does not wait for that.
func (t *tokens) noteUse() error {
	t.mu.Lock()
	var changed []token
	for _, h := range t.byID {
		if h.used.After(h.Used) {
			h.Used = h.used.UTC()
			changed = append(changed, h.token)
		}
	}
	t.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	return t.state.change(func(tx *bbolt.Tx) error {
		for _, kept := range changed {
			now, ok, err := get[token](tx, tokensBucket, kept.ID)
			if err != nil {
				return err
			}
			if !ok || !now.Revoked.IsZero() {
				continue // meanwhile, which is not undone
			}
			if err := put(tx, tokensBucket, kept.ID, kept); err != nil {
				return err
			}
		}
		return nil
	})
}

// ErrTokenFile is the error of a token file that cannot be used.
var ErrTokenFile = errors.New("the token file")

// file sees to it that a file has an admin's token: the one that it has, or a new one where
// there is no file.
func (t *tokens) file(path string) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w %s "+format, append([]any{ErrTokenFile, path}, args...)...)
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return t.newFile(path)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrTokenFile, err)
	case !info.Mode().IsRegular():
		return bad("is not a regular file: name another")
	case info.Mode().Perm()&0o077 != 0:
		return bad("has mode %04o, so others may have read it: `chmod 600` it if nobody else did, else remove it, and a new token is made", info.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTokenFile, err)
	}
	secret := strings.TrimSpace(string(b))
	t.mu.Lock()
	h := t.byHash[hashOf(secret)]
	t.mu.Unlock()
	switch again := "remove it, and a new one is made"; {
	case !strings.HasPrefix(secret, words.TokenPrefix):
		return bad("has no token in it (%s...): %s", words.TokenPrefix, again)
	case h == nil:
		return bad("has a token that this service does not know, perhaps that of another store: %s", again)
	case h.why(time.Now()) != "":
		return bad("has a token that is %s: %s", h.why(time.Now()), again)
	case h.Scope != api.Admin:
		return bad("has the token of a %s, and must have an admin's: %s", h.Scope, again)
	}
	return nil
}

// newFile makes a token and the file for it. A token whose file cannot be written is revoked:
// nobody knows it. The file gets its name when it is whole, so that a service that is killed
// here begins again.
func (t *tokens) newFile(path string) error {
	host, _ := os.Hostname()
	name := strings.Trim("serve "+host, " ") + " " + time.Now().UTC().Format("20060102T150405.000000000Z")
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) { // a killed service has left it
		return fmt.Errorf("%w: %w", ErrTokenFile, err)
	}
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTokenFile, err)
	}
	defer os.Remove(fresh) //nolint:errcheck // a renamed one is not there any more
	made, err := t.create(api.NewToken{Name: name, Scope: api.Admin})
	if err != nil {
		f.Close()
		return fmt.Errorf("%w: %w", ErrTokenFile, err)
	}
	_, err = f.WriteString(made.Secret + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		if err = os.Link(fresh, path); err != nil && !errors.Is(err, fs.ErrExist) { // a file that came meanwhile stays
			err = os.Rename(fresh, path) // not every file system has links
		}
	}
	if err != nil {
		_, revokeErr := t.revoke(made.ID)
		return fmt.Errorf("%w: %w", ErrTokenFile, errors.Join(err, revokeErr))
	}
	return nil
}

// tokenRoutes are those of tokens.
func (s *Service) tokenRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/whoami", "whoami", api.Viewer, "Whom your token stands for"),
		func(ctx context.Context, _ *struct{}) (*body[api.Who], error) {
			c := callerOf(ctx)
			return &body[api.Who]{api.Who{Name: c.name, Scope: c.scope, Version: build.Name(), Store: s.store.Path(), Service: s.jobs != nil}}, nil
		})
	huma.Register(s.api, operation(http.MethodGet, tokensPath, "tokens", api.Admin, "List tokens, without their secrets", 409),
		func(context.Context, *struct{}) (*body[api.Page[api.Token]], error) {
			if err := s.takesCampaigns(); err != nil {
				return nil, err
			}
			return &body[api.Page[api.Token]]{api.Page[api.Token]{Items: s.tokens.list()}}, nil
		})
	create := operation(http.MethodPost, tokensPath, "create-token", api.Admin, "Make a token; the answer has its secret, which is told once", 409, 413, 422)
	create.DefaultStatus = http.StatusCreated
	huma.Register(s.api, create, func(_ context.Context, in *struct{ Body api.NewToken }) (*body[api.Token], error) {
		if err := s.takesCampaigns(); err != nil {
			return nil, err
		}
		made, err := s.tokens.create(in.Body)
		return &body[api.Token]{made}, failed(err)
	})
	huma.Register(s.api, operation(http.MethodDelete, "/v1/tokens/{id}", "revoke-token", api.Admin, "Revoke a token, for good: requests that it was presented with end", 404, 409),
		func(_ context.Context, in *One) (*body[api.Token], error) {
			if err := s.takesCampaigns(); err != nil {
				return nil, err
			}
			gone, err := s.tokens.revoke(in.ID)
			return &body[api.Token]{gone}, failed(err)
		})
}
