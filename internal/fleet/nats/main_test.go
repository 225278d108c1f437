package nats

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
)

// brokerVariable makes this program a broker: the value is a brokerSpec.
const brokerVariable = "EVOTUNE_TEST_BROKER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(brokerVariable); spec != "" {
		if err := beBroker(spec); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// A brokerSpec says what a broker in a process of its own is like. A port of -1 is any that is
// free.
type brokerSpec struct {
	Name          string
	Port, Cluster int
	Routes        string // the cluster port of another one
	MaxPayload    int32
}

// beBroker runs a broker until its input ends. "leave" there makes it send its clients away
// before. Its users have the permissions that the package comment asks for, and no more.
func beBroker(spec string) error {
	var b brokerSpec
	if err := json.Unmarshal([]byte(spec), &b); err != nil {
		return err
	}
	users := func(name string, publish, subscribe []string) *server.User {
		return &server.User{Username: name, Password: name + "-password", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: publish},
			Subscribe: &server.SubjectPermission{Allow: subscribe},
		}}
	}
	o := &server.Options{
		ServerName: b.Name, Host: "127.0.0.1", Port: b.Port, MaxPayload: b.MaxPayload, NoSigs: true,
		Cluster:          server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: b.Cluster, PoolSize: -1}, // one route each, so that a broker knows when it has them all
		RoutesStr:        b.Routes,
		Routes:           server.RoutesFromStr(b.Routes),
		LameDuckDuration: 500 * time.Millisecond, LameDuckGracePeriod: 100 * time.Millisecond,
		Users: []*server.User{
			users("coordinator", []string{"_INBOX.evotune.>", "evotune.@coordinator"}, []string{"evotune.*.*", "evotune.@coordinator", "_INBOX.evotune.@coordinator.>"}),
			users("workers", []string{"evotune.*.*"}, []string{"_INBOX.evotune.>"}),
		},
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return fmt.Errorf("broker %s does not start", b.Name)
	}
	fmt.Println(s.Addr().(*net.TCPAddr).Port, s.ClusterAddr().Port)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "leave":
			go s.LameDuckShutdown()
		case "others":
			fmt.Println(s.NumRemotes())
		}
	}
	return nil
}

// A process is a broker that can be killed.
type process struct {
	spec brokerSpec
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

func startBroker(tb testing.TB, spec brokerSpec) *process {
	tb.Helper()
	p := &process{spec: spec}
	p.start(tb)
	tb.Cleanup(p.kill)
	return p
}

func (p *process) start(tb testing.TB) {
	tb.Helper()
	text, err := json.Marshal(p.spec)
	if err != nil {
		tb.Fatal(err)
	}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), brokerVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	line, err := p.out.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, &p.spec.Port, &p.spec.Cluster) // the next start has the same ports
	}
	if err != nil {
		p.kill()
		tb.Fatalf("broker %s says %q: %v", p.spec.Name, line, err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // it was killed
}

func (p *process) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", p.spec.Port) }

// others is how many brokers it is connected to.
func (p *process) others(tb testing.TB) (n int) {
	fmt.Fprintln(p.in, "others")
	if _, err := fmt.Fscanln(p.out, &n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// startCluster starts n brokers, and waits until they know each other.
func startCluster(tb testing.TB, n int) []*process {
	var all []*process
	for i := range n {
		spec := brokerSpec{Name: fmt.Sprint("b", i), Port: -1, Cluster: -1, MaxPayload: maxPayload}
		if i > 0 {
			spec.Routes = fmt.Sprintf("nats://127.0.0.1:%d", all[0].spec.Cluster)
		}
		all = append(all, startBroker(tb, spec))
	}
	whole(tb, all)
	return all
}

// whole waits until all brokers know each other.
func whole(tb testing.TB, all []*process) {
	tb.Helper()
	for _, p := range all {
		for begin := time.Now(); p.others(tb) < len(all)-1; time.Sleep(10 * time.Millisecond) {
			if time.Since(begin) > 20*time.Second {
				tb.Fatalf("broker %s does not find the others", p.spec.Name)
			}
		}
	}
}

// clusterRig has its brokers in processes of their own.
func clusterRig(brokers []*process) fleettest.Rig {
	roster := fleet.NewRoster(nil, nil)
	var urls []string
	for _, p := range brokers {
		urls = append(urls, p.url())
	}
	return fleettest.Rig{
		Coordinator: func(tb testing.TB) fleet.Transport {
			t, err := Connect(tb.Context(), ConnectOptions{
				URLs: urls, Credentials: "coordinator:coordinator-password", WorkerCredentials: "workers:workers-password", Roster: roster,
			})
			if err != nil {
				tb.Fatal(err)
			}
			return t
		},
		Dial: func(tb testing.TB, a fleet.Access) fleet.Link {
			return &early{mustDial(tb, a), time.Now()}
		},
	}
}

// An early link may come to a broker before the broker knows of the coordinator: at its beginning it
// asks again, as workers do.
type early struct {
	fleet.Link
	dialed time.Time
}

func (e *early) Request(ctx context.Context, verb fleet.Verb, body []byte) ([]byte, error) {
	for {
		b, err := e.Link.Request(ctx, verb, body)
		if !errors.Is(err, fleet.ErrUnreachable) || time.Since(e.dialed) > 300*time.Millisecond {
			return b, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func mustDial(tb testing.TB, a fleet.Access) fleet.Link {
	tb.Helper()
	l, err := Dial(a, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// embeddedRig has its broker in the coordinator. All coordinators of a rig listen to the same
// port.
func embeddedRig(o EmbedOptions) fleettest.Rig {
	o.Listen, o.Roster = "127.0.0.1:0", fleet.NewRoster(nil, nil)
	return fleettest.Rig{
		Coordinator: func(tb testing.TB) fleet.Transport {
			t, err := Embed(o)
			if err != nil {
				tb.Fatal(err)
			}
			_, o.Listen, _ = strings.Cut(t.(*transport).access.URLs[0], "://")
			return t
		},
		Dial: mustDial,
	}
}

// certificate makes one for 127.0.0.1, and the PEM of the authority that has signed it.
func certificate(tb testing.TB) (*tls.Config, string) {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	now := time.Now()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		return k
	}
	caKey, ownKey := key(), key()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "evotune test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(err)
	own := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	ownDER, err := x509.CreateCertificate(rand.Reader, own, ca, &ownKey.PublicKey, caKey)
	must(err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{ownDER}, PrivateKey: ownKey}}, MinVersion: tls.VersionTLS12}, string(text)
}
