package server

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// TLS is the configuration of a listener with a certificate and its key, in PEM. A renewed
// certificate is taken within a minute, without a restart; one that cannot be read leaves the
// last one in use.
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
	c.current, c.written, c.looked = &pair, info.ModTime(), time.Now()
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
	}
	return c.current, nil
}
