package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/nats"
	"github.com/evotune/evotune/internal/option"
)

// working belongs to workers.
type working struct {
	Name  string `flag:"name" doc:"worker: its <NAME> in the fleet (default: the host's and the device's)"`
	Slots int    `flag:"slots" minimum:"0" doc:"worker: evaluate <N> candidates at once (0: one per core; 32 on a GPU)"`
}

func (a *app) workerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker --server URL --token-file FILE",
		Short: "Evaluate candidates for a service, as a worker of its fleet",
		Long: `Evaluate candidates for the service at --server, which was started with
"tune serve --fleet". A token with the scope worker is enough. The service assigns the
worker to a campaign; the worker fetches the kernel and puts every candidate through
the same ordeal as "tune run". It keeps results until they are durable in the
service's store, so neither side loses anything when the other is restarted.

Each GPU of --cuda-devices is a worker of its own (default: all of them); without a
GPU, or with --backend cpu, the CPU is one. Ctrl-C or SIGTERM drains them: they end
after the candidates in flight; a second one ends them at once. See docs/fleet.md.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: `  tune worker --server https://tuner:8787 --token-file worker.token
  tune worker --server http://127.0.0.1:8787 --token-file worker.token --backend cpu`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.worker(cmd.Context()) },
	}
	addOptions(cmd.Flags(), remoteOptions)
	addOptions(cmd.Flags(), option.Of(working{}), option.Named(runOptions, "backend"))
	addOptions(cmd.Flags(), backendOptions)
	devices := cmd.Flags().Lookup("cuda-devices")
	devices.Usage = strings.Replace(devices.Usage, "default: the first", "default: all that work", 1)
	return cmd
}

// worker works until somebody ends it.
func (a *app) worker(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logger := a.serviceLogger()
	slog.SetDefault(logger)
	client, err := a.client()
	if err != nil {
		return err
	}
	if client == nil {
		return badInputf("a worker needs a service: give --server URL, such as https://tuner:8787")
	}
	defer client.Close()
	if err := a.checkSettings(); err != nil {
		return err
	}
	if err := tryToken(ctx, client); err != nil {
		return err
	}
	logger.Info("looking at what this machine has") // it takes a minute
	devices, err := a.workerDevices(ctx)
	if err != nil {
		return err
	}
	sig := catchSignals(ctx, cancel)
	sig.say = func(text string) { logger.Info(text) }
	sig.begun.Store(true)
	group, ctx := errgroup.WithContext(ctx)
	for _, d := range devices {
		group.Go(func() error {
			err := fleet.Work(ctx, a.workerOptions(d, client, sig.drain, logger))
			var refused fleet.Refusal
			if errors.As(err, &refused) {
				return badInputf("%s: %w", d.host.Name, err)
			}
			return err
		})
	}
	err = group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// tryToken refuses a token that admits no worker. A service that does not answer is tried again later.
func tryToken(ctx context.Context, client *api.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	who, err := client.Who(ctx)
	var p *api.Problem
	switch {
	case err == nil && !who.Scope.Includes(api.WorkerScope):
		return badInputf("your token %s has the scope %s: this needs %s: `tune token create NAME --scope %s` makes one", who.Name, who.Scope, api.WorkerScope, api.WorkerScope)
	case errors.As(err, &p) && p.Status == http.StatusUnauthorized:
		return badInput(err)
	}
	return nil // a worker's token is forbidden to ask
}

// A workerDevice is one that a worker offers.
type workerDevice struct {
	host    fleet.Host
	machine *evotune.Machine
}

// workerDevices lists the devices to offer.
func (a *app) workerDevices(ctx context.Context) ([]workerDevice, error) {
	on := a.Run.Backend
	var list []evotune.Accelerator
	if on == evotune.Auto || backend.Of(on).Accelerator {
		var err error
		if list, err = a.machine().Accelerators(ctx, on); err != nil && on != evotune.Auto {
			return nil, err
		}
		if len(list) == 0 {
			on = evotune.CPU
		}
	}
	if name := a.Worker.Name; name != "" {
		if err := fleet.CheckWorker(name); err != nil {
			return nil, badInputf("--name: %w", err)
		}
	}
	if len(list) == 0 {
		d, err := a.workerDevice(ctx, a.machine(), on, "")
		return []workerDevice{d}, err
	}
	var out []workerDevice
	for i, one := range list {
		d, err := a.workerDevice(ctx, a.machine().Alone(one), one.Backend, fmt.Sprint("gpu", i))
		if err != nil {
			return nil, err
		}
		if a.Worker.Name != "" && len(list) == 1 {
			d.host.Name = a.Worker.Name
		}
		out = append(out, d)
	}
	return out, nil
}

// workerDevice says what a device is, for the coordinator.
func (a *app) workerDevice(ctx context.Context, m *evotune.Machine, on, suffix string) (workerDevice, error) {
	d := workerDevice{machine: m, host: fleet.Host{Backend: on, Version: build.Program(), Slots: a.Worker.Slots, Timeout: a.Backends.CPU.Timeout}}
	var err error
	switch {
	case on == evotune.Replay:
		d.host.Device = evaluator.Device{Name: "recorded tables", Kind: "recorded", Fingerprint: "recorded"}
	case slices.Contains(backend.Names(), on):
		if d.host.Device, d.host.Limits, err = m.Offer(ctx, on); err != nil {
			return d, err
		}
		if d.host.Tools, err = m.Doctor(ctx, on); err != nil {
			return d, err
		}
	default:
		return d, badInputf("--backend %s: a worker has %s, %s or %s", on, evotune.Auto, strings.Join(backend.Names(), ", "), evotune.Replay)
	}
	if d.host.Slots == 0 {
		d.host.Slots = cmp.Or(backend.Of(on).Window, runtime.NumCPU())
	}
	name := a.Worker.Name
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return d, fmt.Errorf("the name of this host is not known, give --name: %w", err)
		}
		name = host + "-" + cmp.Or(suffix, on)
	} else if suffix != "" {
		name += "-" + suffix
	}
	d.host.Name = regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(name, "-")
	return d, nil
}

