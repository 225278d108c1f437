package server

import (
	"cmp"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/evotune/evotune/api"
)

// Limits say how much a service takes. A zero field means its default, which honest
// clients do not reach. The socket beside the store has no limit of requests.
type Limits struct {
	// Rate is how many requests a second a token may send, and Burst how many at once.
	// Defaults: 200 and 1,000.
	Rate  float64
	Burst int
	// StrangerRate and StrangerBurst are the same for each address that sends no valid token;
	// the page's files count. Defaults: 20 and 200.
	StrangerRate  float64
	StrangerBurst int
	// Body is how large the body of any request may be, in bytes; most operations take less.
	// Default: 16 MiB.
	Body int64
	// BodyTime is how long a client may take to send a body. Default: 30 seconds.
	BodyTime time.Duration
	// Streams is how many clients may follow events at a time. Default: 2,000.
	Streams int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Rate: cmp.Or(l.Rate, 200), Burst: cmp.Or(l.Burst, 1000),
		StrangerRate: cmp.Or(l.StrangerRate, 20), StrangerBurst: cmp.Or(l.StrangerBurst, 200),
		Body: cmp.Or(l.Body, 16<<20), BodyTime: cmp.Or(l.BodyTime, 30*time.Second), Streams: cmp.Or(l.Streams, 2000),
	}
}

const (
	// headerTime and answerTime are how long a client may take to send the head of a request and
	// to read the answer. Streams have a time for each event instead.
	headerTime = 5 * time.Second
	answerTime = 5 * time.Minute
	// mostHeader bounds the head of a request, in bytes.
	mostHeader = 64 << 10
	// mostAddresses is how many addresses are told apart; all others share one limit.
	mostAddresses = 10_000
)

// Limiters count what was sent. Each kind has a map that cannot grow without bound: there
// are only so many tokens, and addresses that have been silent are forgotten.
type limiters struct {
	limits Limits

	mu        sync.Mutex
	tokens    map[string]*rate.Limiter
	addresses map[netip.Prefix]*rate.Limiter
	others    *rate.Limiter // of all addresses that do not fit
	swept     time.Time     // when silent addresses were last looked for
	streams   int
}

func newLimiters(l Limits) *limiters {
	l = l.withDefaults()
	return &limiters{
		limits: l, tokens: map[string]*rate.Limiter{}, addresses: map[netip.Prefix]*rate.Limiter{},
		others: rate.NewLimiter(rate.Limit(l.StrangerRate), l.StrangerBurst),
	}
}

// token is the limiter of a token, by its ID.
func (l *limiters) token(id string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.tokens[id]
	if found == nil {
		found = rate.NewLimiter(rate.Limit(l.limits.Rate), l.limits.Burst)
		l.tokens[id] = found
	}
	return found
}

// forget drops the limiter of a token that there is no more.
func (l *limiters) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tokens, id)
}

// address is the limiter of an address: of a network for IPv6, of which everybody has one.
func (l *limiters) address(remote string) *rate.Limiter {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return l.others
	}
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	key, err := addr.Prefix(bits)
	if err != nil {
		return l.others
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.addresses[key]; found != nil {
		return found
	}
	if now := time.Now(); len(l.addresses) >= mostAddresses && now.Sub(l.swept) > time.Second {
		l.swept = now
		for k, old := range l.addresses {
			if old.Tokens() >= float64(l.limits.StrangerBurst) {
				delete(l.addresses, k)
			}
		}
	}
	if len(l.addresses) >= mostAddresses {
		return l.others
	}
	found := rate.NewLimiter(rate.Limit(l.limits.StrangerRate), l.limits.StrangerBurst)
	l.addresses[key] = found
	return found
}

// take takes one request of what a limiter has left, or says after how many seconds to ask
// again.
func take(l *rate.Limiter) (again int, ok bool) {
	if l.Allow() {
		return 0, true
	}
	missing := 1 - l.Tokens()
	return max(1, int(math.Ceil(missing/float64(l.Limit())))), false
}

// join lets a client follow events; leave must be called when it goes.
func (l *limiters) join() (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams >= l.limits.Streams {
		return nil, false
	}
	l.streams++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.streams--
	}, true
}

// following is how many clients follow events.
func (l *limiters) following() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams
}

// later makes an answer say after how many seconds to ask again.
func later(w http.ResponseWriter, seconds int) {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
}

// limited answers a request that is one too many, or whose body is too large.
func (s *Service) limited(w http.ResponseWriter, r *http.Request, c caller) bool {
	if c.scope == "" || c.token != "" {
		l := s.limits.address
		key := r.RemoteAddr
		if c.token != "" {
			l, key = s.limits.token, c.token
		}
		if again, ok := take(l(key)); !ok {
			later(w, again)
			s.problem(w, r, fail(http.StatusTooManyRequests, api.TooMany, "too many requests: ask again in "+strconv.Itoa(again)+" s"))
			return true
		}
	}
	if r.Body == nil || r.Body == http.NoBody {
		return false
	}
	if r.ContentLength > s.limits.limits.Body {
		s.problem(w, r, fail(http.StatusRequestEntityTooLarge, api.TooLarge, "the body is larger than "+strconv.FormatInt(s.limits.limits.Body, 10)+" bytes"))
		return true
	}
	// Also where nobody reads it: net/http reads what is left, to use the connection again.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.limits.limits.BodyTime))
	r.Body = http.MaxBytesReader(w, r.Body, s.limits.limits.Body)
	return false
}
