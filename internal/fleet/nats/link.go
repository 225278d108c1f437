package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evotune/evotune/internal/fleet"
)

// watchEvery is how often a request that waits for its answer is asked after.
const watchEvery = time.Second

var errBroken = fmt.Errorf("%w: the connection to the broker broke before the answer came", fleet.ErrUnreachable)

type link struct {
	*connection
	access fleet.Access
}

// Dial makes the end of a worker. It tries each broker once, for at most 2 s, and goes on
// trying in the background. Only an Access that can never work is an error: what else keeps the
// link from the coordinator is in the errors of requests. A wrong secret is a
// [fleet.Refusal]. A nil log logs nothing.
func Dial(a fleet.Access, log *slog.Logger) (fleet.Link, error) {
	if err := fleet.CheckWorker(a.Worker); err != nil {
		return nil, err
	}
	if err := checkPrefix(a.Prefix); err != nil {
		return nil, err
	}
	if len(a.URLs) == 0 {
		return nil, fmt.Errorf("the access of worker %s names no broker", a.Worker)
	}
	credential := a.Credentials
	if credential == "" {
		credential = a.User + ":" + a.Secret
	}
	c, err := open(a.URLs, a.CA, credential, inbox(a.Prefix, a.Worker), log)
	if err != nil {
		return nil, err
	}
	return &link{connection: c, access: a}, nil
}

func (l *link) Request(ctx context.Context, verb fleet.Verb, body []byte) ([]byte, error) {
	life, err := l.up(ctx, patience)
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fleet.RefuseCredential(l.access.Worker)
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%w (%w)", err, ctx.Err())
	case err != nil:
		return nil, err
	}
	id := rand.Text()
	m := nats.NewMsg(subject(l.access.Prefix, l.access.Worker, verb))
	m.Header.Set(secretHeader, l.access.Secret)
	m.Header.Set(requestHeader, id)
	pack(m, body)

	asking, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	defer context.AfterFunc(life, func() { lost(errBroken) })()
	watch := time.AfterFunc(watchEvery, func() { l.watch(asking, id, lost) })
	defer watch.Stop()
	answer, err := l.RequestMsgWithContext(asking, m)
	switch {
	case err == nil:
		return l.read(verb, answer)
	case errors.Is(err, nats.ErrNoResponders):
		return nil, l.nobody()
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, tooLarge("request", verb, len(m.Data), l.MaxPayload())
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case asking.Err() != nil:
		return nil, context.Cause(asking)
	}
	return nil, fmt.Errorf("%w: %w", fleet.ErrUnreachable, err)
}

// nobody is the error where no coordinator listens.
func (l *link) nobody() error {
	return fmt.Errorf("%w: none serves %q at %s", fleet.ErrUnreachable, l.access.Prefix, l.urls)
}

// watch asks from time to time whether the coordinator has a request. Neither end notices
// when a message is lost between brokers, or with a connection that breaks: without this, the
// worker would wait until its context ends. Messages between two ends stay in order, so that
// an answer is never behind the word that there will be none.
func (l *link) watch(asking context.Context, id string, lost func(error)) {
	for asking.Err() == nil {
		ctx, cancel := context.WithTimeout(asking, patience)
		m := nats.NewMsg(subject(l.access.Prefix, l.access.Worker, asked))
		m.Header.Set(requestHeader, id)
		answer, err := l.RequestMsgWithContext(ctx, m)
		cancel()
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			lost(l.nobody())
		case err == nil && answer.Header.Get(statusHeader) != inHand:
			lost(fmt.Errorf("%w: the request or its answer was lost on the way", fleet.ErrUnreachable))
		}
		select { // no answer to this question says nothing: ask again
		case <-time.After(watchEvery):
		case <-asking.Done():
		}
	}
}

// read is what an answer says.
func (l *link) read(verb fleet.Verb, m *nats.Msg) ([]byte, error) {
	body, err := unpack(m)
	if err != nil {
		return nil, fleet.Refusal(fmt.Sprintf("the answer to %q cannot be read: %v", verb, err))
	}
	switch m.Header.Get(statusHeader) {
	case refused:
		return nil, fleet.Refusal(body)
	case unanswered:
		return nil, fmt.Errorf("%w: %s", fleet.ErrUnreachable, body)
	}
	return body, nil
}

func (l *link) Close() error {
	l.close()
	return nil
}
