package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLS is the configuration of a listener with a certificate and its key, in PEM. A renewed
// certificate is taken within a minute, without a restart; one that cannot be read leaves the
// last one in use. The log has a warning, once a day while clients connect, where the certificate is
// not valid, or will expire within expirySoon.
func TLS(certFile, keyFile string) (*tls.Config, error) {
	c := &certificate{cert: certFile, key: keyFile}
	if err := c.read(); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: c.get}, nil
}

type certificate struct {
	cert, key string

	mu      sync.Mutex
	current *tls.Certificate
	written time.Time // when the file was, that current was read from
	looked  time.Time
	warned  time.Time // when it was last said that current is not valid, or not for long
}

// expirySoon is how long before its end a certificate should have been renewed.
const expirySoon = 7 * 24 * time.Hour

// notLong says what is wrong with the time of a certificate; empty when it is valid for a while.
func notLong(leaf *x509.Certificate, now time.Time) string {
	switch {
	case now.After(leaf.NotAfter):
		return "the TLS certificate has expired, so clients refuse it: renew it"
	case now.Before(leaf.NotBefore):
		return "the TLS certificate is not valid yet, so clients refuse it: look at the clock, or take another"
	case leaf.NotAfter.Sub(now) < expirySoon:
		return "the TLS certificate expires soon: renew it"
	}
	return ""
}

// warn warns of a certificate that is not valid for long, once a day.
func (c *certificate) warn(now time.Time) {
	if now.Sub(c.warned) < 24*time.Hour {
		return
	}
	if why := notLong(c.current.Leaf, now); why != "" {
		c.warned = now
		slog.Warn(why, "file", c.cert, "from", c.current.Leaf.NotBefore.UTC(), "until", c.current.Leaf.NotAfter.UTC())
	}
}

func (c *certificate) read() error {
	info, err := os.Stat(c.cert)
	if err != nil {
		return fmt.Errorf("the TLS certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("the TLS certificate %s with the key %s: %w", c.cert, c.key, err)
	}
	c.current, c.written, c.looked, c.warned = &pair, info.ModTime(), time.Now(), time.Time{}
	c.warn(c.looked)
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) > time.Minute {
		c.looked = now
		if info, err := os.Stat(c.cert); err == nil && !info.ModTime().Equal(c.written) {
			_ = c.read() // between the two files of a renewal they do not fit: the next look finds both
		}
		c.warn(now)
	}
	return c.current, nil
}
