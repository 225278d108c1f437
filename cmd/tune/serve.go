package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator/share"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/nats"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// serving belongs to the service.
type serving struct {
	Listen          string        `flag:"listen,127.0.0.1:8787" doc:"serve: the <ADDRESS> to listen on besides the socket; empty means the socket alone"`
	TokenFile       string        `flag:"token-file" doc:"serve: keep an admin's token in this <FILE>; it is made if it does not exist"`
	Cert            string        `flag:"tls-cert" doc:"serve: the certificate, a PEM <FILE> with its chain"`
	Key             string        `flag:"tls-key" doc:"serve: the certificate's key, a PEM <FILE>"`
	Fleet           string        `flag:"fleet" doc:"serve: use workers on other machines, with a broker that listens on this <ADDRESS>"`
	NATS            []string      `flag:"nats" doc:"serve: use workers over the NATS broker at this <URL> instead"`
	NATSCredentials string        `flag:"nats-credentials" doc:"serve: the <FILE> with the credentials for --nats: the service's, then the workers', each a line USER:PASSWORD or the path of a credentials file"`
	ArchiveAfter    time.Duration `flag:"archive-after" minimum:"0" doc:"serve: move campaigns to archives when they have been finished for this <DURATION> (0: keep them)"`
}

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run campaigns as a service: over HTTP, live in a browser",
		Long: `Run campaigns as a service. It holds one store, takes campaigns over HTTP, runs
them on this machine's devices, one per GPU and one on the CPU, and shows them live
in a browser. When it is started again, also after "kill -9", it continues all
campaigns that had not ended.

It listens on --listen and on a socket beside the store. Only the user who runs it
can use the socket; all other access needs a token. --token-file gets an admin's
token to start with; "tune token create" makes others, with fewer rights:

  viewer   sees everything
  runner   also submits, pauses, resumes and cancels campaigns, verifies and exports
  author   also uploads kernels and has files judged, which runs their code here
  admin    also makes and revokes tokens, reads the audit log, copies and archives the store
  worker   takes part in the fleet, and nothing else

On an address that other machines can reach (not 127.0.0.1 or ::1) it needs
--tls-cert and --tls-key, and candidates must be confined: see "tune doctor".

With --fleet, workers on other machines, started by "tune worker", evaluate the
candidates of campaigns with --device fleet, and of those for GPUs if this machine
has none. See docs/fleet.md.

It uses all GPUs, or those of --cuda-devices. Ctrl-C or SIGTERM ends it after the
candidates in flight, within 10 seconds; a second one ends it at once. See docs/serve.md.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: `  tune serve --token-file admin.token
  tune serve --fleet 127.0.0.1:8788 --token-file admin.token
  tune serve --listen 0.0.0.0:8787 --tls-cert cert.pem --tls-key key.pem --token-file admin.token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context()) },
	}
	addOptions(cmd.Flags(), option.Of(serving{}))
	addOptions(cmd.Flags(), backendOptions)
	devices := cmd.Flags().Lookup("cuda-devices")
	devices.Usage = strings.Replace(devices.Usage, "default: the first", "default: all that work", 1)
	return cmd
}

// sandboxed says why candidates are not confined on a machine; nil when they are. Tests
// replace it.
var sandboxed = (*evotune.Machine).Sandboxed

