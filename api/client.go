package api

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/store"
)

// A Client sends requests to a service. It is safe for concurrent use; the fields must not
// change after the first request.
//
// An error that a service answers is a [*Problem]. With errors.Is it matches the sentinel
// that a store or package evotune would have returned. Requests that may be repeated (all
// that read, submissions, and idempotent changes) are repeated when
// the connection fails or the service is busy.
type Client struct {
	// HTTP sends the requests. NewClient makes one for the address.
	HTTP *http.Client
	// Attempts is the largest number of times that a request is sent. Zero means 5.
	Attempts int
	// OnRetry, when not nil, is called before a request or a request for a stream is
	// repeated, with the reason and the delay.
	OnRetry func(why error, after time.Duration)

	base, token, address string
}

const (
	defaultAttempts = 5
	firstWait       = 100 * time.Millisecond
	mostWait        = 5 * time.Second
	// mostRetryAfter bounds how long a service may ask a client to wait.
	mostRetryAfter = time.Minute
	// mostProblem bounds how much of an error is read, in bytes.
	mostProblem = 1 << 20
)

// NothingHere begins the answer to a request for an address without a route.
const NothingHere = "there is nothing at this address"

// ErrUnreachable is the error of a service that does not answer.
var ErrUnreachable = errors.New("the service does not answer")

// NewClient makes a client of the service at an address, http://HOST:PORT, https://HOST:PORT
// or unix:///PATH, which is a socket that needs no token. The error is an evotune.ErrInput.
func NewClient(address, token string) (*Client, error) {
	bad := func(format string, args ...any) (*Client, error) {
		return nil, &Problem{Type: BadRequest, Detail: fmt.Sprintf(format, args...)}
	}
	u, err := url.Parse(address)
	if err != nil {
		return bad("the address %q of the service is no URL: give http://HOST:PORT, https://HOST:PORT or unix:///PATH", address)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck,forcetypeassert // it is one
	c := &Client{HTTP: &http.Client{Transport: transport}, token: token, address: address}
	switch {
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return bad("the address of the service must be no more than http://HOST:PORT, https://HOST:PORT or unix:///PATH; a token goes into EVOTUNE_TOKEN or a file")
	case u.Scheme == "unix" && u.Host == "" && u.Path != "":
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", u.Path)
		}
		c.base = "http://socket"
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		c.base = strings.TrimSuffix(u.Scheme+"://"+u.Host+u.EscapedPath(), "/")
	default:
		return bad("the address %q of the service is not known: give http://HOST:PORT, https://HOST:PORT or unix:///PATH", address)
	}
	// A redirect could send the token to another server.
	c.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Address returns the address that the client was made for.
func (c *Client) Address() string { return c.address }

// Close ends connections that are not in use.
func (c *Client) Close() error {
	c.HTTP.CloseIdleConnections()
	return nil
}

// Unwrap returns the errors that the problem has on the service's side.
func (p *Problem) Unwrap() []error {
	switch p.Type {
	case NotFound:
		return []error{store.ErrNotFound}
	case Ambiguous:
		return []error{store.ErrAmbiguous}
	case Damaged:
		return []error{store.ErrCorrupt}
	case NoCandidate:
		return []error{evotune.ErrNoCandidate}
	case Unproven:
		return []error{evotune.ErrUnproven}
	case Unavailable:
		return []error{ErrUnreachable}
	case BadRequest:
		// An evotune.FieldError is sent with its field as the location.
		if len(p.Errors) == 1 && p.Detail == p.Errors[0].Location+" "+p.Errors[0].Message {
			return []error{&evotune.FieldError{Field: p.Errors[0].Location, Err: errors.New(p.Errors[0].Message)}}
		}
		return []error{evotune.ErrInput}
	}
	return nil
}

// A request is sent until it is answered.
type request struct {
	method, path string
	query        url.Values
	body         any // JSON; nil sends none
	header       http.Header
	// once says that the request must not be sent twice.
	once bool
}

// send sends a request and returns the answer, whose status is 2xx.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return nil, err
		}
	}
	wait := firstWait
	for attempt := 1; ; attempt++ {
		resp, err := c.try(ctx, r, body)
		if err == nil {
			return resp, nil
		}
		after, again := retry(err, r.once, wait)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !again || attempt >= cmp.Or(c.Attempts, defaultAttempts) {
			return nil, err
		}
		if err := c.wait(ctx, err, after); err != nil {
			return nil, err
		}
		wait = min(2*wait, mostWait)
	}
}

// wait waits before a retry.
func (c *Client) wait(ctx context.Context, why error, after time.Duration) error {
	if c.OnRetry != nil {
		c.OnRetry(why, after)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(after):
		return nil
	}
}

// A busyError is a problem with the time to wait.
type busyError struct {
	*Problem
	after time.Duration // zero when the service did not say
}

func (e *busyError) Unwrap() error { return e.Problem }

