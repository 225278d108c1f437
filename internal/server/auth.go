package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/words"
)

// protected says whether a path has something to tell, so that a request for it needs a
// token. All else, such as the page's files, is the same for everybody.
func protected(path string) bool {
	return path == "/v1" || strings.HasPrefix(path, "/v1/") || path == "/metrics"
}

// secretOf is the token that a request brings, as `Authorization: Bearer TOKEN`. A token
// anywhere else, in the address for instance, is none: addresses get into logs and histories.
func secretOf(r *http.Request) (secret string, ok bool) {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.TrimSpace(secret)
	return secret, ok && strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(secret, words.TokenPrefix)
}

// identify finds out who sends a request; ok is false when nobody knows. Done must be called
// when it is answered.
func (s *Service) identify(r *http.Request) (c caller, ctx context.Context, done func(), ok bool) {
	ctx, done = r.Context(), func() {}
	if private, _ := ctx.Value(privateKey{}).(bool); private {
		return caller{name: socketName, scope: api.Admin}, ctx, done, true
	}
	if secret, given := secretOf(r); given && s.tokens != nil {
		return s.tokens.present(ctx, secret)
	}
	return c, ctx, done, false
}

// noToken is the answer to a request that needs a token and brings no valid one. What was
// wrong with it is nobody's business who has none; that one came is no secret.
func noToken(r *http.Request) error {
	if scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(secret) != "" {
		return fail(http.StatusUnauthorized, api.Unauthorized, "the token that was sent is not known or has expired: `tune token create` makes another")
	}
	return fail(http.StatusUnauthorized, api.Unauthorized, "a valid token is needed: send it as `Authorization: Bearer TOKEN`; `tune token create` makes one")
}

// authorize lets a request pass that may do what its operation does. Every operation says
// which scope it needs; one that does not is nobody's.
func (s *Service) authorize(ctx huma.Context, next func(huma.Context)) {
	need, said := ctx.Operation().Metadata["scope"].(api.Scope)
	c := callerOf(ctx.Context())
	switch {
	case said && need == "", said && c.scope.Includes(need):
		s.admit(ctx, next)
	case c.scope == "":
		r, _ := humago.Unwrap(ctx)
		s.refuse(ctx, noToken(r))
	default:
		s.refuse(ctx, fail(http.StatusForbidden, api.Forbidden, "your token "+c.name+" has the scope "+string(c.scope)+": this needs "+string(need)))
	}
}

// admit lets a request pass, unless it follows events and too many do.
func (s *Service) admit(ctx huma.Context, next func(huma.Context)) {
	if ok := ctx.Operation().Responses["200"]; ok != nil && ok.Content["text/event-stream"] != nil {
		leave, free := s.limits.join()
		if !free {
			r, w := humago.Unwrap(ctx)
			later(w, 10)
			s.problem(w, r, fail(http.StatusServiceUnavailable, api.Unavailable, "too many clients follow events: ask again in 10 s"))
			return
		}
		defer leave()
	}
	next(ctx)
}

// refuse answers with a problem.
func (s *Service) refuse(ctx huma.Context, err error) {
	r, w := humago.Unwrap(ctx)
	s.problem(w, r, err)
}