// serve runs the service until somebody ends it.
func (a *app) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logger := a.serviceLogger()
	slog.SetDefault(logger)
	conf, err := a.serveTLS()
	if err != nil {
		return badInput(err)
	}
	if err := a.checkSettings(); err != nil {
		return err
	}
	connect, err := a.serveFleet(ctx, conf, logger)
	if err != nil {
		return err
	}
	var gpus []evotune.Accelerator
	var tcp net.Listener
	prepare := func() (err error) {
		if gpus, err = a.serveAccelerators(ctx, logger); err == nil {
			err = a.fleetAddress()
		}
		if err == nil {
			tcp, err = a.listen(ctx, conf)
		}
		return err
	}
	// Open an existing store first: the socket and the service's state, which belong to it, are then
	// ours. Make a new store last, so that a service that is refused leaves none behind.
	path := a.Store
	_, missing := os.Stat(path)
	fresh := errors.Is(missing, fs.ErrNotExist)
	if fresh {
		err = prepare()
	}
	defer func() {
		if tcp != nil {
			tcp.Close() //nolint:errcheck // the service has closed it, if it began
		}
	}()
	if err != nil {
		return err
	}
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return a.heldError(ctx, path, err, "stop it first, or name another store with --store")
	}
	defer s.Close() //nolint:errcheck // every append was checked
	if !fresh {
		if err := prepare(); err != nil {
			return err
		}
	}
	socket, err := server.ListenSocket(s.Path())
	if err != nil {
		return fmt.Errorf("listen for commands: %w", err)
	}
	defer socket.Close()
	sig := catchSignals(ctx, cancel)
	sig.say = func(text string) { logger.Info(text) }
	o := server.Options{Store: s, Machine: a.machine(), Accelerators: gpus, TokenFile: a.Serve.TokenFile, ArchiveAfter: a.Serve.ArchiveAfter, Logger: logger, Fleet: connect}
	if cache := a.cacheDir(); connect != nil && cache != "" {
		limit := int64(cmp.Or(a.Backends.CacheSize, 2048)) << 20
		if folder, err := share.NewFolder(filepath.Join(cache, "shared"), limit); err == nil {
			defer folder.Close() //nolint:errcheck // only its temporary files end
			o.Shelf = folder
		} else {
			logger.Warn("workers do not share what they compile", "reason", err)
		}
	}
	service, err := server.New(o)
	if errors.Is(err, server.ErrTokenFile) {
		return badInput(err)
	}
	if err != nil {
		return err
	}
	sig.begun.Store(true)
	service.Listen(socket, true)
	if tcp != nil {
		service.Listen(tcp, false)
	}
	err = a.serving(s.Path(), socket, tcp, conf != nil, gpus)
	if err == nil {
		select {
		case <-sig.drain:
		case <-ctx.Done():
		}
	}
	return errors.Join(err, service.Close(ctx))
}

// serveFleet says how workers on other machines are reached; nil when there are none.
func (a *app) serveFleet(ctx context.Context, conf *tls.Config, logger *slog.Logger) (func(*fleet.Roster) (fleet.Transport, error), error) {
	address, brokers := a.Serve.Fleet, a.Serve.NATS
	switch {
	case address != "" && len(brokers) > 0:
		return nil, badInputf("--fleet and --nats exclude each other: the first has a broker of its own, the second uses one that runs")
	case address == "" && len(brokers) == 0:
		return nil, nil
	case address != "":
		resolved, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			return nil, badInputf("--fleet %s: %w: give an address and a port, such as 127.0.0.1:8788", address, err)
		}
		if conf == nil && !resolved.IP.IsLoopback() {
			return nil, badInputf("--fleet %s is open to other machines, and credentials and kernels would cross the network in the clear: give --tls-cert and --tls-key, or listen on 127.0.0.1", address)
		}
		var ca []byte
		if conf != nil {
			if ca, err = os.ReadFile(a.Serve.Cert); err != nil {
				return nil, badInput(err)
			}
		}
		return func(roster *fleet.Roster) (fleet.Transport, error) {
			return nats.Embed(nats.EmbedOptions{Listen: address, TLS: conf, CA: string(ca), Roster: roster, Log: logger})
		}, nil
	}
	path := a.Serve.NATSCredentials
	if path == "" {
		return nil, badInputf("--nats needs --nats-credentials FILE: the service's credentials for the broker, then the workers', each on a line of its own")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, badInputf("--nats-credentials: %w", err)
	}
	lines := strings.Fields(string(b))
	if len(lines) != 2 {
		return nil, badInputf("--nats-credentials %s has %d words: it must have two lines, the service's credentials and the workers'", path, len(lines))
	}
	for i, l := range lines {
		if text, err := os.ReadFile(l); err == nil {
			lines[i] = string(text)
		}
	}
	return func(roster *fleet.Roster) (fleet.Transport, error) {
		return nats.Connect(ctx, nats.ConnectOptions{URLs: brokers, Credentials: lines[0], WorkerCredentials: lines[1], Roster: roster, Log: logger})
	}, nil
}

// fleetAddress refuses an address of --fleet that cannot be listened on.
func (a *app) fleetAddress() error {
	address := a.Serve.Fleet
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return listenError("--fleet", address, err)
	}
	return l.Close()
}

