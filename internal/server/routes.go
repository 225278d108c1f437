package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/strict"
	"github.com/evotune/evotune/store"
)

// routes makes the one tree of handlers, for all listeners.
func (s *Service) routes() http.Handler {
	mux := http.NewServeMux()
	config := huma.DefaultConfig("evotune", "1")
	config.Info.Description = "Campaigns that tune compute kernels, and what they found."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "/openapi", "", ""
	config.Formats = map[string]huma.Format{"application/json": plainJSON, "json": plainJSON}
	config.CreateHooks = nil // no $schema in bodies: they are what package api says
	config.RejectUnknownQueryParameters = true
	config.Transformers = append(config.Transformers, func(ctx huma.Context, _ string, answer any) (any, error) {
		if p, ok := answer.(*problem); ok {
			told := *p
			told.Request = requestOf(ctx.Context())
			told.Errors = slices.Clone(p.Errors)
			for i, d := range told.Errors {
				if names := properties(ctx.Operation(), config.Components.Schemas, d.Location); d.Message == validation.MsgUnexpectedProperty && len(names) > 0 {
					told.Errors[i].Message += ": there are " + strings.Join(names, ", ")
				}
			}
			if body, ok := ctx.Context().Value(submittedKey{}).(*api.Submission); ok && s.jobs != nil && p.Detail == refusedBySchema {
				told.Errors = append(told.Errors, s.jobs.alsoWrong(ctx.Context(), *body, told.Errors)...)
			}
			if private, _ := ctx.Context().Value(privateKey{}).(bool); !private && (p.Type == api.NotFound || p.Type == api.Ambiguous) {
				told.Detail = strings.TrimPrefix(told.Detail, "store "+s.store.Path()+": ") // a file of this machine
			}
			return &told, nil
		}
		return answer, nil
	})
	config.OnAddOperation = append(config.OnAddOperation, func(_ *huma.OpenAPI, op *huma.Operation) { op.BodyReadTimeout = s.limits.limits.BodyTime })
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "A token of `tune serve --token-file`, or of POST /v1/tokens."},
	}
	s.api = humago.New(mux, config)
	s.api.UseMiddleware(s.authorize)
	s.campaignRoutes()
	s.eventRoutes()
	s.candidateRoutes()
	s.answerRoutes()
	s.chartRoutes()
	s.kernelRoutes()
	s.operationRoutes()
	s.downloadRoutes()
	s.deviceRoutes()
	s.fleetRoutes()
	s.importanceRoutes()
	s.keepingRoutes()
	mux.HandleFunc("GET /{$}", servePage)
	mux.HandleFunc("GET "+assets, servePage)
	s.tokenRoutes()
	s.auditRoutes()
	s.healthRoutes()
	s.metricsRoutes()
	for _, schema := range config.Components.Schemas.Map() {
		for _, p := range schema.Properties {
			if p.Description != "" && !strings.HasSuffix(p.Description, ".") { // of an option
				p.Description = option.Sentence(p.Description)
			}
		}
	}
	return s.guard(mux)
}

// properties lists those that a body may have where it has the one at a location, such as body.budget.minutes.
func properties(op *huma.Operation, schemas huma.Registry, location string) []string {
	parts := strings.Split(location, ".")
	if op == nil || op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil || parts[0] != "body" {
		return nil
	}
	at := op.RequestBody.Content["application/json"].Schema
	for _, name := range parts[1:] {
		if at != nil && at.Ref != "" {
			at = schemas.SchemaFromRef(at.Ref)
		}
		if at == nil {
			return nil
		}
		next, known := at.Properties[name]
		if !known {
			return slices.Sorted(maps.Keys(at.Properties))
		}
		at = next
	}
	return nil
}

// schemaName names types in the OpenAPI document: those of other packages than api with their
// package's name, as store and api both have a Campaign.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if pkg := path.Base(t.PkgPath()); t.Name() != "" && pkg != "api" && pkg != "server" && pkg != "." {
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	return name
}

// operation describes an operation, and the least scope that it needs; "" means that it
// answers everybody.
func operation(method, route, id string, scope api.Scope, summary string, errs ...int) huma.Operation {
	if scope == "" {
		return huma.Operation{
			Method: method, Path: route, OperationID: id, Summary: summary,
			Security: []map[string][]string{}, Metadata: map[string]any{"scope": scope}, Errors: append([]int{http.StatusTooManyRequests}, errs...),
		}
	}
	return huma.Operation{
		Method: method, Path: route, OperationID: id, Summary: summary,
		Security: []map[string][]string{{"token": {string(scope)}}},
		Metadata: map[string]any{"scope": scope},
		Errors:   append([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, errs...),
	}
}

// A body is the answer of most operations.
type body[T any] struct{ Body T }

// A problem is an api.Problem, as huma answers with it.
type problem struct{ api.Problem }

func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return "application/problem+json" }
func (p *problem) Unwrap() error             { return &p.Problem }

