package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// mostEvent bounds one event, in bytes: finals have all their samples.
	mostEvent = 256 << 20
	// silence is how long a stream may be silent before it is requested again.
	silence = 45 * time.Second
)

// Events follows a campaign: the events of its log after one (0: all of them), then new ones
// as they come, and its state with its progress between them. When the connection is lost,
// or the service restarts, Events requests what follows the last event: no event is lost or
// repeated until ctx ends. It ends when the campaign has ended and all events were sent,
// with ctx, or with a permanent error.
func (c *Client) Events(ctx context.Context, campaign string, after uint64) iter.Seq2[Event, error] {
	return c.events(ctx, campaign, after, false)
}

// events is Events; short summarizes what has happened so far.
func (c *Client) events(ctx context.Context, campaign string, after uint64, short bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		wait := firstWait
		for {
			s := stream{client: c, campaign: campaign, after: after, short: short, yield: yield}
			err := s.read(ctx)
			after = s.after
			switch {
			case s.stopped:
				return
			case ctx.Err() != nil:
				yield(Event{}, ctx.Err())
				return
			case err == nil && s.ended:
				return
			case err == nil:
				err = fmt.Errorf("%s: %w: the stream of events broke off", c.address, ErrUnreachable)
			}
			if s.any {
				wait = firstWait
			}
			pause, again := retry(err, false, wait)
			if !again {
				yield(Event{}, err)
				return
			}
			if err := c.wait(ctx, err, pause); err != nil {
				yield(Event{}, err)
				return
			}
			wait = min(2*wait, mostWait)
		}
	}
}

// A stream is one connection that events come over.
type stream struct {
	client   *Client
	campaign string
	after    uint64
	short    bool
	yield    func(Event, error) bool

	any     bool // something came
	ended   bool // the campaign has
	stopped bool // the caller wants no more
}

// read reads until the stream ends. The error is an ErrUnreachable if the stream can be
// requested again.
func (s *stream) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := request{method: http.MethodGet, path: pathOf("campaigns", s.campaign, "events"), header: http.Header{"Accept": {"text/event-stream"}}}
	switch {
	case s.after > 0:
		r.header.Set("Last-Event-ID", strconv.FormatUint(s.after, 10))
	case s.short:
		r.query = url.Values{"past": {"short"}}
	}
	resp, err := s.client.try(ctx, r, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// A connection whose other end is gone is silent.
	watch := time.AfterFunc(silence, cancel)
	defer watch.Stop()
	lines := bufio.NewReader(resp.Body)
	var id uint64
	var data []byte
	for {
		line, err := readLine(lines)
		if err != nil {
			if errors.Is(err, errTooLong) {
				return err
			}
			if !errors.Is(err, io.EOF) {
				return s.client.unreachable(err)
			}
			return nil // an event without an empty line at its end is incomplete
		}
		watch.Reset(silence)
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if len(data) == 0 {
				if id > 0 { // the end of a summary
					s.after, id = id, 0
				}
				break
			}
			if err := s.tell(id, data); err != nil || s.stopped {
				return err
			}
			id, data = 0, nil
		case key == "id":
			if id, err = strconv.ParseUint(value, 10, 64); err != nil {
				return fmt.Errorf("%s: the number %q of an event cannot be read", s.client.address, value)
			}
		case key == "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
	}
}

// tell passes one event to the follower, once.
func (s *stream) tell(id uint64, data []byte) error {
	e := Event{ID: id, Data: data}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%s: an event cannot be read: %w", s.client.address, err)
	}
	s.any = true
	if id > 0 {
		if id <= s.after {
			return nil
		}
		s.after = id
	}
	if e.Kind == "state" {
		var now Status
		if err := json.Unmarshal(data, &now); err != nil {
			return fmt.Errorf("%s: an event cannot be read: %w", s.client.address, err)
		}
		s.ended = now.State.Ended() && now.Progress == nil
	}
	s.stopped = !s.yield(e, nil)
	return nil
}

var errTooLong = errors.New("an event is too long")

// readLine reads a line without its end.
func readLine(r *bufio.Reader) (string, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		long = append(long, part...)
		switch {
		case len(long) > mostEvent:
			return "", errTooLong
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return "", err
		default:
			return strings.TrimRight(string(long), "\r\n"), nil
		}
	}
}