// serving prints the one line that says where the service is.
func (a *app) serving(path string, socket, tcp net.Listener, encrypted bool, gpus []evotune.Accelerator) error {
	line := struct {
		Event     string   `json:"event"`
		Store     string   `json:"store"`
		Socket    string   `json:"socket"`
		Address   string   `json:"address,omitempty"` // as it listens
		URL       string   `json:"url,omitempty"`
		TokenFile string   `json:"token_file,omitempty"`
		GPUs      []string `json:"gpus,omitempty"`
	}{Event: "serving", Store: path, Socket: socket.Addr().String(), TokenFile: a.Serve.TokenFile}
	for _, g := range gpus {
		line.GPUs = append(line.GPUs, g.Device)
	}
	if tcp != nil {
		scheme := "http"
		if encrypted {
			scheme = "https"
		}
		line.Address = tcp.Addr().String()
		line.URL = scheme + "://" + line.Address + "/"
	}
	if a.JSON {
		return json.NewEncoder(a.out).Encode(line)
	}
	token := fmt.Sprintf("make a token with `tune token create NAME --scope runner --store %s`", path)
	if line.TokenFile != "" {
		token = "an admin's token is in " + line.TokenFile
	}
	where := "the socket " + line.Socket
	if line.URL != "" {
		where = line.URL + " and " + where
	}
	_, err := fmt.Fprintf(a.out, "serving %s on %s; %s\n", path, where, token)
	return err
}

// serviceLogger makes the log of a service, which has no terminal to show events on.
func (a *app) serviceLogger() *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if a.Verbose {
		o.Level = slog.LevelDebug
	}
	if a.JSON {
		return slog.New(slog.NewJSONHandler(a.err, o))
	}
	return slog.New(slog.NewTextHandler(a.err, o))
}

// serveTLS reads the certificate; nil when none is given.
func (a *app) serveTLS() (*tls.Config, error) {
	cert, key := a.Serve.Cert, a.Serve.Key
	if (cert == "") != (key == "") {
		return nil, errors.New("--tls-cert and --tls-key belong together: give both, or neither")
	}
	if cert == "" {
		return nil, nil
	}
	return server.TLS(cert, key)
}

// serveAccelerators lists the GPUs that campaigns run on. It may be empty, unless a setting
// such as --cuda-devices names GPUs: they must work.
func (a *app) serveAccelerators(ctx context.Context, logger *slog.Logger) (list []evotune.Accelerator, err error) {
	for _, f := range backend.All() {
		if !f.Accelerator {
			continue
		}
		found, failed := a.machine().Accelerators(ctx, f.Name)
		if failed != nil && len(a.texts(f.Name+"-devices")) > 0 {
			return nil, failed
		}
		list, err = append(list, found...), cmp.Or(err, failed)
	}
	if len(list) > 0 || err == nil {
		return list, nil
	}
	// Without GPUs only the CPU is left: settings that it refuses leave no device.
	if _, none := a.machine().Devices(ctx); none != nil {
		return nil, none
	}
	logger.Info("no GPU is used", "reason", err)
	return nil, nil
}

// checkSettings refuses settings that would make every campaign fail.
func (a *app) checkSettings() error {
	if dirs := a.Kernels; len(dirs) > 0 {
		if _, err := kernels.Open(dirs...); err != nil {
			return badInput(err)
		}
	}
	if c := a.Backends.CPU.Compiler; c != "" && c != "auto" {
		if _, err := exec.LookPath(c); err != nil {
			return badInputf("--compiler: %w: name another, or auto", err)
		}
	}
	return nil
}

// listen listens on --listen; nil when that is empty. An address that other machines can
// reach needs TLS and confined candidates: whoever has an author's token can send code.
func (a *app) listen(ctx context.Context, conf *tls.Config) (net.Listener, error) {
	address := a.Serve.Listen
	if address == "" {
		return nil, nil
	}
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, badInputf("--listen %s: %w: give an address and a port, such as 127.0.0.1:8787", address, err)
	}
	if !resolved.IP.IsLoopback() {
		if conf == nil {
			return nil, badInputf("--listen %s is open to other machines, and tokens would cross the network in the clear: give --tls-cert and --tls-key, or listen on 127.0.0.1", address)
		}
		if err := sandboxed(a.machine(), ctx); err != nil {
			return nil, badInputf("--listen %s is open to other machines, and candidates are not confined here (%w): listen on 127.0.0.1, or see `tune doctor`", address, err)
		}
	}
	// Listen on the address that was checked: a name may resolve to another one later.
	l, err := net.ListenTCP("tcp", resolved)
	if err != nil {
		return nil, listenError("--listen", address, err)
	}
	if conf != nil {
		return tls.NewListener(l, conf), nil
	}
	return l, nil
}

// listenError says why nothing listens on the address of a flag.
func listenError(flag, address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s %s: %w: another program listens there: end it, or give another port", flag, address, syscall.EADDRINUSE)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return badInputf("%s %s: %w: this machine has no such address: give one of its own, or 127.0.0.1", flag, address, syscall.EADDRNOTAVAIL)
	}
	return fmt.Errorf("%s %s: %w", flag, address, err)
}