// fail is an error with its type and status.
func fail(status int, kind, detail string, errs ...api.Detail) error {
	return &problem{api.Problem{Type: kind, Title: http.StatusText(status), Status: status, Detail: detail, Errors: errs}}
}

// refusedBySchema is what huma says of a body that its schema refuses: the details say why.
const refusedBySchema = "validation failed"

// noRoom is what a full disk means.
const noRoom = "there is no room on the service's disk: free some; campaigns wait, and go on when there is"

// failed gives the errors of the packages below their types and statuses.
func failed(err error) error {
	var p *problem
	fields := evotune.FieldErrors(err)
	switch {
	case err == nil, errors.As(err, &p):
		return err
	case errors.Is(err, store.ErrNotFound):
		return fail(http.StatusNotFound, api.NotFound, err.Error())
	case errors.Is(err, store.ErrAmbiguous):
		return fail(http.StatusConflict, api.Ambiguous, err.Error())
	case errors.Is(err, store.ErrCorrupt):
		return fail(http.StatusInternalServerError, api.Damaged, err.Error())
	case errors.Is(err, evotune.ErrNoCandidate):
		return fail(http.StatusNotFound, api.NoCandidate, err.Error())
	case errors.Is(err, evotune.ErrUnproven):
		return fail(http.StatusConflict, api.Unproven, err.Error())
	case len(fields) > 0:
		var details []api.Detail
		for _, f := range fields {
			details = append(details, api.Detail{Location: f.Field, Message: f.Err.Error()})
		}
		return fail(http.StatusUnprocessableEntity, api.BadRequest, err.Error(), details...)
	case errors.Is(err, evotune.ErrInput):
		return fail(http.StatusUnprocessableEntity, api.BadRequest, err.Error())
	case errors.Is(err, fs.ErrNotExist):
		return fail(http.StatusNotFound, api.NotFound, err.Error())
	case errors.Is(err, store.ErrFull), store.Full(err) != nil:
		return fail(http.StatusServiceUnavailable, api.Unavailable, noRoom)
	case errors.Is(err, context.Canceled), errors.Is(err, store.ErrClosed):
		return fail(http.StatusServiceUnavailable, api.Unavailable, "the service is ending: try again")
	}
	return fail(http.StatusInternalServerError, api.Internal, err.Error())
}

// plainJSON is JSON in which no key is there twice.
var plainJSON = huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: strict.Unmarshal}

func init() {
	huma.ValidateStrictCasing = true
	// What huma finds wrong with a request is told like everything else.
	huma.NewError = func(status int, detail string, errs ...error) huma.StatusError {
		var large *http.MaxBytesError
		if status == http.StatusInternalServerError && detail == "cannot read request body" { // huma's word for it
			status = http.StatusBadRequest
			if errors.As(errors.Join(errs...), &large) {
				status, detail = http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", large.Limit)
			}
			errs = nil
		}
		if status == http.StatusUnsupportedMediaType {
			detail, errs = "the body must be JSON: send it with the header `Content-Type: application/json`", nil
		}
		p := &problem{api.Problem{Type: api.BadRequest, Title: http.StatusText(status), Status: status, Detail: detail}}
		switch status {
		case http.StatusUnauthorized:
			p.Type = api.Unauthorized
		case http.StatusForbidden:
			p.Type = api.Forbidden
		case http.StatusNotFound:
			p.Type = api.NotFound
		case http.StatusMethodNotAllowed:
			p.Type = api.WrongMethod
		case http.StatusRequestEntityTooLarge:
			p.Type = api.TooLarge
		case http.StatusTooManyRequests:
			p.Type = api.TooMany
		case http.StatusServiceUnavailable:
			p.Type = api.Unavailable
		}
		if status >= 500 {
			p.Type = api.Internal
		}
		for _, err := range errs {
			if d, ok := err.(huma.ErrorDetailer); ok { //nolint:errorlint // huma's are not wrapped
				p.Errors = append(p.Errors, api.Detail{Location: d.ErrorDetail().Location, Message: d.ErrorDetail().Message})
			} else if err != nil {
				p.Errors = append(p.Errors, api.Detail{Message: err.Error()})
			}
		}
		return p
	}
}
