package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

// A guarded is a service as strangers reach it: over TCP, with tokens.
type guarded struct {
	*testing.T
	service *Service
	url     string
	client  *http.Client
	admin   string
	secrets map[api.Scope]string
	logs    *lockedBuffer
}

// A lockedBuffer takes the logs.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// protect starts a service with a token of each scope.
func protect(t *testing.T, limits Limits) *guarded {
	t.Helper()
	return protectIn(t, t.TempDir(), limits)
}

func protectIn(t *testing.T, dir string, limits Limits) *guarded {
	t.Helper()
	s, err := store.Open(filepath.Join(dir, "s.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	g := &guarded{T: t, secrets: map[api.Scope]string{}, logs: &lockedBuffer{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
	file := filepath.Join(dir, "token")
	g.service, err = New(Options{
		Store: s, Machine: &evotune.Machine{}, TokenFile: file, Limits: limits,
		Fleet:  func(roster *fleet.Roster) (fleet.Transport, error) { return fleet.NewWire(roster).Transport(), nil },
		Logger: slog.New(slog.NewTextHandler(g.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.service.Listen(l, false)
	g.url = "http://" + l.Addr().String()
	t.Cleanup(func() {
		g.client.CloseIdleConnections()
		if err := g.service.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g.admin = strings.TrimSpace(string(b))
	for _, scope := range allScopes {
		if made, err := g.service.tokens.create(api.NewToken{Name: "a-" + string(scope), Scope: scope}); err == nil {
			g.secrets[scope] = made.Secret
		}
	}
	return g
}

// allScopes are those that a token may have.
var allScopes = append(api.Scopes(), api.WorkerScope)

// send sends a request; a token of "" is none.
func (g *guarded) send(method, path, token, body string, headers ...string) (status int, header http.Header, text string) {
	g.Helper()
	// Streams do not end by themselves; their first bytes are enough.
	ctx, cancel := context.WithTimeout(g.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, g.url+path, strings.NewReader(body))
	if err != nil {
		g.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		g.Fatal(err)
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b := make([]byte, 1)
		_, _ = resp.Body.Read(b)
		return resp.StatusCode, resp.Header, string(b)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		g.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// A documented operation is one of the OpenAPI document.
type documented struct {
	method, path string
	scope        api.Scope // "" answers everybody
	params       []param
	body         map[string]any // its schema; nil when it takes none
	schemas      map[string]any
}

type param struct{ in, name string }

// document reads the OpenAPI document that the service serves.
func (g *guarded) document() (ops []documented) {
	g.Helper()
	_, _, text := g.send("GET", "/openapi.json", "", "")
	var doc struct {
		Paths map[string]map[string]struct {
			Security   []map[string][]string `json:"security"`
			Parameters []struct {
				In   string `json:"in"`
				Name string `json:"name"`
			} `json:"parameters"`
			RequestBody struct {
				Content map[string]struct {
					Schema map[string]any `json:"schema"`
				} `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		g.Fatalf("%v: %s", err, text)
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			d := documented{method: strings.ToUpper(method), path: path, schemas: doc.Components.Schemas}
			for _, s := range op.Security {
				if len(s["token"]) != 1 {
					g.Fatalf("%s %s: the document names no scope: %v", method, path, op.Security)
				}
				d.scope = api.Scope(s["token"][0])
			}
			for _, p := range op.Parameters {
				d.params = append(d.params, param{p.In, p.Name})
			}
			if c, ok := op.RequestBody.Content["application/json"]; ok {
				d.body = c.Schema
			}
			ops = append(ops, d)
		}
	}
	slices.SortFunc(ops, func(a, b documented) int { return strings.Compare(a.path+" "+a.method, b.path+" "+b.method) })
	if len(ops) < 10 {
		g.Fatalf("only %d operations", len(ops))
	}
	return ops
}

// open are the operations that answer everybody.
var open = []string{"/healthz", "/readyz"}

// TestScopes: without a token, or with one of too little scope, no route tells anything. The
// routes are those of the OpenAPI document, and so are the scopes.
func TestScopes(t *testing.T) {
	g := protect(t, Limits{Rate: 1e6, Burst: 1e6, StrangerRate: 1e6, StrangerBurst: 1e6})
	status, _, text := g.send("POST", "/v1/campaigns", g.admin, fmt.Sprintf(`{"backend":"replay","table":%q,"budget":{"evaluations":8}}`, table(t)))
	var c api.Campaign
	if err := json.Unmarshal([]byte(text), &c); err != nil || status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	expired, err := g.service.tokens.create(api.NewToken{Name: "expired", Scope: api.Admin, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	g.service.tokens.mu.Lock()
	g.service.tokens.byID[expired.ID].Expires = time.Now().Add(-time.Second)
	g.service.tokens.mu.Unlock()
	revoked, err := g.service.tokens.create(api.NewToken{Name: "revoked", Scope: api.Admin})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.service.tokens.revoke(revoked.ID); err != nil {
		t.Fatal(err)
	}
	strangers := [][]string{
		{"no token"},
		{"no such token", "Authorization", "Bearer evt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
		{"garbage", "Authorization", "Bearer \x80\xff%00"},
		{"nothing", "Authorization", "Bearer "},
		{"half", "Authorization", "Bearer " + g.admin[:len(g.admin)-1]},
		{"more", "Authorization", "Bearer " + g.admin + "A"},
		{"an ID", "Authorization", "Bearer " + revoked.ID},
		{"a hash", "Authorization", "Bearer " + hashOf(g.admin)},
		{"expired", "Authorization", "Bearer " + expired.Secret},
		{"revoked", "Authorization", "Bearer " + revoked.Secret},
		{"another scheme", "Authorization", "Basic " + g.admin},
		{"no scheme", "Authorization", g.admin},
		{"a cookie", "Cookie", "token=" + g.admin},
		{"another header", "X-Token", g.admin},
	}
	told := []string{c.ID, c.Kernel, "a-viewer", "a-admin", g.service.store.Path(), "evotune_"}
	refused := func(op documented, who string, want, status int, header http.Header, text string) {
		t.Helper()
		name := fmt.Sprintf("%s %s, %s", op.method, op.path, who)
		if status != want || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s: %s", name, status, header.Get("Content-Type"), text)
			return
		}
		if op.method == "HEAD" {
			return
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		var p api.Problem
		if err := d.Decode(&p); err != nil || p.Status != want || len(p.Errors) > 0 {
			t.Errorf("%s: %v: %s", name, err, text)
		}
		for _, data := range told {
			if strings.Contains(strings.ReplaceAll(text, "your token "+who, ""), data) {
				t.Errorf("%s: told %q: %s", name, data, text)
			}
		}
	}
	for _, op := range g.document() {
		path := strings.NewReplacer("{id}", c.ID, "{name}", "nobody").Replace(op.path)
		if op.scope == "" {
			if !slices.Contains(open, op.path) {
				t.Errorf("%s %s answers everybody", op.method, op.path)
			}
			continue
		}
		if !slices.Contains(allScopes, op.scope) {
			t.Errorf("%s %s: there is no scope %q", op.method, op.path, op.scope)
		}
		body := ""
		if op.body != nil {
			body = "{}"
		}
		for _, who := range strangers {
			status, header, text := g.send(op.method, path, "", body, who[1:]...)
			refused(op, who[0], 401, status, header, text)
		}
		for _, query := range []string{"token", "access_token", "authorization", "key"} {
			status, header, text := g.send(op.method, path+"?"+query+"="+g.admin, "", body)
			refused(op, "in the address", 401, status, header, text)
		}
		// Methods that there are not tell nothing either.
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"} {
			status, header, text := g.send(method, path, "", "")
			refused(documented{method: method, path: op.path}, "no token", 401, status, header, text)
		}
		for _, scope := range allScopes {
			status, header, text := g.send(op.method, path, g.secrets[scope], body)
			if scope.Includes(op.scope) {
				if status == 401 || status == 403 || status >= 500 {
					t.Errorf("%s %s with the scope %s: %d %s", op.method, op.path, scope, status, text)
				}
				continue
			}
			refused(op, "a-"+string(scope), 403, status, header, text)
		}
	}
	for _, path := range []string{"/v1", "/v1/", "/v1/nothing", "/v1/campaigns/" + c.ID + "/nothing", "/metrics/", "/v1//campaigns", "/V1/campaigns"} {
		if status, _, text := g.send("GET", path, "", ""); status < 400 && !strings.Contains(text, "Redirect") || strings.Contains(text, c.ID) && !strings.Contains(path, c.ID) {
			t.Errorf("GET %s: %d %s", path, status, text)
		}
	}
	if g.service.panics.Load() != 0 {
		t.Error("a request ended in a panic")
	}
	logs := g.logs.String()
	for _, secret := range []string{g.admin, expired.Secret, revoked.Secret, g.secrets[api.Viewer], g.admin[4:20]} {
		if strings.Contains(logs, secret) {
			t.Errorf("a token is in the logs")
		}
	}
}

// TestWorkerScope: a worker's token admits workers and does nothing else, which no token but an
// admin's does besides; and the worker that is admitted is one of the fleet.
func TestWorkerScope(t *testing.T) {
	g := protect(t, Limits{})
	may := map[string]bool{}
	for _, op := range g.document() {
		if op.scope != "" && api.WorkerScope.Includes(op.scope) {
			may[op.method+" "+op.path] = true
		}
	}
	if len(may) != 1 || !may["POST /v1/fleet/workers"] {
		t.Errorf("a worker's token may %v", may)
	}
	for scope, want := range map[api.Scope]int{api.Viewer: 403, api.Runner: 403, api.Author: 403, api.Admin: 200, api.WorkerScope: 200} {
		status, _, text := g.send("POST", "/v1/fleet/workers", g.secrets[scope], `{"name":"one"}`)
		if status != want {
			t.Errorf("%s: %d %s", scope, status, text)
			continue
		}
		var access evotune.FleetAccess
		if err := json.Unmarshal([]byte(text), &access); want == 200 && (err != nil || access.Worker != "one" || len(access.Secret) < 20) {
			t.Errorf("%s: %v %s", scope, err, text)
		}
	}
	if hashes, err := g.service.state.workers(workersBucket); err != nil || len(hashes["one"]) != 64 || len(hashes) != 1 {
		t.Errorf("%v %v", hashes, err)
	}
	if status, _, text := g.send("POST", "/v1/fleet/workers", g.secrets[api.WorkerScope], `{"name":"a.b"}`); status != 422 {
		t.Errorf("a name with a dot: %d %s", status, text)
	}
}

// TestTokens: a secret is told once and kept by nobody; tokens survive a restart, and what
// runs with one ends when it is revoked.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	var made api.Token
	t.Run("made", func(t *testing.T) {
		g := protectIn(t, dir, Limits{})
		status, _, text := g.send("POST", "/v1/tokens", g.admin, `{"name":"ci","scope":"runner"}`)
		if err := json.Unmarshal([]byte(text), &made); err != nil || status != 201 || !strings.HasPrefix(made.Secret, words.TokenPrefix) {
			t.Fatalf("%d %s", status, text)
		}
		for _, bad := range []string{`{"name":"ci","scope":"viewer"}`, `{"name":"socket","scope":"viewer"}`} {
			if status, _, text := g.send("POST", "/v1/tokens", g.admin, bad); status != 409 {
				t.Errorf("%s: %d %s", bad, status, text)
			}
		}
		for _, bad := range []string{`{"name":"","scope":"viewer"}`, `{"name":"x","scope":"root"}`, `{"name":"x\ny","scope":"viewer"}`, `{"name":"x","scope":"viewer","expires":"2001-01-01T00:00:00Z"}`} {
			if status, _, text := g.send("POST", "/v1/tokens", g.admin, bad); status != 422 {
				t.Errorf("%s: %d %s", bad, status, text)
			}
		}
		if _, _, text := g.send("GET", "/v1/tokens", g.admin, ""); strings.Contains(text, words.TokenPrefix) || strings.Contains(text, hashOf(made.Secret)) || !strings.Contains(text, made.ID) {
			t.Errorf("the list: %s", text)
		}
		var who api.Who
		if _, _, text := g.send("GET", "/v1/whoami", made.Secret, ""); json.Unmarshal([]byte(text), &who) != nil || who.Name != "ci" || who.Scope != api.Runner || !who.Service {
			t.Errorf("%s", text)
		}
	})
	kept, err := os.ReadFile(filepath.Join(dir, "s.db.service"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(kept, []byte(made.Secret)) || bytes.Contains(kept, []byte(made.Secret[len(words.TokenPrefix):])) {
		t.Error("the secret is kept")
	}
	if info, err := os.Stat(filepath.Join(dir, "s.db.service")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the state: %v %v", info.Mode(), err)
	}
	t.Run("after a restart", func(t *testing.T) {
		g := protectIn(t, dir, Limits{})
		list := g.service.tokens.list()
		at := slices.IndexFunc(list, func(k api.Token) bool { return k.ID == made.ID })
		if at < 0 || list[at].Used.IsZero() {
			t.Fatalf("when it was used is not known: %+v", list)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "bearer "+made.Secret)
		resp, err := g.client.Do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(err, resp)
		}
		defer resp.Body.Close()
		if status, _, text := g.send("DELETE", "/v1/tokens/"+made.ID, g.admin, ""); status != 200 || !strings.Contains(text, `"revoked"`) {
			t.Fatalf("%d %s", status, text)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil { // ends
			t.Error(err)
		}
		if status, _, _ := g.send("GET", "/v1/whoami", made.Secret, ""); status != 401 {
			t.Errorf("revoked: %d", status)
		}
		if status, _, _ := g.send("DELETE", "/v1/tokens/nothing", g.admin, ""); status != 404 {
			t.Errorf("no token: %d", status)
		}
	})
	t.Run("revoked after a restart", func(t *testing.T) {
		g := protectIn(t, dir, Limits{})
		if status, _, _ := g.send("GET", "/v1/whoami", made.Secret, ""); status != 401 {
			t.Errorf("%d", status)
		}
	})
}

// TestBackupIsNoted: who takes a copy of the store is in the audit log.
func TestBackupIsNoted(t *testing.T) {
	g := protect(t, Limits{})
	if status, _, _ := g.send("GET", "/v1/backup", g.secrets[api.Author], ""); status != 403 {
		t.Errorf("an author gets a copy: %d", status)
	}
	if status, header, _ := g.send("GET", "/v1/backup", g.secrets[api.Admin], ""); status != 200 || header.Get("Content-Type") != "application/x-tar" {
		t.Errorf("%d %v", status, header)
	}
	if _, _, text := g.send("GET", "/v1/audit", g.admin, ""); !strings.Contains(text, `"token":"a-admin"`) || !strings.Contains(text, `"action":"GET /v1/backup","status":200`) {
		t.Errorf("%s", text)
	}
}

// TestPlainErrors: what a request did wrong is told in words of the API.
func TestPlainErrors(t *testing.T) {
	g := protect(t, Limits{})
	for _, c := range []struct{ method, path, kind, body, want string }{
		{"POST", "/v1/campaigns", "text/plain", "{}", "the body must be JSON: send it with the header `Content-Type: application/json`"},
		{"GET", "/v1/candidates/nothing", "", "", `"detail":"candidate \"nothing\": not found"`},
		{"GET", "/v1/campaigns/nothing", "", "", `"detail":"campaign \"nothing\": not found"`},
	} {
		if status, _, text := g.send(c.method, c.path, g.admin, c.body, "Content-Type", c.kind); status < 400 || !strings.Contains(text, c.want) || strings.Contains(text, g.service.store.Path()) {
			t.Errorf("%s %s: %d: %s", c.method, c.path, status, text)
		}
	}
}

// TestExpiry: what runs with a token ends when it expires.
func TestExpiry(t *testing.T) {
	g := protect(t, Limits{})
	made, err := g.service.tokens.create(api.NewToken{Name: "short", Scope: api.Viewer, Expires: time.Now().Add(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	c, ctx, done, ok := g.service.tokens.present(t.Context(), made.Secret)
	defer done()
	if !ok || c.name != "short" {
		t.Fatalf("%+v", c)
	}
	<-ctx.Done()
	if _, _, _, ok := g.service.tokens.present(t.Context(), made.Secret); ok {
		t.Error("an expired token is valid")
	}
}

// TestInvalidTokens: those that are no longer valid count for nothing, and are forgotten after a
// while; the audit log names them.
func TestInvalidTokens(t *testing.T) {
	g := protect(t, Limits{})
	tokens := g.service.tokens
	fill := func(state string, revoked, expires time.Time) {
		tokens.mu.Lock() // the service forgets tokens meanwhile
		defer tokens.mu.Unlock()
		for n := range mostTokens {
			id := fmt.Sprint(state, n)
			tokens.add(token{api.Token{ID: id, Name: id, Scope: api.Viewer, Revoked: revoked, Expires: expires}, id})
		}
	}
	now := time.Now()
	fill("revoked", now, time.Time{})
	fill("expired", time.Time{}, now.Add(-time.Second))
	old, err := tokens.create(api.NewToken{Name: "old", Scope: api.Viewer})
	if err != nil {
		t.Fatalf("invalid tokens take the place of valid ones: %v", err)
	}
	if status, _, text := g.send("GET", "/v1/whoami", old.Secret, ""); status != 200 {
		t.Fatalf("%d: %s", status, text)
	}
	if _, err := tokens.revoke(old.ID); err != nil {
		t.Fatal(err)
	}
	g.service.pruneTokens(now)
	if n := len(tokens.list()); n < mostInvalid || n > mostInvalid+10 {
		t.Errorf("%d tokens are kept", n)
	}
	if !slices.ContainsFunc(tokens.list(), func(t api.Token) bool { return t.ID == old.ID }) {
		t.Error("the newest of all is forgotten at once")
	}
	g.service.pruneTokens(now.Add(tokenMemory + time.Hour))
	again, err := openTokens(g.service.state)
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]api.Token{"here": tokens.list(), "on disk": again.list()} {
		for _, kept := range list {
			if !kept.Revoked.IsZero() || kept.ID == old.ID {
				t.Errorf("%s: %+v is not forgotten", name, kept)
			}
		}
		if len(list) < 4 {
			t.Errorf("%s: valid tokens are forgotten: %+v", name, list)
		}
	}
	if status, _, text := g.send("GET", "/v1/whoami", old.Secret, ""); status != 401 || !strings.Contains(text, "the token that was sent is not known or has expired") {
		t.Errorf("a token that is forgotten answers %d", status)
	}
	if _, _, text := g.send("GET", "/v1/audit?limit=1000", g.admin, ""); !strings.Contains(text, `"token":"old","from":"the service"`) || !strings.Contains(text, "forget /v1/tokens/"+old.ID) {
		t.Errorf("the audit log does not tell of it: %.300s", text)
	}
	fill("valid", time.Time{}, time.Time{})
	if _, err := tokens.create(api.NewToken{Name: "too many", Scope: api.Viewer}); err == nil || !strings.Contains(err.Error(), "valid tokens, the most that a service takes") {
		t.Errorf("%v", err)
	}
}

func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	s, err := openState(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tokens, err := openTokens(s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "token")
	if err := tokens.file(path); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := tokens.file(path); err != nil {
		t.Errorf("its own file: %v", err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(first, again) {
		t.Errorf("the file was written again: %v", err)
	}
	viewer, err := tokens.create(api.NewToken{Name: "v", Scope: api.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := tokens.create(api.NewToken{Name: "g", Scope: api.Admin})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.revoke(gone.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{string(first), 0o644, "has mode 0644"},
		{string(first), 0o640, "has mode 0640"},
		{"", 0o600, "has no token"},
		{"nonsense", 0o600, "has no token"},
		{"evt_nonsense", 0o600, "does not know"},
		{viewer.Secret, 0o600, "of a viewer"},
		{gone.Secret, 0o600, "is revoked"},
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(bad, c.mode); err != nil {
			t.Fatal(err)
		}
		if err := tokens.file(bad); err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%q, mode %o: %v", c.text, c.mode, err)
		}
	}
	n := len(tokens.list())
	if err := tokens.file(filepath.Join(dir, "no", "folder")); err == nil || len(tokens.list()) != n {
		t.Errorf("a file that cannot be made: %v", err)
	}
	if err := tokens.file(dir); err == nil {
		t.Error("a folder is taken")
	}
}

// TestSocket: nobody but the user can connect, from the first moment on.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if info, err := os.Lstat(Socket(path)); err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("mode %v", info.Mode())
				return
			}
		}
	})
	for range 200 {
		l, err := ListenSocket(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(Socket(path)); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v %v", info.Mode(), err)
		}
		l.Close()
	}
	close(stop)
	group.Wait()
}

func TestAudit(t *testing.T) {
	g := protect(t, Limits{})
	g.service.audit.most = map[string]int{changesPart: 5, refusedPart: 3}
	read := func() (list []api.AuditEntry) {
		t.Helper()
		for path := "/v1/audit?limit=2"; ; {
			var page api.Page[api.AuditEntry]
			status, _, text := g.send("GET", path, g.admin, "")
			if err := json.Unmarshal([]byte(text), &page); err != nil || status != 200 {
				t.Fatalf("%d %s", status, text)
			}
			if list = append(list, page.Items...); page.Next == "" {
				return list
			}
			path = "/v1/audit?limit=2&cursor=" + page.Next
		}
	}
	g.send("PATCH", "/v1/campaigns/none", g.secrets[api.Runner], `{}`, "X-Request-Id", "mine-1")
	g.send("GET", "/v1/campaigns", g.secrets[api.Runner], "") // changes nothing
	g.send("GET", "/v1/"+g.admin, "", "")
	g.send("GET", "/v1/tokens", g.secrets[api.Author], "")
	var list []api.AuditEntry
	for deadline := time.Now().Add(20 * time.Second); len(list) < 3; time.Sleep(5 * time.Millisecond) {
		if list = read(); time.Now().After(deadline) {
			t.Fatalf("%+v", list)
		}
	}
	var said []string
	for _, e := range list {
		said = append(said, fmt.Sprint(e.Token, " ", e.Action, " ", e.Status))
		if e.Request == "" || e.Time.IsZero() || !strings.HasPrefix(e.From, "127.0.0.1:") {
			t.Errorf("%+v", e)
		}
	}
	slices.Sort(said)
	if want := []string{" GET /v1/evt_... 401", "a-author GET /v1/tokens 403", "a-runner PATCH /v1/campaigns/none 404"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	if at := slices.IndexFunc(list, func(e api.AuditEntry) bool { return e.Token == "a-runner" }); at < 0 || list[at].Request != "mine-1" {
		t.Errorf("%+v", list)
	}
	// Refused requests push out their like, and no change.
	for range 10 {
		g.send("DELETE", "/v1/campaigns", "", "")
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		list = read()
		if len(list) == 4 && strings.HasPrefix(list[2].Action, "DELETE ") && list[3].Token == "a-runner" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", list)
		}
	}
	for range 9 {
		g.send("DELETE", "/v1/campaigns", g.admin, "")
	}
	list = read()
	n := 0
	for i, e := range list {
		if e.Status == 405 {
			n++
		}
		if i > 0 && list[i-1].Seq <= e.Seq {
			t.Errorf("the order: %+v", list)
		}
	}
	if n != 5 {
		t.Errorf("%d changes are kept, want 5: %+v", n, list)
	}
	if status, _, text := g.send("GET", "/v1/audit?cursor=zz", g.admin, ""); status != 422 {
		t.Errorf("a bad cursor: %d %s", status, text)
	}
}

func TestLimits(t *testing.T) {
	g := protect(t, Limits{Rate: 0.5, Burst: 5, StrangerRate: 0.5, StrangerBurst: 4, Body: 1 << 20, Streams: 2})
	count := func(token string) (ok, many int) {
		t.Helper()
		for range 20 {
			status, header, text := g.send("GET", "/v1/whoami", token, "")
			switch status {
			case 200, 401:
				ok++
			case 429:
				many++
				if n := header.Get("Retry-After"); n != "1" && n != "2" || !strings.Contains(text, api.TooMany) {
					t.Fatalf("Retry-After %q: %s", n, text)
				}
			default:
				t.Fatalf("%d %s", status, text)
			}
		}
		return ok, many
	}
	// A slow machine lets some more pass, as time does.
	if ok, many := count(""); ok < 4 || many == 0 {
		t.Errorf("no token: %d answered, %d refused", ok, many)
	}
	if ok, many := count(g.secrets[api.Viewer]); ok < 5 || many == 0 {
		t.Errorf("a token: %d answered, %d refused", ok, many)
	}
	if status, _, _ := g.send("GET", "/v1/whoami", g.secrets[api.Runner], ""); status != 200 {
		t.Errorf("another token: %d", status)
	}
}

// TestBodies: what is too large is refused, and what is too slow waits for nobody.
func TestBodies(t *testing.T) {
	g := protect(t, Limits{Body: 2 << 20})
	for _, n := range []int{1<<20 + 1, 3 << 20} {
		for _, chunked := range []bool{false, true} {
			body := io.Reader(strings.NewReader(`{"kernel":"` + strings.Repeat("a", n)))
			if chunked {
				body = io.MultiReader(body)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/campaigns", body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+g.admin)
			req.Header.Set("Content-Type", "application/json")
			resp, err := g.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 413 || resp.Header.Get("Content-Type") != "application/problem+json" || !bytes.Contains(text, []byte(api.TooLarge)) {
				t.Errorf("%d bytes, chunked %t: %d %s", n, chunked, resp.StatusCode, text)
			}
		}
	}
}

// TestBodyTime: a client that announces a body and sends none is let go of, also where nobody
// reads the body.
func TestBodyTime(t *testing.T) {
	g := protect(t, Limits{BodyTime: 50 * time.Millisecond})
	for _, head := range []string{"POST /v1/campaigns HTTP/1.1\r\nAuthorization: Bearer " + g.admin, "POST /v1/campaigns HTTP/1.1", "GET /healthz HTTP/1.1"} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, head+"\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second)) // less than any other limit on it
		if b, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) || bytes.Contains(b[:13], []byte(" 50")) {
			t.Errorf("%s: %v: %s", head, err, b)
		}
		c.Close()
	}
}

func TestStreamLimit(t *testing.T) {
	g := protect(t, Limits{Streams: 2})
	var bodies []io.Closer
	follow := func() (status int, again string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+g.admin)
		resp, err := g.client.Do(req) //nolint:bodyclose // at the end, with the others
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, resp.Body)
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	defer func() {
		for _, b := range bodies {
			b.Close()
		}
	}()
	follow()
	follow()
	if status, again := follow(); status != 503 || again == "" {
		t.Errorf("the third: %d, Retry-After %q", status, again)
	}
	if _, _, text := g.send("GET", "/metrics", g.admin, ""); !strings.Contains(text, "evotune_sse_clients 2\n") {
		t.Errorf("%s", text)
	}
	bodies[0].Close()
	for deadline := time.Now().Add(20 * time.Second); g.service.limits.following() > 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a client that is gone has its place")
		}
	}
	if status, _ := follow(); status != 200 {
		t.Errorf("after one has gone: %d", status)
	}
}

// TestAddresses: however many addresses there are, they take a bounded place, and one that
// sends too much does not slow down another.
func TestAddresses(t *testing.T) {
	l := newLimiters(Limits{StrangerRate: 0.001, StrangerBurst: 2})
	one := l.address("192.0.2.1:5")
	take(one)
	take(one)
	if again, ok := take(l.address("192.0.2.1:6")); ok || again < 1 {
		t.Error("another port is another address")
	}
	if _, ok := take(l.address("192.0.2.2:5")); !ok {
		t.Error("another address waits for the first")
	}
	if l.address("[2001:db8::1]:5") != l.address("[2001:db8::2]:5") || l.address("[2001:db8::1]:5") == l.address("[2001:db8:0:1::1]:5") {
		t.Error("a network of IPv6 is one address")
	}
	for i := range 3 * mostAddresses {
		take(l.address(fmt.Sprintf("10.%d.%d.%d:5", i>>16, i>>8&255, i&255)))
	}
	if len(l.addresses) > mostAddresses {
		t.Errorf("%d addresses", len(l.addresses))
	}
	if _, ok := take(l.address("192.0.2.1:7")); ok {
		t.Error("the first was forgotten before its time")
	}
}

func TestMetrics(t *testing.T) {
	g := protect(t, Limits{})
	_, _, text := g.send("POST", "/v1/campaigns", g.admin, fmt.Sprintf(`{"backend":"replay","table":%q,"budget":{"evaluations":20}}`, table(t)))
	var c api.Campaign
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !c.State.Ended(); time.Sleep(5 * time.Millisecond) {
		if _, _, text = g.send("GET", "/v1/campaigns/"+c.ID, g.admin, ""); json.Unmarshal([]byte(text), &c) != nil || time.Now().After(deadline) {
			t.Fatal(text)
		}
	}
	status, header, text := g.send("GET", "/metrics", g.secrets[api.Viewer], "")
	if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s", status, text)
	}
	value := func(prefix string) (sum float64) {
		t.Helper()
		found := false
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, prefix) {
				var v float64
				if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &v); err != nil {
					t.Fatal(err)
				}
				sum, found = sum+v, true
			}
		}
		if !found {
			t.Errorf("there is no %s", prefix)
		}
		return sum
	}
	for prefix, want := range map[string]float64{
		"evotune_evaluations_total{":            20,
		`evotune_campaigns{state="finished"}`:   1,
		`evotune_campaigns{state="queued"}`:     0,
		"evotune_queue_length":                  0,
		`evotune_device_campaigns{device="cpu"`: 0,
	} {
		if got := value(prefix); got != want {
			t.Errorf("%s is %g, want %g", prefix, got, want)
		}
	}
	for _, prefix := range []string{
		"evotune_store_bytes", "evotune_store_commit_seconds_count", "evotune_store_commit_seconds_sum", "go_goroutines", "process_open_fds",
		`evotune_http_requests_total{route="POST /v1/campaigns",status="2xx"}`, `evotune_http_requests_total{route="GET /v1/campaigns/{id}",status="2xx"}`,
	} {
		if value(prefix) <= 0 {
			t.Errorf("%s is zero", prefix)
		}
	}
	for prefix, want := range map[string]float64{`evotune_fleet_workers{state="idle"}`: 0, "evotune_fleet_workers{": 0, "evotune_fleet_leases": 0, `evotune_fleet_evaluations_total{outcome="late"}`: 0, `evotune_fleet_compiled_total{outcome="hit"}`: 0} {
		if got := value(prefix); got != want {
			t.Errorf("%s is %g, want %g", prefix, got, want)
		}
	}
	if value(`evotune_stage_seconds_total{`) < 0 {
		t.Error("stages")
	}
	if strings.Contains(text, c.ID) || strings.Contains(text, c.Best) {
		t.Error("a label names a campaign or a candidate")
	}
}

// TestFleetTotals: what workers did is added up, and does not fall when one is forgotten and returns.
func TestFleetTotals(t *testing.T) {
	host := func(name string, s fleet.Stats) evotune.FleetHost {
		return evotune.FleetHost{Host: fleet.Host{Name: name}, Stats: s}
	}
	var f fleetTotals
	for i, step := range []struct {
		hosts []evotune.FleetHost
		want  map[string]int
	}{
		{nil, map[string]int{"evaluated": 0, "failed": 0, "lost": 0, "late": 0, "disagreed": 0}},
		{[]evotune.FleetHost{host("a", fleet.Stats{Evaluated: 5, Failed: 1}), host("b", fleet.Stats{Evaluated: 2, Late: 1})}, map[string]int{"evaluated": 7, "failed": 1, "lost": 0, "late": 1, "disagreed": 0}},
		{[]evotune.FleetHost{host("b", fleet.Stats{Evaluated: 4, Late: 1, Lost: 1})}, map[string]int{"evaluated": 9, "failed": 1, "lost": 1, "late": 1, "disagreed": 0}},
		{[]evotune.FleetHost{host("a", fleet.Stats{Evaluated: 1, Disagreed: 1}), host("b", fleet.Stats{Evaluated: 1})}, map[string]int{"evaluated": 11, "failed": 1, "lost": 1, "late": 1, "disagreed": 1}},
	} {
		if got := f.add(step.hosts); !maps.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

func TestHealth(t *testing.T) {
	g := protect(t, Limits{})
	is := func(path string, want int) {
		t.Helper()
		if status, _, text := g.send("GET", path, "", ""); status != want || strings.Contains(text, g.service.store.Path()) {
			t.Errorf("%s: %d %s, want %d", path, status, text, want)
		}
	}
	is("/healthz", 200)
	is("/readyz", 200)
	for _, phase := range []string{"the service is starting", "the service is ending"} {
		g.service.phase.Store(phase)
		is("/healthz", 200)
		is("/readyz", 503)
	}
	g.service.phase.Store("")
	is("/readyz", 200)
	// A disk that cannot be written.
	g.service.probe.mu.Lock()
	g.service.probe.when = time.Time{}
	g.service.probe.mu.Unlock()
	if err := g.service.state.db.Close(); err != nil {
		t.Fatal(err)
	}
	is("/readyz", 503)
	is("/healthz", 200)
}

// TestPanic: a handler that panics costs its request, and is counted.
func TestPanic(t *testing.T) {
	g := protect(t, Limits{})
	huma.Register(g.service.api, operation(http.MethodGet, "/v1/test-panic", "test-panic", api.Viewer, "Panics"),
		func(context.Context, *struct{}) (*body[string], error) { panic("secret of the house") })
	status, header, text := g.send("GET", "/v1/test-panic", g.admin, "")
	if status != 500 || strings.Contains(text, "secret") || g.service.panics.Load() != 1 || !strings.Contains(g.logs.String(), "secret of the house") {
		t.Errorf("%d %s, %d panics", status, text, g.service.panics.Load())
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.Request == "" || p.Request != header.Get("X-Request-Id") {
		t.Errorf("%s", text)
	}
}

// TestNoScope: an operation of which nobody said who may use it is nobody's.
func TestNoScope(t *testing.T) {
	g := protect(t, Limits{})
	huma.Register(g.service.api, huma.Operation{Method: http.MethodGet, Path: "/v1/test-open", OperationID: "test-open"},
		func(context.Context, *struct{}) (*body[string], error) { return &body[string]{"data"}, nil })
	for _, token := range []string{"", g.admin} {
		if status, _, text := g.send("GET", "/v1/test-open", token, ""); status != 401 && status != 403 || strings.Contains(text, "data") {
			t.Errorf("%d %s", status, text)
		}
	}
}

// TestTokensAreRedacted: no answer has a token, except the one that makes it.
func TestTokensAreRedacted(t *testing.T) {
	g := protect(t, Limits{})
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/campaigns/" + g.admin, ""},
		{"GET", "/v1/" + g.admin, ""},
		{"GET", "/v1/campaigns?cursor=" + g.admin, ""},
		{"GET", "/v1/campaigns?" + g.admin + "=1", ""},
		{"POST", "/v1/campaigns", `{"kernel": "` + g.admin + `"}`},
		{"POST", "/v1/campaigns", `{"kernel": "softmax", "` + g.admin + `": 1}`},
		{"POST", "/v1/tokens", `{"name": "` + g.admin + `", "scope": "` + g.admin + `"}`},
	} {
		status, header, text := g.send(c.method, c.path, g.admin, c.body)
		if strings.Contains(text+fmt.Sprint(header), g.admin) || status < 400 {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
	// A token that a log has.
	const id = "leaks-1"
	events := []store.Event{
		{Kind: store.KindStarted, Campaign: id, Time: time.Now().UTC(), Started: &store.Started{Kernel: "leaks", Backend: "cpu", Shapes: []string{"s"}, Config: json.RawMessage(`{"id":"leaks-1","kernel":"leaks"}`)}},
		{Kind: store.KindStopped, Campaign: id, Time: time.Now().UTC(), Note: &store.Note{Reason: "expected ';' before " + g.admin}},
	}
	if _, err := g.service.store.Append(events...); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/campaigns", "/v1/campaigns/" + id} {
		if status, _, text := g.send("GET", path, g.secrets[api.Viewer], ""); status != 200 || strings.Contains(text, g.admin) || !strings.Contains(text, "before evt_...") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, _, text := g.send("POST", "/v1/tokens", g.admin, `{"name": "new", "scope": "viewer"}`); status != 201 || !regexp.MustCompile(`"secret":"evt_[A-Za-z0-9_-]{43}"`).MatchString(text) {
		t.Errorf("a new token: %d %s", status, text)
	}
	if strings.Contains(g.logs.String(), g.admin) {
		t.Errorf("the log has it: %s", g.logs.String())
	}
}