// retry says whether and when to send a failed request again.
func retry(err error, once bool, wait time.Duration) (time.Duration, bool) {
	var busy *busyError
	if errors.As(err, &busy) {
		return cmp.Or(busy.after, wait), true
	}
	// If it could not connect, it was not sent.
	var op *net.OpError
	return wait, errors.Is(err, ErrUnreachable) && (!once || errors.As(err, &op) && op.Op == "dial")
}

// try sends a request once.
func (c *Client) try(ctx context.Context, r request, body []byte) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var send io.Reader
	if r.body != nil {
		send = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, send)
	if err != nil {
		return nil, err
	}
	for key, values := range r.header {
		req.Header[key] = values
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	p := c.problem(resp)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout: // the last two come from a proxy in front of it
		return nil, &busyError{p, retryAfter(resp.Header.Get("Retry-After"))}
	}
	return nil, p
}

// unreachable is the error of a connection, without the URL that Go's client repeats.
func (c *Client) unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if bad := (*tls.CertificateVerificationError)(nil); errors.As(err, &bad) {
		return fmt.Errorf("%s: %w: %w: if you trust it, give the certificate of its authority in SSL_CERT_FILE", c.address, ErrUnreachable, err)
	}
	return fmt.Errorf("%s: %w: %w", c.address, ErrUnreachable, err)
}

// problem reads the error that a service answers. A proxy in front of it may answer
// with anything.
func (c *Client) problem(resp *http.Response) *Problem {
	p := new(Problem)
	b, err := io.ReadAll(io.LimitReader(resp.Body, mostProblem))
	if err == nil {
		err = json.Unmarshal(b, p)
	}
	if err != nil || p.Detail == "" {
		p.Type, p.Title, p.Status = Internal, resp.Status, resp.StatusCode
		p.Detail = fmt.Sprintf("%s answers %s: is this the address of `tune serve`?", c.address, resp.Status)
	}
	if at, err := url.Parse(c.base); err == nil && at.Path != "" && resp.StatusCode == http.StatusNotFound && (p.Type == Internal || strings.HasPrefix(p.Detail, NothingHere)) {
		p.Type = BadRequest
		p.Detail = fmt.Sprintf("the address %s of the service has a path, and no service answers there: give %s://%s", c.address, at.Scheme, at.Host)
	}
	if p.Type == Unauthorized {
		p.Detail += "; `tune` takes it from EVOTUNE_TOKEN or --token-file FILE"
	}
	return p
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(text string) time.Duration {
	d := time.Duration(0)
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && !math.IsInf(n, 0) {
		d = time.Duration(min(n, mostRetryAfter.Seconds()) * float64(time.Second))
	} else if at, err := http.ParseTime(text); err == nil {
		d = max(0, time.Until(at))
	}
	return min(d, mostRetryAfter)
}

// do sends a request and decodes its answer into out, if it is not nil.
func (c *Client) do(ctx context.Context, r request, out any) error {
	_, err := c.answer(ctx, r, out)
	return err
}

func (c *Client) answer(ctx context.Context, r request, out any) (http.Header, error) {
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, mostProblem))
	} else {
		err = json.NewDecoder(resp.Body).Decode(out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the answer to %s %s cannot be read: %w", c.address, r.method, r.path, err)
	}
	return resp.Header, nil
}

func get[T any](ctx context.Context, c *Client, query url.Values, path ...string) (out T, err error) {
	return out, c.do(ctx, request{method: http.MethodGet, path: pathOf(path...), query: query}, &out)
}

func post[T any](ctx context.Context, c *Client, body any, path ...string) (out T, err error) {
	return out, c.do(ctx, request{method: http.MethodPost, path: pathOf(path...), body: body}, &out)
}

