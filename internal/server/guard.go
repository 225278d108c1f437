package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/evotune/evotune/api"
)

func unwrap(ctx huma.Context) (*http.Request, http.ResponseWriter) { return humago.Unwrap(ctx) }

// guard is what every request passes, before and after its route.
func (s *Service) guard(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ctx, done, known := s.identify(r)
		defer done()
		switch {
		case known:
			r = r.WithContext(context.WithValue(ctx, callerKey{}, c))
		case protected(r.URL.Path):
			writeProblem(w, r, noToken())
			return
		}
		if !routed(mux, w, r) {
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// routed answers what no route is for, in the form of all other errors; what is not under
// /v1 may be one of the page's files.
func routed(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) bool {
	_, pattern := mux.Handler(r)
	if pattern != "" && (!protected(r.URL.Path) || strings.Contains(pattern, "/v1/") || strings.Contains(pattern, "/metrics")) {
		return true
	}
	var allowed []string
	for _, method := range []string{"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, p := mux.Handler(other); strings.Contains(p, "/v1/") || !protected(r.URL.Path) && p != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeProblem(w, r, fail(http.StatusMethodNotAllowed, api.NotFound, "this address takes "+strings.Join(allowed, ", ")+": see /openapi.json"))
		return false
	}
	writeProblem(w, r, fail(http.StatusNotFound, api.NotFound, "there is nothing at this address: see /openapi.json"))
	return false
}

// writeProblem answers with an error.
func writeProblem(w http.ResponseWriter, _ *http.Request, err error) {
	var p *problem
	if !errors.As(err, &p) {
		p = &problem{api.Problem{Type: api.Internal, Title: "Internal Server Error", Status: http.StatusInternalServerError, Detail: err.Error()}}
	}
	b, err := json.Marshal(p.Problem)
	if err != nil {
		panic(err) // it is made of strings
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(b, '\n'))
}
