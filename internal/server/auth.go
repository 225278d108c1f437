package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune/api"
)

// authorize lets a request pass that may do what its operation does.
func (s *Service) authorize(ctx huma.Context, next func(huma.Context)) {
	if private, _ := ctx.Context().Value(privateKey{}).(bool); private {
		next(huma.WithValue(ctx, callerKey{}, caller{"socket", api.Admin}))
		return
	}
	_ = huma.WriteErr(s.api, ctx, 401, "a token is needed: send it as `Authorization: Bearer TOKEN`")
}

var _ = context.Background