// cacheDir is the folder of the cache, found as labs find it; "" if there is none.
func (a *app) cacheDir() string {
	if dir := a.Backends.CPU.CacheDir; dir != "" {
		return dir
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(user, "evotune")
}

// workerOptions are those of a worker with a device.
func (a *app) workerOptions(d workerDevice, client *api.Client, drain <-chan struct{}, logger *slog.Logger) fleet.WorkerOptions {
	cache := a.cacheDir()
	places := filepath.Join(cache, "fleet", d.host.Name)
	if cache != "" { // what a killed process of this name left is fetched again
		os.RemoveAll(places) //nolint:errcheck // it is tried again the next time
	}
	log := logger.With("worker", d.host.Name)
	secret := "" // Dial is called by one goroutine at a time
	return fleet.WorkerOptions{
		Host: d.host, At: client.Address(), Drain: drain, Logger: log,
		Dial: func(ctx context.Context) (fleet.Link, error) {
			access, err := client.AdmitWorker(ctx, d.host.Name, secret)
			if err != nil {
				var p *api.Problem
				if errors.As(err, &p) && p.Status >= 400 && p.Status < 500 && p.Type != api.TooMany {
					return nil, fleet.Refusal(err.Error())
				}
				return nil, err
			}
			secret = access.Secret
			access.URLs = reachable(access.URLs, client.Address())
			return nats.Dial(access, log)
		},
		Open: func(ctx context.Context, p fleet.Place, fetch func(context.Context, fleet.File, io.Writer) error) (fleet.Runner, error) {
			place, err := d.machine.OpenPlace(ctx, p, filepath.Join(places, placeName(p.Campaign)), fetch)
			if err != nil {
				return nil, err
			}
			return place, nil
		},
		Trouble: func() string { return noRoom(cache) },
	}
}

// placeName names the folder of a campaign, which the coordinator names: it is made, and removed
// with all that is in it.
func placeName(campaign string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(campaign)))[:16]
}

// reachable adds the host of the service to the addresses of the broker: the name that the broker
// has for itself may mean nothing here.
func reachable(brokers []string, service string) []string {
	at, err := url.Parse(service)
	if err != nil || at.Hostname() == "" {
		return brokers
	}
	out := slices.Clone(brokers)
	for _, b := range brokers {
		if u, err := url.Parse(b); err == nil {
			u.Host = net.JoinHostPort(at.Hostname(), u.Port())
			if same := u.String(); !slices.Contains(out, same) {
				out = append(out, same)
			}
		}
	}
	return out
}
