package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/words"
)

// requestKey is where a request's context has its id.
type requestKey struct{}

func requestOf(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// plainPath is a request's path for logs and the audit log: bounded, and without a token
// that somebody put into it.
func plainPath(r *http.Request) string {
	path := string(words.Redact([]byte(r.URL.Path)))
	if len(path) > 200 {
		path = strings.ToValidUTF8(path[:200], "") + "..."
	}
	return path
}

// A recorder is a ResponseWriter that knows what was answered, and lets no token out in a text.
type recorder struct {
	http.ResponseWriter
	status int
	secret bool // the answer is a token
	text   *words.Redactor
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.text == nil && (!w.secret || w.status >= 300) && textual(w.Header()) {
		w.text = &words.Redactor{To: w.ResponseWriter}
	}
	if w.text == nil {
		return w.ResponseWriter.Write(b)
	}
	return w.text.Write(b)
}

// textual says whether people may read an answer as it is: not the page's own files, which have a
// length, and not archives.
func textual(h http.Header) bool {
	if h.Get("Content-Length") != "" || h.Get("Content-Encoding") != "" {
		return false
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml") || kind == ""
}

// FlushError sends what was written, for http.ResponseController.
func (w *recorder) FlushError() error {
	if w.text != nil {
		if err := w.text.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// end writes what was kept back.
func (w *recorder) end() {
	if w.text != nil {
		_ = w.text.Flush() // a client that has gone
	}
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// guard is what every request passes, before and after its route: it gets an id, its sender
// is identified, it is counted, answered, logged, and noted in the audit log.
func (s *Service) guard(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		id := r.Header.Get("X-Request-Id")
		if !requestID.MatchString(id) {
			b := make([]byte, 8)
			rand.Read(b) //nolint:errcheck // never fails
			id = hex.EncodeToString(b)
		}
		c, ctx, done, known := s.identify(r)
		defer done()
		ctx = context.WithValue(ctx, requestKey{}, id)
		if known {
			ctx = context.WithValue(ctx, callerKey{}, c)
		}
		r = r.WithContext(ctx)
		out := &recorder{ResponseWriter: w, secret: r.Method == http.MethodPost && r.URL.Path == tokensPath}
		out.Header().Set("X-Request-Id", id)
		out.Header().Set("X-Content-Type-Options", "nosniff")
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
					panic(p)
				}
				s.panics.Add(1)
				s.log.Error("a request ended in a panic", "request", id, "panic", p, "stack", string(debug.Stack()))
				if out.status == 0 {
					s.problem(out, r, fail(http.StatusInternalServerError, api.Internal, "evotune failed: the service's log has the request "+id))
				}
			}
			out.end()
			s.answered(r, out.status, c, time.Since(began))
		}()
		switch {
		case s.limited(out, r, c):
		case !known && protected(r.URL.Path):
			s.problem(out, r, noToken(r))
		case s.routed(mux, out, r):
			mux.ServeHTTP(out, r)
		}
	})
}

// answered logs a request, and notes it in the audit log where it changed something or was
// refused.
func (s *Service) answered(r *http.Request, status int, c caller, took time.Duration) {
	if status == 0 {
		status = http.StatusOK // nothing was written, for which net/http answers so
	}
	route := r.Pattern
	if route == "" || status == http.StatusNotFound && !strings.Contains(route, "{") && protected(r.URL.Path) {
		route = "none"
	}
	s.metrics.request(route, status)
	// Who takes a copy of the store is noted like who changes something.
	changes := r.Method != http.MethodGet && r.Method != http.MethodHead || route == "GET /v1/backup"
	refused := status == http.StatusUnauthorized || status == http.StatusForbidden
	level := slog.LevelDebug
	switch {
	case status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	case status >= 500:
		level = slog.LevelError
	case changes && c.scope != "" || refused && c.scope != "":
		level = slog.LevelInfo
	}
	if s.log.Enabled(r.Context(), level) {
		s.log.Log(r.Context(), level, "request", "request", requestOf(r.Context()), "method", r.Method, "route", route, "path", plainPath(r),
			"status", status, "took", took, "caller", c.name, "from", from(r))
	}
	if s.audit != nil && (refused || changes && c.scope != "") {
		s.audit.note(api.AuditEntry{
			Time: time.Now().UTC(), Token: c.name, From: from(r), Request: requestOf(r.Context()), Action: r.Method + " " + plainPath(r), Status: status,
		}, refused)
	}
}

// from is where a request came from.
func from(r *http.Request) string {
	if private, _ := r.Context().Value(privateKey{}).(bool); private {
		return socketName
	}
	return r.RemoteAddr
}

// routed answers what no route is for, in the form of all other errors; what is not under
// /v1 may be one of the page's files.
func (s *Service) routed(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) bool {
	is := func(pattern string) bool {
		return pattern != "" && (!protected(r.URL.Path) || strings.Contains(pattern, "/v1/") || strings.Contains(pattern, "/metrics"))
	}
	if _, pattern := mux.Handler(r); is(pattern) {
		return true
	}
	var allowed []string
	for _, method := range []string{"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"} {
		other := *r
		other.Method = method
		if _, pattern := mux.Handler(&other); is(pattern) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		s.problem(w, r, fail(http.StatusMethodNotAllowed, api.WrongMethod, "this address takes "+strings.Join(allowed, ", ")+": see /openapi.json"))
		return false
	}
	s.problem(w, r, fail(http.StatusNotFound, api.NotFound, api.NothingHere+": see /openapi.json"))
	return false
}

// problem answers with an error.
func (s *Service) problem(w http.ResponseWriter, r *http.Request, err error) {
	var p *problem
	if !errors.As(failed(err), &p) {
		p = &problem{api.Problem{Type: api.Internal, Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError, Detail: err.Error()}}
	}
	told := p.Problem
	told.Request = requestOf(r.Context())
	b, err := json.Marshal(told)
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
