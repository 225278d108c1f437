package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evotune/evotune/internal/fleet"
)

const (
	// hello is how long a coordinator waits for another one with its prefix to say so.
	hello     = 500 * time.Millisecond
	flushWait = time.Second
	// maxWaiting is how many bytes of requests may wait for a goroutine.
	maxWaiting = 256 << 20
)

// ConnectOptions say which brokers to use.
type ConnectOptions struct {
	// URLs of the brokers. Those that they name as parts of their cluster are used too.
	URLs []string
	// CA holds the certificates (PEM) that theirs are checked with; empty means those of the
	// system, if a URL begins with tls.
	CA string
	// Credentials are the coordinator's: the text of a credentials file, or USER:PASSWORD.
	Credentials string
	// WorkerCredentials are for all workers, in the same form. Together with URLs and CA,
	// every worker gets them when it is admitted.
	WorkerCredentials string
	// Prefix begins the subjects of this fleet; empty means "evotune". Two coordinators on
	// the same brokers need two.
	Prefix string
	// Roster holds which workers are admitted; nil is a new one.
	Roster *fleet.Roster
	// Log; nil logs nothing.
	Log *slog.Logger
}

// Connect makes the coordinator's end over brokers that run already. It waits for one of them
// until ctx ends.
func Connect(ctx context.Context, o ConnectOptions) (fleet.Transport, error) {
	if o.WorkerCredentials == "" {
		return nil, errors.New("workers need a credential for the brokers: name one that may publish to the prefix of the fleet and read its inboxes")
	}
	t, err := newTransport(o.Prefix, o.Roster, o.Log)
	if err != nil {
		return nil, err
	}
	t.access = fleet.Access{URLs: o.URLs, CA: o.CA, Credentials: o.WorkerCredentials}
	t.connection, err = open(o.URLs, o.CA, o.Credentials, inbox(t.prefix, coordinator), t.log)
	if err != nil {
		return nil, err
	}
	if _, err := t.up(ctx, math.MaxInt64); err != nil {
		t.close()
		if errors.Is(err, nats.ErrAuthorization) {
			return nil, fmt.Errorf("the broker at %s refuses the coordinator's credentials", t.urls)
		}
		return nil, t.unconnected()
	}
	if most := t.MaxPayload(); most < maxPayload {
		t.log.Warn("the broker carries only small messages: set max_payload to 8MB", "bytes", most)
	}
	return t, nil
}

// A transport brings what arrives at the broker to a wire, where it is answered.
type transport struct {
	*connection
	prefix string
	access fleet.Access // what all workers have in common
	log    *slog.Logger
	roster *fleet.Roster
	wire   *fleet.Wire
	fleet.Transport
	after func(worker string) // cuts the connections of a worker
	stop  func()              // the broker, if it is the transport's own

	mu      sync.Mutex
	closing bool
	inHand  map[string]int // by worker and request, how many copies are being answered
	running sync.WaitGroup
}

