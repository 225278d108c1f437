package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/fleet"
)

// Metrics are what Prometheus asks for. What is counted is since the service began. No label
// names a campaign or a candidate: there is no bound on how many there are.
type metrics struct {
	s        *Service
	registry *prometheus.Registry

	requests    *prometheus.CounterVec
	evaluations *prometheus.CounterVec
	stages      *prometheus.CounterVec
	commits     prometheus.Histogram
	fleet       fleetTotals
}

// The metrics that are looked up when somebody asks.
var (
	campaignsMetric = prometheus.NewDesc("evotune_campaigns", "Campaigns of the store, by their state.", []string{"state"}, nil)
	queueMetric     = prometheus.NewDesc("evotune_queue_length", "Campaigns that wait for a device.", nil, nil)
	measuringMetric = prometheus.NewDesc("evotune_device_measuring_ratio", "Share of a running campaign's time in which its device did timed work and nothing else.", []string{"device"}, nil)
	reservedMetric  = prometheus.NewDesc("evotune_device_reserved_ratio", "Share of a running campaign's time in which its device was kept free for timed work.", []string{"device"}, nil)
	busyMetric      = prometheus.NewDesc("evotune_device_campaigns", "Campaigns that hold a device.", []string{"device"}, nil)
	sizeMetric      = prometheus.NewDesc("evotune_store_bytes", "Size of the store's file.", nil, nil)
	streamsMetric   = prometheus.NewDesc("evotune_sse_clients", "Clients that follow events.", nil, nil)
	workersMetric   = prometheus.NewDesc("evotune_fleet_workers", "Workers of the fleet, by their state.", []string{"state"}, nil)
	leasesMetric    = prometheus.NewDesc("evotune_fleet_leases", "Candidates that workers have, and other things that they measure.", nil, nil)
	outcomesMetric  = prometheus.NewDesc("evotune_fleet_evaluations_total", "What became of evaluations by workers; lost counts workers that were given up.", []string{"outcome"}, nil)
	compiledMetric  = prometheus.NewDesc("evotune_fleet_compiled_total", "Compiled code that workers asked for and found (hit) or did not (miss), and that they handed over (kept).", []string{"outcome"}, nil)
)

// FleetTotals are the sums of what workers did. They stay when a worker is forgotten: counters must
// not fall.
type fleetTotals struct {
	mu   sync.Mutex
	last map[string]fleet.Stats // by worker
	sums map[string]int         // by outcome
}

// add takes what workers have done until now, and gives the sums.
func (f *fleetTotals) add(hosts []evotune.FleetHost) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := map[string]fleet.Stats{}
	if f.sums == nil {
		f.sums = map[string]int{"evaluated": 0, "failed": 0, "lost": 0, "late": 0, "disagreed": 0}
	}
	for _, x := range hosts {
		now, last := x.Stats, f.last[x.Name]
		if now.Evaluated < last.Evaluated || now.Lost < last.Lost {
			last = fleet.Stats{} // it was forgotten, and is back
		}
		next[x.Name] = now
		f.sums["evaluated"] += now.Evaluated - last.Evaluated
		f.sums["failed"] += now.Failed - last.Failed
		f.sums["lost"] += now.Lost - last.Lost
		f.sums["late"] += now.Late - last.Late
		f.sums["disagreed"] += now.Disagreed - last.Disagreed
	}
	f.last = next
	return maps.Clone(f.sums)
}

func newMetrics(s *Service) *metrics {
	m := &metrics{
		s: s, registry: prometheus.NewRegistry(),
		requests:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "evotune_http_requests_total", Help: "Answered requests, by route and class of the status."}, []string{"route", "status"}),
		evaluations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "evotune_evaluations_total", Help: "Candidates that were evaluated, by their verdict."}, []string{"verdict"}),
		stages:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "evotune_stage_seconds_total", Help: "Time that candidates spent in each stage, in seconds; they overlap."}, []string{"stage"}),
		commits:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: "evotune_store_commit_seconds", Help: "Time until a transaction of the store was durable.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15)}),
	}
	m.registry.MustRegister(m, m.requests, m.evaluations, m.stages, m.commits,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// request counts an answer.
func (m *metrics) request(route string, status int) {
	m.requests.WithLabelValues(route, fmt.Sprintf("%dxx", status/100)).Inc()
}

// commit notes a transaction of the store.
func (m *metrics) commit(took time.Duration) { m.commits.Observe(took.Seconds()) }

// event counts what a campaign announces.
func (m *metrics) event(e evotune.Event) {
	if e.Evaluated == nil {
		return
	}
	r := &e.Evaluated.Result
	m.evaluations.WithLabelValues(string(r.Verdict)).Inc()
	for _, step := range r.Steps {
		m.stages.WithLabelValues(string(step.Stage)).Add(step.Elapsed.Seconds())
	}
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{campaignsMetric, queueMetric, measuringMetric, reservedMetric, busyMetric, sizeMetric, streamsMetric, workersMetric, leasesMetric, outcomesMetric, compiledMetric} {
		c <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(c chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if page, err := m.s.campaigns(listRequest{Limit: 1 << 30}); err != nil {
		c <- prometheus.NewInvalidMetric(campaignsMetric, err)
	} else {
		states := map[api.State]int{}
		for _, state := range []api.State{api.Queued, api.Preparing, api.Searching, api.Finals, api.Paused, api.Finished, api.Failed, api.Cancelled} {
			states[state] = 0
		}
		for _, campaign := range page.Items {
			states[campaign.State]++
		}
		for state, n := range states {
			gauge(campaignsMetric, float64(n), string(state))
		}
		gauge(queueMetric, float64(states[api.Queued]))
	}
	if m.s.jobs != nil {
		for _, d := range m.s.jobs.inUse() {
			gauge(busyMetric, float64(d.campaigns), d.name)
			if d.usage != nil {
				gauge(measuringMetric, d.usage.Measuring, d.name)
				gauge(reservedMetric, d.usage.Reserved, d.name)
			}
		}
	}
	if m.s.fleet != nil {
		hosts := m.s.fleet.hub.Hosts()
		states, leases := map[string]int{"idle": 0, "opening": 0, "evaluating": 0, "drained": 0, "leaving": 0, "troubled": 0, "lost": 0, "refused": 0}, 0
		for _, x := range hosts {
			states[x.State]++
			leases += len(x.Doing)
		}
		for state, n := range states {
			gauge(workersMetric, float64(n), state)
		}
		gauge(leasesMetric, float64(leases))
		for outcome, n := range m.fleet.add(hosts) {
			c <- prometheus.MustNewConstMetric(outcomesMetric, prometheus.CounterValue, float64(n), outcome)
		}
		t := m.s.fleet.hub.Traffic()
		for outcome, n := range map[string]int64{"hit": t.Hits, "miss": t.Misses, "kept": t.Kept} {
			c <- prometheus.MustNewConstMetric(compiledMetric, prometheus.CounterValue, float64(n), outcome)
		}
	}
	if info, err := os.Stat(m.s.store.Path()); err == nil {
		gauge(sizeMetric, float64(info.Size()))
	}
	gauge(streamsMetric, float64(m.s.limits.following()))
}

func (s *Service) metricsRoutes() {
	answer := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	op := operation(http.MethodGet, "/metrics", "metrics", api.Viewer, "Metrics for Prometheus")
	op.Responses = map[string]*huma.Response{"200": {Description: "Metrics, as text.", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: "string"}}}}}
	huma.Register(s.api, op, func(context.Context, *struct{}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			answer.ServeHTTP(w, r)
		}}, nil
	})
}
