package server

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
)

// deviceRoutes tell of the devices that campaigns are placed on.
func (s *Service) deviceRoutes() {
	huma.Register(s.api, operation(http.MethodGet, "/v1/devices", "devices", api.Viewer, "The devices, and which campaigns and operations hold them"),
		func(ctx context.Context, _ *struct{}) (*body[[]api.Device], error) {
			list := []api.Device{}
			if s.jobs != nil {
				list = s.jobs.look(ctx)
			}
			return &body[[]api.Device]{list}, nil
		})
}

// look lists the devices, but for the tables, which are none.
func (q *scheduler) look(ctx context.Context) []api.Device {
	list := []api.Device{}
	for _, d := range q.devices {
		if d.backend == evotune.Replay || d.name == fleetDevice {
			continue
		}
		one := api.Device{Device: d.about(ctx), Backend: d.backend, Campaign: []string{}, Operations: []string{}}
		q.mu.Lock()
		for _, id := range slices.Sorted(maps.Keys(d.holds)) {
			r := q.runs[id]
			if r == nil {
				one.Operations = append(one.Operations, id)
				continue
			}
			one.Campaign = append(one.Campaign, id)
			one.Usage = r.progress.usage()
		}
		q.mu.Unlock()
		list = append(list, one)
	}
	return list
}

// about is what is known of a device. To look at a GPU takes a while, so it is kept.
func (d *device) about(ctx context.Context) evaluator.Device {
	d.looking.Lock()
	defer d.looking.Unlock()
	if d.known == nil {
		found, err := d.machine.Devices(ctx)
		at := slices.IndexFunc(found, func(o evaluator.Device) bool { return o.Kind == d.backend })
		if err != nil || at < 0 {
			return evaluator.Device{Name: d.name, Kind: d.backend}
		}
		d.known = &found[at]
	}
	return *d.known
}
