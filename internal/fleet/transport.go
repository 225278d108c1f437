package fleet

import (
	"context"
	"errors"
)

// A Verb is one kind of request. Workers ask, the coordinator answers; nothing else travels.
type Verb string

// The verbs. Every one of them may arrive twice, late and out of order.
const (
	Enrol Verb = "enrol" // a worker says what it is
	Beat  Verb = "beat"  // what it does, and which results it still keeps
	Take  Verb = "take"  // asks for candidates, or for a place; the answer may take seconds
	Ready Verb = "ready" // the evaluator of its place is open, or could not be opened
	Done  Verb = "done"  // one result
	Fetch Verb = "fetch" // a piece of a file, by the SHA-256 of the file, or compiled code, by its key
	Keep  Verb = "keep"  // hands compiled code over
)

// Verbs lists all verbs.
func Verbs() []Verb { return []Verb{Enrol, Beat, Take, Ready, Done, Fetch, Keep} }

// ErrUnreachable is the error of a request that no coordinator answered: it may be
// repeated.
var ErrUnreachable = errors.New("the coordinator does not answer")

// A Refusal is an answer of the coordinator that refuses a request: one line, what was
// wrong and what to do. A transport carries its text.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// A Handler answers one request. worker is whose credential it came with, which the
// transport vouches for. An error that is a [Refusal] reaches the worker as one; of any other
// the worker learns nothing but that it got no answer.
type Handler func(ctx context.Context, worker string, verb Verb, body []byte) ([]byte, error)

// A Transport carries requests of many workers to one coordinator. It keeps nothing: what
// is lost with it is asked for again.
type Transport interface {
	// Serve has every request answered, each on a goroutine of its own, until Close. It is
	// called once.
	Serve(h Handler) error
	// Admit makes a credential for a worker, which takes the place of an older one. The
	// form of the answer is the transport's, for its own Dial.
	Admit(worker string) (Access, error)
	// Expel takes a worker's credential back, and cuts its connections.
	Expel(worker string) error
	// Close ends the connections. The contexts of handlers end first.
	Close() error
}

// Access is what a worker connects with.
type Access struct {
	Worker string `json:"worker"`
	// URLs are where the broker listens, each of which serves.
	URLs []string `json:"urls"`
	// Prefix begins the subjects of this fleet.
	Prefix string `json:"prefix"`
	// User and Secret belong to the worker alone.
	User   string `json:"user"`
	Secret string `json:"secret"` //nolint:gosec // the name of a field
	// Credentials is what the broker asks for where the coordinator cannot make workers known
	// to it: the text of a credentials file, or USER:PASSWORD. All workers have the same.
	// Empty means User and Secret.
	Credentials string `json:"credentials,omitempty"`
	// CA holds the certificates (PEM) that the broker's is checked with; empty means those
	// of the system.
	CA string `json:"ca,omitempty"`
}

// A Link is a worker's end. It is safe for concurrent use.
type Link interface {
	// Request asks once, and waits for the answer until ctx ends. The error is a
	// [Refusal], [ErrUnreachable] (which says what was tried), or that of ctx.
	Request(ctx context.Context, verb Verb, body []byte) ([]byte, error)
	Close() error
}
