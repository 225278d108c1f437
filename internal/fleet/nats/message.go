package nats

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/evotune/evotune/internal/fleet"
)

const (
	secretHeader   = "Evotune-Secret"
	encodingHeader = "Evotune-Encoding"
	statusHeader   = "Evotune-Status"
	requestHeader  = "Evotune-Request" // tells the requests of a worker apart

	deflated   = "deflate"    // the encoding of a compressed body
	refused    = "refused"    // the body is the text of a refusal
	unanswered = "unanswered" // the body says why there is no answer
	inHand     = "in hand"    // the request that the link asked about will be answered

	// asked stands where requests have their verbs, when a link asks whether the coordinator
	// has its request.
	asked fleet.Verb = "asked"

	// deflateAbove is the length in bytes from which a body is compressed.
	deflateAbove = 1 << 10
	// maxBody is the length in bytes of the largest body after decompression: a small message
	// must not fill the memory.
	maxBody = 32 << 20
	// maxPayload is the length in bytes of the largest message of an embedded broker.
	maxPayload = 8 << 20

	defaultPrefix = "evotune"
	// coordinator stands where workers have their names. None of them can have this one.
	coordinator = "@coordinator"
)

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$`)

func checkPrefix(prefix string) error {
	if !prefixForm.MatchString(prefix) {
		return fmt.Errorf("%.80q cannot be the prefix of a fleet: use letters, digits, '-' and '_', in parts that dots separate", prefix)
	}
	return nil
}

func subject(prefix, worker string, verb fleet.Verb) string {
	return prefix + "." + worker + "." + string(verb)
}

// split is the inverse of subject.
func split(prefix, subject string) (worker string, verb fleet.Verb, ok bool) {
	rest, ok := strings.CutPrefix(subject, prefix+".")
	worker, v, dot := strings.Cut(rest, ".")
	return worker, fleet.Verb(v), ok && dot
}

// inbox is what the subjects for answers to a worker begin with.
func inbox(prefix, worker string) string { return "_INBOX." + prefix + "." + worker }

var writers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(io.Discard, flate.BestSpeed) //nolint:errcheck // the level is valid
	return w
}}

// pack puts a body into a message, compressed if that makes it smaller.
func pack(m *nats.Msg, body []byte) {
	m.Data = body
	if len(body) <= deflateAbove {
		return
	}
	var out bytes.Buffer
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&out)
	_, err := w.Write(body)
	if err = errors.Join(err, w.Close()); err == nil && out.Len() < len(body) {
		m.Data = out.Bytes()
		m.Header.Set(encodingHeader, deflated)
	}
}

// unpack is the inverse of pack.
func unpack(m *nats.Msg) ([]byte, error) {
	switch e := m.Header.Get(encodingHeader); e {
	case "":
		return m.Data, nil
	case deflated:
	default:
		return nil, fmt.Errorf("a body is encoded as %.40q, which this evotune does not know: use the same version for the coordinator and its workers", e)
	}
	r := flate.NewReader(bytes.NewReader(m.Data))
	body, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("a compressed body of %d bytes is damaged: %w", len(m.Data), err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("a body has more than %d bytes before compression: send less at once", maxBody)
	}
	return body, nil
}

// tooLarge is the refusal of what a broker does not carry.
func tooLarge(what string, verb fleet.Verb, size int, limit int64) fleet.Refusal {
	return fleet.Refusal(fmt.Sprintf("the %s %q has %d bytes, compressed where that helps, and the broker carries %d: send less at once, or increase max_payload of the broker", what, verb, size, limit))
}
