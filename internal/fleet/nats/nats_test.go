package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
	"github.com/evotune/evotune/internal/longtest"
)

func TestEmbedded(t *testing.T) {
	fleettest.Run(t, func() fleettest.Rig { return embeddedRig(EmbedOptions{}) })
}

func TestEmbeddedTLS(t *testing.T) {
	t.Parallel()
	config, ca := certificate(t)
	fleettest.Run(t, func() fleettest.Rig { return embeddedRig(EmbedOptions{TLS: config, CA: ca}) })
}

func TestCluster(t *testing.T) {
	brokers := startCluster(t, 3)
	fleettest.Run(t, func() fleettest.Rig { return clusterRig(brokers) })
}

func serveEcho(tb testing.TB, c fleet.Transport) {
	tb.Helper()
	tb.Cleanup(func() { c.Close() })
	err := c.Serve(func(_ context.Context, worker string, _ fleet.Verb, body []byte) ([]byte, error) {
		return append([]byte(worker+" "), body...), nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

func admit(tb testing.TB, c fleet.Transport, worker string) fleet.Access {
	tb.Helper()
	a, err := c.Admit(worker)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func join(tb testing.TB, a fleet.Access) *link {
	tb.Helper()
	l := mustDial(tb, a)
	tb.Cleanup(func() { l.Close() })
	return l.(*link)
}

// A message that the broker does not carry is refused, with the limit, in both directions. One
// that becomes small enough is carried.
func TestTooLarge(t *testing.T) {
	noise := make([]byte, maxPayload+1)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // cannot fail
	c, err := Embed(EmbedOptions{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var got atomic.Int64
	err = c.Serve(func(_ context.Context, _ string, verb fleet.Verb, body []byte) ([]byte, error) {
		got.Store(int64(len(body)))
		if verb == fleet.Fetch {
			return noise, nil
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l := join(t, admit(t, c, "w"))
	for _, verb := range []fleet.Verb{fleet.Done, fleet.Fetch} {
		var body []byte
		if verb == fleet.Done {
			body = noise
		}
		_, err := l.Request(t.Context(), verb, body)
		var refusal fleet.Refusal
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "8388608") || !strings.Contains(err.Error(), "max_payload") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	for _, body := range [][]byte{noise[:maxPayload-1024], make([]byte, maxBody)} {
		if _, err := l.Request(t.Context(), fleet.Done, body); err != nil || got.Load() != int64(len(body)) {
			t.Errorf("of %d bytes %d arrive, %v", len(body), got.Load(), err)
		}
	}
	got.Store(0)
	_, err = l.Request(t.Context(), fleet.Done, make([]byte, maxBody+1))
	var refusal fleet.Refusal
	if !errors.As(err, &refusal) || got.Load() != 0 {
		t.Errorf("more than %d bytes: %d arrive, %v", maxBody, got.Load(), err)
	}
}

// A thousand workers are connected at the same time, and ask at the same time.
func TestThousandWorkers(t *testing.T) {
	const workers = 1000
	c, err := Embed(EmbedOptions{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	serveEcho(t, c)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	links := make([]fleet.Link, workers)
	var all sync.WaitGroup
	for i := range links {
		a := admit(t, c, fmt.Sprint("w", i))
		all.Go(func() {
			l, err := Dial(a, nil)
			if err != nil {
				t.Error(err)
				return
			}
			links[i] = l
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	begin := time.Now()
	var again atomic.Int32
	for i, l := range links {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for {
				got, err := l.Request(ctx, fleet.Take, []byte("work"))
				if errors.Is(err, fleet.ErrUnreachable) && ctx.Err() == nil { // a slow machine keeps some out at first
					again.Add(1)
					continue
				}
				if err != nil || string(got) != fmt.Sprint("w", i, " work") {
					t.Errorf("worker %d got %q, %v", i, got, err)
				}
				return
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)) / workers
	t.Logf("%d requests at once in %v, %d of them repeated; both ends of a link and the broker's hold %d KiB", workers, took, again.Load(), each>>10)
	if each > 512<<10 {
		t.Errorf("a link holds %d bytes", each)
	}
	for _, l := range links {
		l.Close()
	}
}

// raw connects to an embedded broker as a worker that does what it likes.
func raw(t *testing.T, a fleet.Access) (*nats.Conn, chan error) {
	t.Helper()
	reports := make(chan error, 10)
	nc, err := nats.Connect(a.URLs[0], nats.UserInfo(a.User, a.Secret), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { reports <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, reports
}

// A worker that is not what it should be gets nothing that is not its own.
func TestWorkersApart(t *testing.T) {
	c, err := Embed(EmbedOptions{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan string, 100)
	t.Cleanup(func() { c.Close() })
	err = c.Serve(func(_ context.Context, worker string, _ fleet.Verb, _ []byte) ([]byte, error) {
		served <- worker
		return []byte("secret of " + worker), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mallory, victim := admit(t, c, "mallory"), admit(t, c, "victim")
	nc, reports := raw(t, mallory)

	forbidden := func(what string) {
		t.Helper()
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-reports:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the broker allows it", what)
		}
	}
	heard := make(chan *nats.Msg, 100)
	for _, s := range []string{">", "evotune.>", "evotune.*.*", "evotune.mallory.*", "_INBOX.>", "_INBOX.evotune.>", "_INBOX.evotune.victim.>", "evotune.@coordinator", "$SYS.>"} {
		if _, err := nc.ChanSubscribe(s, heard); err != nil {
			t.Fatal(err)
		}
		forbidden("subscribe to " + s)
	}
	for _, s := range []string{"evotune.victim.take", "evotune.mallory.other", "evotune.mallory.take.more", "evotune.@coordinator", "_INBOX.evotune.victim.x", "_INBOX.evotune.mallory.x"} {
		if err := nc.Publish(s, nil); err != nil {
			t.Fatal(err)
		}
		forbidden("publish " + s)
	}

	// The coordinator answers to inboxes of the same worker only.
	spy := inbox("evotune", "victim") + ".x"
	at := make(chan *nats.Msg, 10)
	vc, _ := raw(t, victim)
	if _, err := vc.ChanSubscribe(spy, at); err != nil {
		t.Fatal(err)
	}
	if err := vc.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{spy, "evotune.victim.done", ""} {
		m := &nats.Msg{Subject: "evotune.mallory.take", Reply: reply, Header: nats.Header{secretHeader: {mallory.Secret}}}
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	// After an ordinary request of each, whatever those have caused has happened.
	for _, a := range []fleet.Access{mallory, victim} {
		if got, err := join(t, a).Request(t.Context(), fleet.Take, nil); err != nil || string(got) != "secret of "+a.Worker {
			t.Errorf("%s gets %q, %v", a.Worker, got, err)
		}
	}
	if err := vc.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(at) != 0 || len(heard) != 0 || len(served) != 2 {
		t.Errorf("the victim has got %d answers to others, mallory has heard %d messages, %d requests were served instead of 2", len(at), len(heard), len(served))
	}

	// Its connection does not speak for another worker, nor without a secret in the request.
	for _, secret := range []string{"", victim.Secret} {
		m := &nats.Msg{Subject: "evotune.mallory.take", Header: nats.Header{secretHeader: {secret}}}
		m.Reply = inbox("evotune", "mallory") + ".y"
		s, err := nc.SubscribeSync(m.Reply)
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		if got, err := s.NextMsg(5 * time.Second); err != nil || got.Header.Get(statusHeader) != refused {
			t.Errorf("secret %q in a request: %v, %v", secret, got, err)
		}
		if err := s.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range [][2]string{{coordinator, ""}, {coordinator, mallory.Secret}, {"", ""}, {"mallory", victim.Secret}} {
		if nc, err := nats.Connect(mallory.URLs[0], nats.UserInfo(l[0], l[1])); !errors.Is(err, nats.ErrAuthorization) {
			nc.Close()
			t.Errorf("user %q is let in: %v", l[0], err)
		}
	}
}

// More connections of a worker than one needs cost the oldest.
func TestConnectionsBounded(t *testing.T) {
	c, err := Embed(EmbedOptions{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	serveEcho(t, c)
	a := admit(t, c, "w")
	var all []*nats.Conn
	for range maxConnections + 1 {
		nc, err := nats.Connect(a.URLs[0], nats.UserInfo(a.User, a.Secret), nats.NoReconnect())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		all = append(all, nc)
	}
	for begin := time.Now(); !all[0].IsClosed(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 5*time.Second {
			t.Fatal("the oldest connection stays")
		}
	}
	for _, nc := range all[1:] {
		if err := nc.Flush(); err != nil {
			t.Error(err)
		}
	}
}

// Expel and a new credential end the connections of the old one.
func TestExpelCuts(t *testing.T) {
	c, err := Embed(EmbedOptions{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	serveEcho(t, c)
	for what, end := range map[string]func(string) error{
		"expel": c.Expel,
		"admit": func(w string) error { _, err := c.Admit(w); return err },
	} {
		nc, _ := raw(t, admit(t, c, "w"))
		gone := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
		if err := end("w"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-gone:
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the old connection stays", what)
		}
	}
}

// The certificate of a broker is checked.
func TestCertificates(t *testing.T) {
	config, ca := certificate(t)
	_, otherCA := certificate(t)
	c, err := Embed(EmbedOptions{Listen: "127.0.0.1:0", TLS: config, CA: ca})
	if err != nil {
		t.Fatal(err)
	}
	serveEcho(t, c)
	a := admit(t, c, "w")
	if !strings.HasPrefix(a.URLs[0], "tls://") {
		t.Errorf("the broker is at %s", a.URLs[0])
	}
	if _, err := join(t, a).Request(t.Context(), fleet.Beat, nil); err != nil {
		t.Error(err)
	}
	plain := strings.Replace(a.URLs[0], "tls://", "nats://", 1)
	for what, change := range map[string]func(*fleet.Access){
		"another CA": func(a *fleet.Access) { a.CA = otherCA },
		"no CA":      func(a *fleet.Access) { a.CA = "" },
		"no TLS":     func(a *fleet.Access) { a.CA, a.URLs = "", []string{plain} },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			other := a
			change(&other)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := join(t, other).Request(ctx, fleet.Beat, nil)
			if !errors.Is(err, fleet.ErrUnreachable) || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "\n") {
				t.Error(err)
			}
		})
	}
	other := a
	other.CA = "not PEM"
	if l, err := Dial(other, nil); err == nil {
		l.Close()
		t.Error("a CA that is not PEM is accepted")
	}
}

// Whoever listens without TLS does not get a secret that is meant for TLS.
func TestNoDowngrade(t *testing.T) {
	t.Parallel() // it waits most of the time
	_, ca := certificate(t)
	c, err := Embed(EmbedOptions{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	serveEcho(t, c)
	a := admit(t, c, "w")
	a.CA = ca
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := join(t, a).Request(ctx, fleet.Beat, nil); !errors.Is(err, fleet.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

// Options that cannot work are refused in one line that says what to do.
func TestBadOptions(t *testing.T) {
	t.Parallel() // it waits most of the time
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	embed := func(o EmbedOptions) error {
		c, err := Embed(o)
		if err == nil {
			c.Close()
		}
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	connect := func(o ConnectOptions) error {
		c, err := Connect(ctx, o)
		if err == nil {
			c.Close()
		}
		return err
	}
	dial := func(a fleet.Access) error {
		l, err := Dial(a, nil)
		if err == nil {
			l.Close()
		}
		return err
	}
	gone := "nats://" + nobody.Addr().String()
	for want, err := range map[string]error{
		"HOST:PORT":            embed(EmbedOptions{Listen: "4222"}),
		"in use":               embed(EmbedOptions{Listen: taken.Addr().String()}),
		"prefix":               embed(EmbedOptions{Listen: "127.0.0.1:0", Prefix: "a.*"}),
		"workers need":         connect(ConnectOptions{URLs: []string{gone}, Credentials: "a:b"}),
		"USER:PASSWORD":        connect(ConnectOptions{URLs: []string{gone}, Credentials: "a", WorkerCredentials: "a:b"}),
		nobody.Addr().String(): connect(ConnectOptions{URLs: []string{gone}, Credentials: "a:b", WorkerCredentials: "a:b"}),
		"name of a worker":     dial(fleet.Access{Worker: "a b", Prefix: "evotune", URLs: []string{gone}}),
		"leave them out":       dial(fleet.Access{Worker: "w", Prefix: "evotune", URLs: []string{"nats://u:p@127.0.0.1"}}),
		"names no broker":      dial(fleet.Access{Worker: "w", Prefix: "evotune"}),
		"cannot use":           dial(fleet.Access{Worker: "w", Prefix: "evotune", URLs: []string{"nats://[::1"}}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want one line with %q, got %v", want, err)
		}
	}
}

// A broker that refuses a side says so; so does a coordinator that is the second one.
func TestClusterRefuses(t *testing.T) {
	broker := startCluster(t, 1)[0]
	_, err := Connect(t.Context(), ConnectOptions{URLs: []string{broker.url()}, Credentials: "coordinator:wrong", WorkerCredentials: "a:b"})
	if err == nil || !strings.Contains(err.Error(), "refuses") || strings.Contains(err.Error(), "\n") {
		t.Errorf("wrong credentials of the coordinator: %v", err)
	}
	r := clusterRig([]*process{broker})
	c := r.Coordinator(t)
	serveEcho(t, c)
	second := r.Coordinator(t)
	defer second.Close()
	err = second.Serve(func(context.Context, string, fleet.Verb, []byte) ([]byte, error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "already") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a second coordinator: %v", err)
	}
	a := admit(t, c, "w")
	a.Credentials = "workers:wrong"
	var refusal fleet.Refusal
	if _, err := join(t, a).Request(t.Context(), fleet.Beat, nil); !errors.As(err, &refusal) {
		t.Errorf("wrong credentials of a worker: %v", err)
	}
}

// After a broker was killed, and after it is back, requests succeed again soon.
func TestBrokerKilled(t *testing.T) {
	t.Parallel() // it waits most of the time
	broker := startCluster(t, 1)[0]
	r := clusterRig([]*process{broker})
	c := r.Coordinator(t)
	serveEcho(t, c)
	l := join(t, admit(t, c, "w"))
	fleettest.Eventually(t, l)
	for range 2 {
		broker.kill()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := l.Request(ctx, fleet.Beat, nil); !errors.Is(err, fleet.ErrUnreachable) || strings.Contains(err.Error(), "\n") {
			t.Errorf("without a broker: %v after %v", err, time.Since(begin))
		}
		cancel()
		broker.start(t)
		begin = time.Now()
		fleettest.Eventually(t, l)
		t.Logf("answers again after %v", time.Since(begin))
	}
}

// at says which broker a connection uses.
func at(tb testing.TB, brokers []*process, c *connection) *process {
	tb.Helper()
	for begin := time.Now(); time.Since(begin) < 5*time.Second; time.Sleep(time.Millisecond) {
		for _, p := range brokers {
			if c.ConnectedUrl() == p.url() {
				return p
			}
		}
	}
	tb.Fatalf("connected to %q", c.ConnectedUrl())
	return nil
}

// One of three brokers is killed, or leaves in good order: both ends move to another.
func TestOneOfThree(t *testing.T) {
	brokers := startCluster(t, 3)
	r := clusterRig(brokers)
	c := r.Coordinator(t)
	serveEcho(t, c)
	center := c.(*transport).connection
	for _, whose := range []string{"coordinator", "worker", "both"} {
		for _, how := range []string{"kill", "leave"} {
			whole(t, brokers)
			a := admit(t, c, "w")
			l := join(t, a)
			for (at(t, brokers, l.connection) == at(t, brokers, center)) != (whose == "both") {
				l.Close()
				l = join(t, a)
			}
			fleettest.Eventually(t, l)
			p := at(t, brokers, l.connection)
			if whose != "worker" {
				p = at(t, brokers, center)
			}
			begin := time.Now()
			if how == "kill" {
				p.kill()
			} else if _, err := fmt.Fprintln(p.in, "leave"); err != nil {
				t.Fatal(err)
			}
			for (whose != "worker" && center.ConnectedUrl() == p.url()) || (whose != "coordinator" && l.ConnectedUrl() == p.url()) {
				if time.Since(begin) > 10*time.Second {
					t.Fatalf("%s of the broker of %s: nobody moves", how, whose)
				}
				time.Sleep(time.Millisecond)
			}
			moved := time.Now()
			fleettest.Eventually(t, l)
			t.Logf("%s of the broker of %s: noticed after %v, answers again %v later", how, whose, moved.Sub(begin), time.Since(moved))
			l.Close()
			p.kill()
			p.start(t)
		}
	}
}

// A request that is lost on the way is noticed long before its context ends; one that takes
// long is not taken for lost.
func TestLost(t *testing.T) {
	t.Parallel()
	broker := startCluster(t, 1)[0]
	c := clusterRig([]*process{broker}).Coordinator(t)
	t.Cleanup(func() { c.Close() })
	a := admit(t, c, "w")
	l := join(t, a)

	// In place of the coordinator, something that loses every request.
	nc, err := nats.Connect(broker.url(), nats.UserInfo("coordinator", "coordinator-password"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var questions atomic.Int32
	s, err := nc.Subscribe("evotune.*.*", func(m *nats.Msg) {
		if _, verb, _ := split("evotune", m.Subject); verb == asked && questions.Add(1) > 1 { // and the first question
			out := nats.NewMsg(m.Reply)
			say(out, unanswered, "")
			_ = m.RespondMsg(out) // asked again
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := l.Request(t.Context(), fleet.Done, nil); !errors.Is(err, fleet.ErrUnreachable) || time.Since(begin) > 15*time.Second {
		t.Errorf("a lost request: %v after %v", err, time.Since(begin))
	}
	if err := s.Unsubscribe(); err != nil {
		t.Fatal(err)
	}

	err = c.Serve(func(context.Context, string, fleet.Verb, []byte) ([]byte, error) {
		time.Sleep(watchEvery + watchEvery/2)
		return []byte("at last"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := l.Request(t.Context(), fleet.Take, nil); err != nil || string(got) != "at last" {
		t.Errorf("a long one: %q, %v", got, err)
	}
	tr := c.(*transport)
	tr.running.Wait()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.inHand) != 0 {
		t.Errorf("%v are still in hand", tr.inHand)
	}
}

// Nothing of a link, a transport or a broker is left after Close.
func TestNothingLeft(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	c, err := Embed(EmbedOptions{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Serve(func(context.Context, string, fleet.Verb, []byte) ([]byte, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		a := admit(t, c, fmt.Sprint("w", i))
		if i%2 == 1 {
			a.Secret = "wrong"
		}
		l := mustDial(t, a)
		_, err := l.Request(t.Context(), fleet.Beat, nil)
		if (err != nil) != (i%2 == 1) {
			t.Error(err)
		}
		l.Close()
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := goleak.Find(ignore); err != nil {
		t.Error(err)
	}
}

// Whatever is packed can be unpacked, and what cannot be unpacked is an error.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("x"), "")
	f.Add(make([]byte, 3000), deflated)
	f.Add([]byte{0x4b, 0x04, 0x00}, deflated)
	f.Add([]byte("x"), "gzip")
	f.Fuzz(func(t *testing.T, data []byte, encoding string) {
		m := nats.NewMsg("x")
		pack(m, data)
		if got, err := unpack(m); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes became %d: %v", len(data), len(got), err)
		}
		m = &nats.Msg{Data: data, Header: nats.Header{encodingHeader: {encoding}}}
		if got, err := unpack(m); len(got) > maxBody || (err != nil && strings.Contains(err.Error(), "\n")) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	})
}

// A small message cannot fill the memory.
func TestUnpackBounded(t *testing.T) {
	m := nats.NewMsg("x")
	pack(m, make([]byte, maxBody+1))
	if len(m.Data) > maxBody/100 {
		t.Fatalf("packed to %d bytes", len(m.Data))
	}
	if got, err := unpack(m); err == nil {
		t.Errorf("%d bytes", len(got))
	}
}

// BenchmarkRequests has 0.6 kB of request and 8 kB of answer, which does not compress, over
// an embedded broker.
func BenchmarkRequests(b *testing.B) {
	noise := make([]byte, 8<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // cannot fail
	for _, links := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("links=", links), func(b *testing.B) {
			c, err := Embed(EmbedOptions{Listen: "127.0.0.1:0"})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { c.Close() })
			if err := c.Serve(func(context.Context, string, fleet.Verb, []byte) ([]byte, error) { return noise, nil }); err != nil {
				b.Fatal(err)
			}
			var all []fleet.Link
			for i := range links {
				all = append(all, join(b, admit(b, c, fmt.Sprint("w", i))))
			}
			var next atomic.Int64
			var asking sync.WaitGroup
			b.ResetTimer()
			for _, l := range all {
				asking.Go(func() {
					for next.Add(1) <= int64(b.N) {
						if _, err := l.Request(b.Context(), fleet.Done, noise[:600]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			asking.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// TestPath: over a broker of the coordinator's own, the log says what it says without any.
func TestPath(t *testing.T) {
	fleettest.TestPath(t, func() fleettest.Rig { return embeddedRig(EmbedOptions{}) })
}

// TestPathLong: so it does over three brokers.
func TestPathLong(t *testing.T) {
	longtest.Long(t, "it starts three brokers")
	brokers := startCluster(t, 3)
	fleettest.TestPath(t, func() fleettest.Rig { return clusterRig(brokers) })
}

// TestShelf: compiled code travels from worker to worker.
func TestShelf(t *testing.T) {
	fleettest.TestShelf(t, func() fleettest.Rig { return embeddedRig(EmbedOptions{}) })
}

// TestSurvives: as in memory.
func TestSurvives(t *testing.T) { testSurvives(t, 60) }

// TestSurvivesLong: brokers are killed as well, those that the coordinator or a worker
// are connected to among them.
func TestSurvivesLong(t *testing.T) {
	longtest.Long(t, "it kills brokers")
	testSurvivesKills(t, 60)
}

func TestSurvivesNightly(t *testing.T) {
	longtest.Nightly(t, "soak", "it has 500 faults")
	t.Run("embedded", func(t *testing.T) { testSurvives(t, 500) })
	t.Run("cluster", func(t *testing.T) { testSurvivesKills(t, 500) })
}

func testSurvives(t *testing.T, faults int) {
	fleettest.TestSurvives(t, func() fleettest.Rig { return embeddedRig(EmbedOptions{}) }, fleettest.Chaos{Faults: faults})
}

func testSurvivesKills(t *testing.T, faults int) {
	brokers := startCluster(t, 3)
	next := 0
	fleettest.TestSurvives(t, func() fleettest.Rig { return clusterRig(brokers) }, fleettest.Chaos{Faults: faults, Broker: func() {
		brokers[next].kill()
		time.Sleep(300 * time.Millisecond)
		brokers[next].start(t)
		whole(t, brokers)
		next = (next + 1) % len(brokers)
	}})
}

// BenchmarkCoordinator is the cost of an evaluation over a broker in the coordinator.
func BenchmarkCoordinator(b *testing.B) {
	fleettest.BenchmarkCoordinator(b, func() fleettest.Rig { return embeddedRig(EmbedOptions{}) })
}

// BenchmarkPace compares two campaigns over a broker with the same two without a fleet.
func BenchmarkPace(b *testing.B) {
	fleettest.BenchmarkPace(b, func() fleettest.Rig { return embeddedRig(EmbedOptions{}) })
}
