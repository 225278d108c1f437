package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newCertificate writes a certificate for 127.0.0.1 and its key.
func newCertificate(t *testing.T, cert, key string, serial int64) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, b := range map[string][]byte{cert: public, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return pool
}

// TestCertificateExpires: a certificate that is not valid, or not for long, is warned of when it is read and once a
// day, until it is renewed.
func TestCertificateExpires(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, c := range []struct {
		from, until time.Duration // from now
		want        string
	}{
		{-day, 8 * day, ""},
		{-day, 6 * day, "expires soon"},
		{-day, -time.Second, "has expired"},
		{time.Hour, 90 * day, "is not valid yet"},
	} {
		got := notLong(&x509.Certificate{NotBefore: now.Add(c.from), NotAfter: now.Add(c.until)}, now)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("from %s until %s: %q, want %q", c.from, c.until, got, c.want)
		}
	}

	var logs bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&logs, nil)))
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	newCertificate(t, cert, key, 1) // for an hour
	c := &certificate{cert: cert, key: key}
	if err := c.read(); err != nil {
		t.Fatal(err)
	}
	said := func(want int) {
		t.Helper()
		if n := strings.Count(logs.String(), "expires soon"); n != want {
			t.Errorf("%d warnings, want %d: %s", n, want, logs.String())
		}
	}
	said(1)
	for _, ago := range []time.Duration{25 * time.Hour, 23 * time.Hour} {
		c.looked, c.warned = time.Time{}, time.Now().Add(-ago)
		if _, err := c.get(nil); err != nil {
			t.Fatal(err)
		}
	}
	said(2)
}

// TestTLS: a service answers over TLS, HTTP/2 too, and takes a renewed certificate.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	if _, err := TLS(cert, key); err == nil {
		t.Error("files that are not there are taken")
	}
	pool := newCertificate(t, cert, key, 1)
	conf, err := TLS(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	g := protect(t, Limits{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.service.Listen(tls.NewListener(l, conf), false)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		token string
		want  int
	}{{"", 401}, {g.admin, 200}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String()+"/v1/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want || resp.ProtoMajor != 2 {
			t.Errorf("%s %s, want %d", resp.Proto, resp.Status, c.want)
		}
	}

	c := &certificate{cert: cert, key: key}
	if err := c.read(); err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		c.looked = time.Time{}
		pair, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return parsed.SerialNumber.Int64()
	}
	newCertificate(t, cert, key, 2)
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(cert, later, later); err != nil {
		t.Fatal(err)
	}
	if n := serial(); n != 2 {
		t.Errorf("the certificate %d, want the renewed one", n)
	}
	if err := os.WriteFile(cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := serial(); n != 2 {
		t.Errorf("the certificate %d, want the last good one", n)
	}
}
