package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/store"
)

type backupRequest struct{ Body api.Backup }

type archiveRequest struct{ Body api.Archive }

// keepingRoutes copy the store, and keep it small.
func (s *Service) keepingRoutes() {
	begin := func(route, id, summary string) huma.Operation {
		op := operation(http.MethodPost, route, id, api.Admin, summary, 404, 409, 413, 422, 503)
		op.DefaultStatus = http.StatusAccepted
		return op
	}
	accepted := func(a api.Operation, err error) (*operationAnswer, error) {
		return &operationAnswer{"/v1/operations/" + a.ID, a}, failed(err)
	}
	huma.Register(s.api, begin("/v1/backup", "backup", "Copy the store to a path on the server: an operation"),
		func(ctx context.Context, in *backupRequest) (*operationAnswer, error) {
			if err := s.takesCampaigns(); err != nil {
				return nil, err
			}
			if !filepath.IsAbs(in.Body.Path) {
				return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, "the path of the copy is not absolute", api.Detail{Location: "body.path", Message: "is not absolute"})
			}
			return accepted(s.ops.add(ctx, action{Operation: api.Operation{Kind: backingUp}, Backup: &in.Body}, nil))
		})
	whole := operation(http.MethodGet, "/v1/backup", "download-backup", api.Admin, "Download a copy of the store with its archives, as it is now: a tar with evotune.db and evotune.db.archive/", 409)
	whole.Responses = map[string]*huma.Response{"200": {Description: "A tar.", Content: map[string]*huma.MediaType{"application/x-tar": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}}
	huma.Register(s.api, whole, func(context.Context, *struct{}) (*huma.StreamResponse, error) {
		if err := s.takesCampaigns(); err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			ctx.SetHeader("Content-Type", "application/x-tar")
			ctx.SetHeader("Content-Disposition", `attachment; filename="evotune-backup.tar"`)
			ctx.SetHeader("Cache-Control", "no-store")
			w := ctx.BodyWriter().(http.ResponseWriter) //nolint:errcheck,forcetypeassert // humago's is one
			if err := s.store.WriteBackup(ctx.Context(), patiently{w, http.NewResponseController(w)}); err != nil {
				s.log.Error("a backup was not sent", "request", requestOf(ctx.Context()), "error", err)
				panic(http.ErrAbortHandler) // so that what was sent is not taken for all
			}
		}}, nil
	})
	huma.Register(s.api, begin("/v1/archive", "archive", "Move finished campaigns to an archive: an operation"),
		func(ctx context.Context, in *archiveRequest) (*operationAnswer, error) {
			if err := s.takesCampaigns(); err != nil {
				return nil, err
			}
			if (len(in.Body.Campaigns) > 0) == (in.Body.OlderThan != nil) {
				return nil, fail(http.StatusUnprocessableEntity, api.BadRequest, "which campaigns? name them, or give older_than_seconds alone", api.Detail{Location: "body", Message: "names no campaigns, or in two ways"})
			}
			for _, name := range in.Body.Campaigns {
				if err := s.archivable(name); err != nil {
					return nil, failed(err)
				}
			}
			return accepted(s.ops.add(ctx, action{Operation: api.Operation{Kind: archiving}, Archive: &in.Body}, nil))
		})
}

// A patiently written answer may take as long as it takes, if the client reads it.
type patiently struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w patiently) Write(b []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(patience))
	return w.ResponseWriter.Write(b)
}

// archivable says why a campaign cannot be moved.
func (s *Service) archivable(name string) error {
	c, err := s.campaign(name)
	switch {
	case err != nil:
		return err
	case c.Body.State != api.Finished || c.Body.Log == nil || c.Body.Log.State != store.Finished:
		return fail(http.StatusConflict, api.Conflict, fmt.Sprintf("campaign %s is %s: only finished campaigns are archived", c.Body.ID, c.Body.State))
	}
	return nil
}

// backup copies the store.
func (o *operations) backup(ctx context.Context, a action) (any, error) {
	if err := o.entered(a.ID); err != nil {
		return nil, err
	}
	return o.s.store.Backup(ctx, a.Backup.Path, a.Backup.Replace)
}

// archive moves campaigns.
func (o *operations) archive(ctx context.Context, a action) (any, error) {
	if err := o.entered(a.ID); err != nil {
		return nil, err
	}
	var ids []string
	if a.Archive.OlderThan != nil {
		before := time.Now().Add(-time.Duration(*a.Archive.OlderThan * float64(time.Second)))
		old, err := o.s.store.Archivable(before)
		if err != nil {
			return nil, err
		}
		for _, c := range old {
			if o.s.archivable(c.ID) == nil { // it may go on with a larger budget
				ids = append(ids, c.ID)
			}
		}
	}
	for _, name := range a.Archive.Campaigns {
		c, err := o.s.store.Campaign(name)
		if err = errors.Join(err, o.s.archivable(name)); err != nil {
			return nil, err
		}
		ids = append(ids, c.ID)
	}
	defer o.s.reader.forget()
	return o.s.store.Archive(ctx, ids...)
}

// archiveOld moves campaigns to archives when they have been finished for so long, from now on
// and once an hour.
func (s *Service) archiveOld(age time.Duration) {
	every := time.NewTicker(time.Hour)
	defer every.Stop()
	ctx := context.WithValue(s.ending, callerKey{}, caller{name: "the service", scope: api.Admin})
	for {
		old, err := s.store.Archivable(time.Now().Add(-age))
		if err == nil && len(old) > 0 {
			seconds := age.Seconds()
			_, err = s.ops.add(ctx, action{Operation: api.Operation{Kind: archiving}, Archive: &api.Archive{OlderThan: &seconds}}, nil)
		}
		if err != nil {
			s.log.Error("old campaigns are not archived", "error", err)
		}
		select {
		case <-s.ending.Done():
			return
		case <-every.C:
		}
	}
}
