package main

import (
	"crypto/tls"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spf13/viper"

	"github.com/evotune/evotune"
)

// TestUnit: the settings of the package's unit are settings.
func TestUnit(t *testing.T) {
	b, err := os.ReadFile("../../scripts/evotune.service")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]setting{}
	for _, s := range allSettings() {
		known[envName(s.key)] = s
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if kv, ok := strings.CutPrefix(strings.TrimSpace(line), "Environment="); ok {
			name, _, _ := strings.Cut(kv, "=")
			if _, ok := known[name]; !ok {
				t.Errorf("%s is no setting", name)
			}
			n++
		}
	}
	if n == 0 || !strings.Contains(string(b), "ExecStart=/usr/bin/tune serve\n") {
		t.Errorf("%d settings", n)
	}
}

// TestListen: what other machines can reach needs TLS and the sandbox.
func TestListen(t *testing.T) {
	real := sandboxed
	defer func() { sandboxed = real }()
	for _, c := range []struct {
		address string
		want    string // of the error; empty means none
	}{
		{"", ""},
		{"127.0.0.1:0", ""},
		{"localhost:0", ""},
		{"0.0.0.0:0", "--tls-cert"},
		{":0", "--tls-cert"},
		{"[::]:0", "--tls-cert"},
		{"192.0.2.1:0", "--tls-cert"},
		{"127.0.0.1", "--listen"},
	} {
		sandboxed = func(*evotune.Machine) error { return nil }
		a := &app{v: viper.New(), m: &evotune.Machine{}}
		a.v.Set("listen", c.address)
		l, err := a.listen(nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.address, err, c.want)
		}
		if l != nil {
			l.Close()
		}
		if (l == nil) != (c.address == "" || c.want != "") {
			t.Errorf("%q: %v", c.address, l)
		}
	}
	a := &app{v: viper.New(), m: &evotune.Machine{}}
	a.v.Set("listen", "0.0.0.0:0")
	sandboxed = func(*evotune.Machine) error { return errors.New("no landlock") }
	if l, err := a.listen(&tls.Config{}); err == nil || l != nil || !strings.Contains(err.Error(), "not confined here (no landlock)") {
		t.Errorf("without a sandbox: %v", err)
	}
	sandboxed = func(*evotune.Machine) error { return nil }
	l, err := a.listen(&tls.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