// pathOf is a path below /v1, its parts escaped.
func pathOf(parts ...string) string {
	path := "/v1"
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// Who says who the client's token identifies, and which service answers.
func (c *Client) Who(ctx context.Context) (Who, error) { return get[Who](ctx, c, nil, "whoami") }

// Submit submits a campaign. The request has its own key, so it makes one campaign however
// often it is sent.
func (c *Client) Submit(ctx context.Context, s Submission) (Campaign, error) {
	var out Campaign
	r := request{method: http.MethodPost, path: pathOf("campaigns"), body: s, header: http.Header{"Idempotency-Key": {rand.Text()}}}
	return out, c.do(ctx, r, &out)
}

// AdmitWorker returns a credential for a worker of the fleet. secret is that of the worker's
// current credential, or empty if it has none.
func (c *Client) AdmitWorker(ctx context.Context, name, secret string) (evotune.FleetAccess, error) {
	return post[evotune.FleetAccess](ctx, c, NewWorker{name, secret}, "fleet", "workers")
}

// Fleet returns what the service knows about its workers.
func (c *Client) Fleet(ctx context.Context) (Fleet, error) {
	return get[Fleet](ctx, c, nil, "fleet")
}

// Campaign returns one campaign in its current state, by its ID or a unique beginning of
// it.
func (c *Client) Campaign(ctx context.Context, id string) (Campaign, error) {
	return get[Campaign](ctx, c, nil, "campaigns", id)
}

// Campaigns returns a page of the campaigns, the newest first; with a cursor, the cursor's
// page. State and kernel, if not empty, filter them.
func (c *Client) Campaigns(ctx context.Context, state State, kernel, cursor string) (Page[Campaign], error) {
	query := url.Values{}
	for key, value := range map[string]string{"state": string(state), "kernel": kernel, "cursor": cursor} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return get[Page[Campaign]](ctx, c, query, "campaigns")
}

// Change changes a campaign.
func (c *Client) Change(ctx context.Context, id string, change Change) (Campaign, error) {
	var out Campaign
	return out, c.do(ctx, request{method: http.MethodPatch, path: pathOf("campaigns", id), body: change}, &out)
}

// Pause stops a campaign after the candidates in flight; it can be resumed.
func (c *Client) Pause(ctx context.Context, id string) (Campaign, error) {
	return post[Campaign](ctx, c, nil, "campaigns", id, "pause")
}

// Resume continues a campaign that is paused or failed.
func (c *Client) Resume(ctx context.Context, id string) (Campaign, error) {
	return post[Campaign](ctx, c, nil, "campaigns", id, "resume")
}

// Cancel ends a campaign at once and permanently.
func (c *Client) Cancel(ctx context.Context, id string) (Campaign, error) {
	return post[Campaign](ctx, c, nil, "campaigns", id, "cancel")
}

// Kernel returns a kernel that the service has.
func (c *Client) Kernel(ctx context.Context, name string) (Kernel, error) {
	return get[Kernel](ctx, c, nil, "kernels", name)
}

// Upload sends a kernel to the service, which lints it first: the problem lists the findings,
// with files and lines.
func (c *Client) Upload(ctx context.Context, u Upload) (Kernel, error) {
	return post[Kernel](ctx, c, u, "kernels")
}

// Judge starts the judgment of a finished kernel, as an operation.
func (c *Client) Judge(ctx context.Context, j Judge) (Operation, error) {
	return post[Operation](ctx, c, j, "judge")
}

// Backup copies the service's store to a path on its machine, as an operation.
func (c *Client) Backup(ctx context.Context, b Backup) (Operation, error) {
	return post[Operation](ctx, c, b, "backup")
}

// DownloadBackup returns a copy of the service's store, as [store.ReadBackup] reads it.
func (c *Client) DownloadBackup(ctx context.Context) (io.ReadCloser, error) {
	resp, err := c.send(ctx, request{method: http.MethodGet, path: pathOf("backup")})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Archive moves finished campaigns to an archive, as an operation.
func (c *Client) Archive(ctx context.Context, a Archive) (Operation, error) {
	return post[Operation](ctx, c, a, "archive")
}

// Operation returns an operation in its current state.
func (c *Client) Operation(ctx context.Context, id string) (Operation, error) {
	return get[Operation](ctx, c, nil, "operations", id)
}

// Wait waits for the end of an operation, and returns it. Tell, if it is not nil, gets what the service says of it
// until then, again and again.
func (c *Client) Wait(ctx context.Context, id string, tell func(Operation)) (Operation, error) {
	for wait := firstWait; ; wait = min(wait*3/2, time.Second) {
		o, err := c.Operation(ctx, id)
		if err != nil || o.State.Ended() {
			return o, err
		}
		if tell != nil {
			tell(o)
		}
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Importance returns which genes mattered in a campaign. It waits while the service computes
// this.
func (c *Client) Importance(ctx context.Context, id string, best float64) (evotune.Importance, error) {
	const all = "1000" // pairs
	patient := *c
	patient.Attempts = math.MaxInt
	query := url.Values{"best": {strconv.FormatFloat(best, 'g', -1, 64)}, "pairs": {all}}
	return get[evotune.Importance](ctx, &patient, query, "campaigns", id, "importance")
}

// Report returns the report on a campaign as the files of a folder.
func (c *Client) Report(ctx context.Context, id string) (evotune.Files, error) {
	return c.folder(ctx, pathOf("campaigns", id, "report"))
}

// mostFolder bounds the size of a download, and of its unpacked files, in bytes.
const mostFolder = 1 << 30

// folder downloads a folder, without its name.
func (c *Client) folder(ctx context.Context, path string) (evotune.Files, error) {
	resp, err := c.send(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, mostFolder))
	if err != nil {
		return nil, c.unreachable(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: the download cannot be read: %w", c.address, err)
	}
	files, left := evotune.Files{}, int64(mostFolder)
	for _, f := range z.File {
		_, name, ok := strings.Cut(f.Name, "/")
		if !ok || name == "" || strings.HasSuffix(name, "/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("%s: the download cannot be read: %w", c.address, err)
		}
		content, err := io.ReadAll(io.LimitReader(r, left))
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, fmt.Errorf("%s: the download cannot be read: %w", c.address, err)
		}
		if left -= int64(len(content)); left <= 0 {
			return nil, fmt.Errorf("%s: the download has more than %d bytes", c.address, int64(mostFolder))
		}
		files[name] = content
	}
	return files, nil
}