func newTransport(prefix string, roster *fleet.Roster, log *slog.Logger) (*transport, error) {
	if prefix == "" {
		prefix = defaultPrefix
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if roster == nil {
		roster = fleet.NewRoster(nil, nil)
	}
	wire := fleet.NewWire(roster)
	t := &transport{prefix: prefix, log: log, roster: roster, wire: wire, Transport: wire.Transport(), inHand: map[string]int{}, after: func(string) {}, stop: func() {}}
	return t, checkPrefix(prefix)
}

// Serve refuses to be the second coordinator with its prefix: each would hand out work of
// its own.
func (t *transport) Serve(h fleet.Handler) error {
	who := t.prefix + "." + coordinator
	ctx, cancel := context.WithTimeout(context.Background(), hello)
	defer cancel()
	other, err := t.RequestWithContext(ctx, who, nil)
	switch {
	case err == nil:
		return fmt.Errorf("%s serves the prefix %q at %s already: stop it, or choose another prefix", other.Data, t.prefix, t.urls)
	case errors.Is(err, context.DeadlineExceeded): // its host may have lost power a moment ago
		t.log.Warn("another coordinator was connected with this prefix, and does not answer", "prefix", t.prefix)
	case !errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("cannot ask at %s whether another coordinator serves the prefix %q: %w", t.urls, t.prefix, err)
	}
	if err := t.Transport.Serve(h); err != nil {
		return err
	}
	host, _ := os.Hostname() //nolint:errcheck // an empty one will do
	me := fmt.Appendf(nil, "process %d on host %q", os.Getpid(), host)
	if _, err := t.Subscribe(who, func(m *nats.Msg) { _ = m.Respond(me) }); err != nil {
		return err
	}
	s, err := t.Subscribe(t.prefix+".*.*", t.arrived)
	if err != nil {
		return err
	}
	if err := s.SetPendingLimits(-1, maxWaiting); err != nil {
		return err
	}
	return t.FlushTimeout(flushWait) // from now on the broker knows
}

// arrived has a request answered.
func (t *transport) arrived(m *nats.Msg) {
	worker, verb, ok := split(t.prefix, m.Subject)
	// A worker gets answers to its own inbox only: no other subject is written to because a
	// worker asks for it.
	if !ok || !strings.HasPrefix(m.Reply, inbox(t.prefix, worker)+".") {
		return
	}
	request := worker + " " + m.Header.Get(requestHeader)
	t.mu.Lock()
	defer t.mu.Unlock()
	out := nats.NewMsg(m.Reply)
	switch {
	case verb == asked && t.inHand[request] > 0:
		say(out, inHand, "")
	case verb == asked || t.closing:
		say(out, unanswered, "it has stopped")
	default:
		t.inHand[request]++
		t.running.Add(1)
		go func() {
			defer t.running.Done()
			t.respond(m, verb, t.answer(m, worker, verb))
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.inHand[request]--; t.inHand[request] == 0 {
				delete(t.inHand, request)
			}
		}()
		return
	}
	_ = t.PublishMsg(out) // without it, the worker asks again
}

func (t *transport) answer(m *nats.Msg, worker string, verb fleet.Verb) *nats.Msg {
	out := nats.NewMsg(m.Reply)
	body, err := t.ask(m, worker, verb)
	var refusal fleet.Refusal
	switch {
	case err == nil:
		pack(out, body)
	case errors.As(err, &refusal):
		say(out, refused, string(refusal))
	default:
		say(out, unanswered, strings.TrimPrefix(err.Error(), fleet.ErrUnreachable.Error()+": "))
	}
	return out
}

func (t *transport) ask(m *nats.Msg, worker string, verb fleet.Verb) ([]byte, error) {
	secret := m.Header.Get(secretHeader)
	if err := t.roster.Check(worker, secret); err != nil { // before memory is spent on the body
		return nil, err
	}
	body, err := unpack(m)
	if err != nil {
		return nil, fleet.Refusal(err.Error())
	}
	l := t.wire.Dial(fleet.Access{Worker: worker, Secret: secret})
	defer l.Close()
	return l.Request(context.Background(), verb, body)
}

func say(m *nats.Msg, status, text string) {
	m.Header = nats.Header{statusHeader: {status}}
	m.Data = []byte(text)
}

// respond sends an answer. If the connection has just broken, the worker may still be there
// when it is up again.
func (t *transport) respond(m *nats.Msg, verb fleet.Verb, out *nats.Msg) {
	_, err := t.up(context.Background(), patience)
	if err == nil {
		err = t.PublishMsg(out)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		say(out, refused, tooLarge("answer to", verb, len(out.Data), t.MaxPayload()).Error())
		err = t.PublishMsg(out)
	}
	if err != nil {
		t.log.Debug("an answer is lost", "subject", m.Subject, "err", err)
	}
}

func (t *transport) Admit(worker string) (fleet.Access, error) {
	made, err := t.Transport.Admit(worker)
	if err != nil {
		return fleet.Access{}, err
	}
	t.after(worker)
	a := t.access
	a.Worker, a.User, a.Secret, a.Prefix = worker, made.User, made.Secret, t.prefix
	return a, nil
}

func (t *transport) Expel(worker string) error {
	err := t.Transport.Expel(worker)
	t.after(worker)
	return err
}

func (t *transport) Close() error {
	err := t.Transport.Close() // requests that come now hear that it has stopped
	t.mu.Lock()
	t.closing = true
	t.mu.Unlock()
	t.running.Wait()
	if t.IsConnected() {
		err = errors.Join(err, t.FlushTimeout(flushWait))
	}
	t.close()
	t.stop()
	return err
}
