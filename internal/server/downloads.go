package server

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/internal/report"
)

// A download is a file for a client to keep.
type download struct {
	Type        string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Body        []byte
}

func newDownload(name string, content []byte) *download {
	return &download{"application/zip", fmt.Sprintf("attachment; filename=%q", name), content}
}

// zipTime is the first that a zip can tell: none at all reads as month 0.
var zipTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// zipped is a folder as one file. The same files give the same bytes.
func zipped(folder string, files evotune.Files) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	size := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("the file name %q leads out of the folder", name)
		}
		if size += len(files[name]); size > maxDownload {
			return nil, fmt.Errorf("the files have more than %d bytes", maxDownload)
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: path.Join(folder, name), Method: zip.Deflate, Modified: zipTime})
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(files[name]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// downloadRoutes give what commands write as folders.
func (s *Service) downloadRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/campaigns/{id}/report", "report", api.Viewer, "What a campaign did, as `tune report` writes it: a zip", 404, 409, 422),
		func(ctx context.Context, in *One) (*download, error) {
			// A report is made of the whole log, in memory.
			leave, err := s.heavily(ctx)
			if err != nil {
				return nil, failed(err)
			}
			defer leave()
			if _, err := s.logged(in.ID); err != nil {
				return nil, failed(err)
			}
			l, err := report.ReadLog(s.store, in.ID)
			if err != nil {
				return nil, failed(err)
			}
			now, err := s.campaign(l.Campaign.ID)
			if err != nil {
				return nil, failed(err)
			}
			l.Running = now.Body.State.Running()
			c, err := report.NewCampaign(l)
			if err != nil {
				return nil, failed(err)
			}
			files, err := c.Files()
			if err != nil {
				return nil, failed(err)
			}
			files.Seal()
			b, err := zipped("report-"+c.Campaign, files)
			if err != nil {
				return nil, failed(err)
			}
			return newDownload("report-"+c.Campaign+".zip", b), nil
		})
}

// heavily waits for the only place for work that takes much memory, and until no candidate is timed
// on the processor.
func (s *Service) heavily(ctx context.Context) (leave func(), err error) {
	out, err := s.heavy.Share(ctx)
	if err != nil {
		return nil, err
	}
	release, err := cpu.Share(ctx)
	if err != nil {
		out()
		return nil, err
	}
	return func() { release(); out() }, nil
}

// mostScans is how many requests may read through whole campaigns at once. Each takes memory
// and time in proportion to what is stored.
const mostScans = 4

// scanning is a handler that waits for its turn to read through whole campaigns.
func scanning[I, O any](s *Service, handle func(context.Context, *I) (*O, error)) func(context.Context, *I) (*O, error) {
	return func(ctx context.Context, in *I) (*O, error) {
		if err := s.scans.Acquire(ctx, 1); err != nil {
			return nil, failed(err)
		}
		defer s.scans.Release(1)
		return handle(ctx, in)
	}
}
