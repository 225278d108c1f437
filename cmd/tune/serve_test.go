package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	variables := map[string]bool{}
	for name := range known {
		variables[envName(name)] = true
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if kv, ok := strings.CutPrefix(strings.TrimSpace(line), "Environment="); ok {
			name, _, _ := strings.Cut(kv, "=")
			if !variables[name] {
				t.Errorf("%s is not a setting", name)
			}
			n++
		}
	}
	if n == 0 || !strings.Contains(string(b), "ExecStart=/usr/bin/tune serve\n") {
		t.Errorf("%d settings", n)
	}
}

// TestUnitIsSound: systemd knows every line of the unit, and finds it confined.
func TestUnitIsSound(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze: apt-get install systemd")
	}
	b, err := os.ReadFile("../../scripts/evotune.service")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "evotune.service")
	if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte("/usr/bin/tune serve"), []byte("/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", "--man=no", path}, {"security", "--offline=yes", "--threshold=30", path}} {
		if out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput(); err != nil || args[0] == "verify" && bytes.Contains(out, []byte("evotune.service")) { // it also tells of other units
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
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
		sandboxed = func(*evotune.Machine, context.Context) error { return nil }
		a := &app{v: viper.New(), m: &evotune.Machine{}}
		a.Serve.Listen = c.address
		l, err := a.listen(t.Context(), nil)
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
	a.Serve.Listen = "0.0.0.0:0"
	sandboxed = func(*evotune.Machine, context.Context) error { return errors.New("no landlock") }
	if l, err := a.listen(t.Context(), &tls.Config{}); err == nil || l != nil || !strings.Contains(err.Error(), "not confined here (no landlock)") {
		t.Errorf("without a sandbox: %v", err)
	}
	sandboxed = func(*evotune.Machine, context.Context) error { return nil }
	l, err := a.listen(t.Context(), &tls.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// TestServeRefuses: settings of which no campaign could run are told in one line at the start.
func TestServeRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct {
		args, want string
		status     int
	}{
		{"--kernels nowhere", "nowhere: no such file or directory: --kernels needs a folder", exitBadInput},
		{"--compiler no-such-compiler", "--compiler: exec: \"no-such-compiler\"", exitBadInput},
		{"--sanitizers no-such --cuda-worker none", "no sanitizer is called \"no-such\"", exitBadInput},
		{"--cuda-worker none --listen " + busy.Addr().String(), "address already in use: another program listens there", exitFailure},
	} {
		out := say(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, strings.Fields(c.args)...)...)
		told := strings.Split(strings.TrimSpace(out.Err), "\n")
		if out.Status != c.status || !strings.Contains(told[len(told)-1], c.want) || out.Out != "" {
			t.Errorf("tune serve %s: %+v, want %q", c.args, out, c.want)
		}
	}
	if out := say(t, "serve", "--help"); !strings.Contains(out.Out, "default: all that work)") {
		t.Error(out.Out)
	}
}
