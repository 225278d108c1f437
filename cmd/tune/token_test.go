package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/build"
)

// TestWorkerToken: a worker says that its token is wrong before it looks at its machine.
func TestWorkerToken(t *testing.T) {
	t.Setenv(tokenName, "evt_"+strings.Repeat("a", 43))
	answer := func(w http.ResponseWriter, status int, body any) {
		if status != http.StatusOK {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	for name, c := range map[string]struct {
		status int
		body   any
		want   string // in the message; empty where the token will do
	}{
		"unknown":  {401, api.Problem{Type: api.Unauthorized, Status: 401, Detail: "the token is not known here"}, "the token is not known here"},
		"viewer's": {200, api.Who{Name: "ci", Scope: api.Viewer}, "your token ci has the scope viewer: this needs worker"},
		"admin's":  {200, api.Who{Name: "root", Scope: api.Admin}, ""},
		"worker's": {403, api.Problem{Type: api.Forbidden, Status: 403, Detail: "your token has the scope worker"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked += r.URL.Path + " "; r.URL.Path != "/v1/whoami" { // the machine was looked at
					answer(w, 409, api.Problem{Type: api.Conflict, Status: 409, Detail: "no fleet here"})
					return
				}
				answer(w, c.status, c.body)
			}))
			defer h.Close()
			var out, errs bytes.Buffer
			code := run(context.Background(), []string{"worker", "--server", h.URL, "--backend", "replay"}, nil, &out, &errs)
			looked := strings.Contains(errs.String(), "looking at what")
			if code != exitBadInput || looked != (c.want == "") || !strings.Contains(errs.String(), c.want) || looked != strings.Contains(asked, "/v1/fleet/workers") {
				t.Errorf("status %d, asked for %s: %s", code, asked, errs.String())
			}
		})
	}
}

// TestVersionTellsBuildsApart: what a program says of itself is what another refuses it by.
func TestVersionTellsBuildsApart(t *testing.T) {
	if got := tune(t, 0, "version"); !strings.HasPrefix(got, build.Program()+"\n") {
		t.Errorf("%q does not say %q", got, build.Program())
	}
	var told struct{ Name string }
	if err := json.Unmarshal([]byte(tune(t, 0, "version", "--json")), &told); err != nil || "evotune "+told.Name != build.Program() {
		t.Errorf("%+v, %v", told, err)
	}
}
