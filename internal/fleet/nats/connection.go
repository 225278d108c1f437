package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evotune/evotune/internal/fleet"
)

const (
	// patience is how long a request waits for a broker when the connection is down.
	patience = 2 * time.Second
	// look is how often it looks whether the connection is up again.
	look = 10 * time.Millisecond
	// firstWait is the pause before all brokers are tried again; it doubles up to lastWait.
	firstWait, lastWait = 25 * time.Millisecond, 800 * time.Millisecond
	// refusedWait is that pause while a broker refuses the credential.
	refusedWait = 5 * time.Second
	// A host that loses power does not end its connections: pings at this distance do.
	pingEvery, pingsOut = 5 * time.Second, 2
	dialTimeout         = 2 * time.Second
)

// A connection is one end's way to the brokers. It reconnects for ever, and never keeps a
// message for later: what cannot be sent now is an error now.
type connection struct {
	*nats.Conn
	urls string // for messages

	mu   sync.Mutex
	life context.Context // ends when the present connection breaks
	end  context.CancelFunc
	last error // why it broke, or why the last attempt failed
}

// open begins to connect. credential is the text of a credentials file, or USER:PASSWORD.
func open(urls []string, ca, credential, inbox string, log *slog.Logger, more ...nats.Option) (*connection, error) {
	for _, u := range urls {
		if strings.Contains(u, "@") { // it would get into messages, and to every worker
			return nil, errors.New("the URL of a broker has a user or a password: leave them out, and give them as credentials")
		}
	}
	c := &connection{urls: strings.Join(urls, ", ")}
	c.life, c.end = context.WithCancel(context.Background())
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	options := append([]nats.Option{
		nats.Name("evotune " + inbox),
		nats.CustomInboxPrefix(inbox),
		nats.Timeout(dialTimeout),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(c.pause),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(pingsOut),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.broken(err)
			log.Debug("the connection to the broker broke", "err", err)
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.failed(err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Debug("connected to a broker again", "url", nc.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.failed(err)
			log.Warn("the broker reports an error", "err", err)
		}),
	}, more...)
	switch user, password, ok := strings.Cut(credential, ":"); {
	case strings.Contains(credential, "-----BEGIN NATS USER JWT-----"):
		options = append(options, nats.UserCredentialBytes([]byte(credential)))
	case ok:
		options = append(options, nats.UserInfo(user, password))
	default:
		return nil, errors.New("a credential for a broker is USER:PASSWORD or the text of a NATS credentials file, and this is neither")
	}
	if ca != "" {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("the CA for the broker has no certificate: it must be PEM")
		}
		options = append(options, nats.Secure(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}))
	}
	conn, err := nats.Connect(strings.Join(urls, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("cannot use brokers at %s: %w", c.urls, err)
	}
	c.mu.Lock()
	c.Conn = conn
	c.mu.Unlock()
	return c, nil
}

// pause is how long to wait after all brokers have been tried. Chance keeps a thousand
// workers from coming back at the same moment.
func (c *connection) pause(attempts int) time.Duration {
	wait := lastWait
	if attempts < 6 {
		wait = min(wait, firstWait<<attempts)
	}
	if errors.Is(c.why(), nats.ErrAuthorization) {
		wait = refusedWait
	}
	return wait/2 + rand.N(wait) //nolint:gosec // no secret
}

// broken ends the requests that wait for answers over the connection that broke.
func (c *connection) broken(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.life, c.end = context.WithCancel(context.Background())
	c.last = err
}

func (c *connection) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = err
}

// why says what keeps the connection down, as far as that is known.
func (c *connection) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Conn != nil { // it is not while it is made
		if err := c.LastError(); err != nil {
			return err
		}
	}
	return c.last
}

// up waits for a connection, until ctx ends or patience does. The context that it returns
// ends when that connection breaks.
func (c *connection) up(ctx context.Context, patience time.Duration) (context.Context, error) {
	var giveUp <-chan time.Time
	for {
		c.mu.Lock()
		life := c.life
		c.mu.Unlock()
		switch {
		case c.IsConnected():
			return life, nil
		case c.IsClosed():
			return nil, fmt.Errorf("%w: the link is closed", fleet.ErrUnreachable)
		case errors.Is(c.why(), nats.ErrAuthorization):
			return nil, nats.ErrAuthorization
		}
		if giveUp == nil {
			giveUp = time.After(patience)
		}
		select {
		case <-time.After(look):
			continue
		case <-giveUp:
		case <-ctx.Done():
		}
		return nil, fmt.Errorf("%w: %w", fleet.ErrUnreachable, c.unconnected())
	}
}

// unconnected is one line on why there is no connection.
func (c *connection) unconnected() error {
	var certificate *tls.CertificateVerificationError
	err := c.why()
	switch {
	case err == nil || errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("no broker listens at %s", c.urls)
	case errors.As(err, &certificate):
		return fmt.Errorf("the certificate of the broker at %s is not from the CA that this side was given; get its access again: %w", c.urls, err)
	}
	return fmt.Errorf("no connection to a broker at %s: %w", c.urls, err)
}

// close ends the connection and whatever waits for it.
func (c *connection) close() {
	c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
}
