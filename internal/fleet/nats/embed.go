package nats

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/evotune/evotune/internal/fleet"
)

const (
	// maxConnections is how many connections a worker may have; the oldest ends when there is
	// one more. A worker needs one. It may have left some behind that nobody has noticed yet.
	maxConnections = 4
	// maxSubscriptions of a connection; the coordinator has 3.
	maxSubscriptions = 16
	// handshakeTimeout is for a thousand workers that come at once.
	handshakeTimeout = 10 * time.Second
	startWait        = 10 * time.Second
	startLook        = 100 * time.Millisecond
)

// EmbedOptions say how an embedded broker listens.
type EmbedOptions struct {
	// Listen is HOST:PORT; port 0 is any that is free.
	Listen string
	// URLs are how workers reach it; empty means Listen, with the name of this host if that
	// says every address.
	URLs []string
	// TLS holds the certificate. Nil means none: then secrets and kernels cross the network
	// in the clear.
	TLS *tls.Config
	// CA is for workers: the certificates (PEM) that the broker's is checked with; empty
	// means those of their system.
	CA string
	// Prefix begins the subjects of this fleet; empty means "evotune".
	Prefix string
	// Roster holds which workers are admitted; nil is a new one.
	Roster *fleet.Roster
	// Log gets what the broker reports; nil logs nothing.
	Log *slog.Logger
}

// Embed makes the coordinator's end, with a broker in this process. Every worker has a user of
// its own there.
func Embed(o EmbedOptions) (fleet.Transport, error) {
	t, err := newTransport(o.Prefix, o.Roster, o.Log)
	if err != nil {
		return nil, err
	}
	host, port, err := splitListen(o.Listen)
	if err != nil {
		return nil, err
	}
	b := &broker{prefix: t.prefix, roster: t.roster, secret: rand.Text(), connections: map[string][]uint64{}}
	b.server, err = server.NewServer(&server.Options{
		ServerName:                 "evotune-" + rand.Text(),
		Host:                       host,
		Port:                       port,
		NoSigs:                     true,
		NoSystemAccount:            true,
		MaxPayload:                 maxPayload,
		MaxSubs:                    maxSubscriptions,
		PingInterval:               pingEvery,
		MaxPingsOut:                pingsOut,
		TLSConfig:                  o.TLS,
		TLSTimeout:                 handshakeTimeout.Seconds(),
		AuthTimeout:                handshakeTimeout.Seconds(),
		CustomClientAuthentication: b,
	})
	if err != nil {
		return nil, fmt.Errorf("the broker cannot start: %w", err)
	}
	log := &serverLog{log: t.log, fatal: make(chan string, 1)}
	b.server.SetLoggerV2(log, false, false, false)
	b.server.Start()
	for !b.server.ReadyForConnections(startLook) {
		select {
		case why := <-log.fatal:
			b.stop()
			return nil, fmt.Errorf("the broker cannot listen on %s: %s", o.Listen, why)
		default: // nothing else keeps it from becoming ready
		}
	}
	t.access = fleet.Access{URLs: o.URLs, CA: o.CA}
	if len(o.URLs) == 0 {
		t.access.URLs = []string{b.url(host)}
	}
	t.after, t.stop = b.cut, b.stop
	t.connection, err = open([]string{"nats://in-process"}, "", coordinator+":"+b.secret, inbox(t.prefix, coordinator), t.log, nats.InProcessServer(b.server))
	if err == nil {
		_, err = t.up(context.Background(), startWait)
	}
	if err != nil {
		b.stop()
		return nil, fmt.Errorf("the broker has started and does not answer: %w", err)
	}
	return t, nil
}

// splitListen takes HOST:PORT apart, in the way of a broker's options.
func splitListen(listen string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(listen)
	if err == nil {
		port, err = strconv.Atoi(p)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%.80q is not where a broker can listen: write HOST:PORT, such as 127.0.0.1:4222", listen)
	}
	if host == "" {
		host = server.DEFAULT_HOST
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// A broker is an embedded one, and says who may do what there.
type broker struct {
	server *server.Server
	prefix string
	roster *fleet.Roster
	secret string // of the coordinator's user

	mu          sync.Mutex
	connections map[string][]uint64 // by worker, oldest first; some have ended
}

// url is how a worker on another host reaches the broker.
func (b *broker) url(host string) string {
	u := b.server.ClientURL()
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		return u
	}
	name, err := os.Hostname()
	if err != nil {
		return u
	}
	scheme, _, _ := strings.Cut(u, "://")
	_, port, _ := net.SplitHostPort(b.server.Addr().String()) //nolint:errcheck // the address of a listener
	return scheme + "://" + net.JoinHostPort(name, port)
}

// Check is asked for every connection.
func (b *broker) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if c.Kind() != server.CLIENT {
		return false
	}
	if o.Username == coordinator {
		if subtle.ConstantTimeCompare([]byte(o.Password), []byte(b.secret)) != 1 {
			return false
		}
		c.RegisterUser(b.user(coordinator, []string{inbox(b.prefix, "*") + ".>", b.prefix + "." + coordinator}, []string{
			b.prefix + ".*.*", b.prefix + "." + coordinator, inbox(b.prefix, coordinator) + ".>",
		}))
		return true
	}
	worker := o.Username
	// With the lock, no connection comes between the end of a credential and the cut.
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.roster.Check(worker, o.Password) != nil {
		return false
	}
	open := append(b.connections[worker], c.GetID())
	if len(open) > maxConnections {
		go b.server.DisconnectClientByID(open[0]) //nolint:errcheck // it may have ended
		open = open[1:]
	}
	b.connections[worker] = open
	asks := []string{subject(b.prefix, worker, asked)}
	for _, v := range fleet.Verbs() {
		asks = append(asks, subject(b.prefix, worker, v))
	}
	c.RegisterUser(b.user(worker, asks, []string{inbox(b.prefix, worker) + ".>"}))
	return true
}

func (b *broker) user(name string, publish, subscribe []string) *server.User {
	return &server.User{Username: name, Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: subscribe},
	}}
}

// cut ends the connections of a worker.
func (b *broker) cut(worker string) {
	b.mu.Lock()
	open := b.connections[worker]
	delete(b.connections, worker)
	b.mu.Unlock()
	for _, id := range open {
		_ = b.server.DisconnectClientByID(id) // it may have ended
	}
}

func (b *broker) stop() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

// A serverLog gives what a broker reports to a logger. Its notices are of no interest to
// whoever runs a coordinator.
type serverLog struct {
	log   *slog.Logger
	fatal chan string
}

func (l *serverLog) Noticef(f string, v ...any) { l.log.Debug("broker: " + fmt.Sprintf(f, v...)) }
func (l *serverLog) Debugf(f string, v ...any)  { l.log.Debug("broker: " + fmt.Sprintf(f, v...)) }
func (l *serverLog) Tracef(f string, v ...any)  { l.log.Debug("broker: " + fmt.Sprintf(f, v...)) }
func (l *serverLog) Warnf(f string, v ...any)   { l.log.Warn("broker: " + fmt.Sprintf(f, v...)) }
func (l *serverLog) Errorf(f string, v ...any)  { l.log.Warn("broker: " + fmt.Sprintf(f, v...)) }

func (l *serverLog) Fatalf(f string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(f, v...):
	default:
	}
}
