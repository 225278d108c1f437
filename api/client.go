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
// change after the first one.
//
// What a service answers with an error is a [*Problem]. It is the sentinel that a store or
// package evotune would have given, in errors.Is. Requests that may be repeated (all that
// read, submissions, and changes that are so already when they come twice) are repeated when
// the connection fails or the service is busy.
type Client struct {
	// HTTP sends the requests. NewClient makes one for the address.
	HTTP *http.Client
	// Attempts is how often a request is sent at most. Zero means 5.
	Attempts int
	// OnRetry, when not nil, is called before a request is sent again, or a stream asked for
	// again, with why and after how long.
	OnRetry func(why error, after time.Duration)

	base, token, address string
}

const (
	defaultAttempts = 5
	firstWait       = 100 * time.Millisecond
	mostWait        = 5 * time.Second
	// mostRetryAfter bounds what a service may ask a client to wait.
	mostRetryAfter = time.Minute
	// mostProblem bounds what is read of an error, in bytes.
	mostProblem = 1 << 20
)

// NothingHere begins the answer to a request for an address that no route is for.
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
	// A redirection could take the token to somebody else.
	c.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Address is the one that the client was made for.
func (c *Client) Address() string { return c.address }

// Close ends connections that are not in use.
func (c *Client) Close() error {
	c.HTTP.CloseIdleConnections()
	return nil
}

// Unwrap gives the errors that the problem is of on the other side.
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
		// An evotune.FieldError is told with its field as the place.
		if len(p.Errors) == 1 && p.Detail == p.Errors[0].Location+" "+p.Errors[0].Message {
			return []error{&evotune.FieldError{Field: p.Errors[0].Location, Err: errors.New(p.Errors[0].Message)}}
		}
		return []error{evotune.ErrInput}
	}
	return nil
}

// A request is one that is sent until it is answered.
type request struct {
	method, path string
	query        url.Values
	body         any // JSON; nil sends none
	header       http.Header
	// once says that the request must not be sent twice.
	once bool
}

// send sends a request and gives the answer, whose status is 2xx.
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

// wait waits before something is tried again.
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

// A busyError is a problem that comes with the time to wait.
type busyError struct {
	*Problem
	after time.Duration // zero when the service did not say
}

func (e *busyError) Unwrap() error { return e.Problem }

// retry says whether and when a request that failed is to be sent again.
func retry(err error, once bool, wait time.Duration) (time.Duration, bool) {
	var busy *busyError
	if errors.As(err, &busy) {
		return cmp.Or(busy.after, wait), true
	}
	// What could not connect was not sent.
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
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout: // the last two are of what stands before it
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

// problem reads what a service answers with an error. What stands before it, such as a
// proxy, may answer with anything.
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

// Who says whom the client's token stands for, and whom it talks to.
func (c *Client) Who(ctx context.Context) (Who, error) { return get[Who](ctx, c, nil, "whoami") }

// Submit submits a campaign. The request has a key of its own, so that it makes one campaign
// however often it must be sent.
func (c *Client) Submit(ctx context.Context, s Submission) (Campaign, error) {
	var out Campaign
	r := request{method: http.MethodPost, path: pathOf("campaigns"), body: s, header: http.Header{"Idempotency-Key": {rand.Text()}}}
	return out, c.do(ctx, r, &out)
}

// AdmitWorker gives a credential for a worker of the fleet. secret is that of the credential that it has; it
// is empty where it has none.
func (c *Client) AdmitWorker(ctx context.Context, name, secret string) (evotune.FleetAccess, error) {
	return post[evotune.FleetAccess](ctx, c, NewWorker{name, secret}, "fleet", "workers")
}

// Fleet is what the service knows of its workers.
func (c *Client) Fleet(ctx context.Context) (Fleet, error) {
	return get[Fleet](ctx, c, nil, "fleet")
}

// Campaign is one campaign, by its ID or a unique beginning of it, as it is at the moment.
func (c *Client) Campaign(ctx context.Context, id string) (Campaign, error) {
	return get[Campaign](ctx, c, nil, "campaigns", id)
}

// Campaigns is a page of the campaigns, the newest first; with a cursor, the page that it is
// of. State and kernel, if not empty, choose among them.
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

// Pause ends a campaign after the candidates in flight, to be resumed.
func (c *Client) Pause(ctx context.Context, id string) (Campaign, error) {
	return post[Campaign](ctx, c, nil, "campaigns", id, "pause")
}

// Resume goes on with a campaign that is paused or failed.
func (c *Client) Resume(ctx context.Context, id string) (Campaign, error) {
	return post[Campaign](ctx, c, nil, "campaigns", id, "resume")
}

// Cancel ends a campaign at once, for good.
func (c *Client) Cancel(ctx context.Context, id string) (Campaign, error) {
	return post[Campaign](ctx, c, nil, "campaigns", id, "cancel")
}

// Kernel is a kernel that the service has.
func (c *Client) Kernel(ctx context.Context, name string) (Kernel, error) {
	return get[Kernel](ctx, c, nil, "kernels", name)
}

// Upload gives the service a kernel, which is linted first: the problem lists what was found,
// with files and lines.
func (c *Client) Upload(ctx context.Context, u Upload) (Kernel, error) {
	return post[Kernel](ctx, c, u, "kernels")
}

// Judge asks for a judgment of a finished kernel, which is an operation.
func (c *Client) Judge(ctx context.Context, j Judge) (Operation, error) {
	return post[Operation](ctx, c, j, "judge")
}

// Backup copies the service's store to a path on its machine, which is an operation.
func (c *Client) Backup(ctx context.Context, b Backup) (Operation, error) {
	return post[Operation](ctx, c, b, "backup")
}

// DownloadBackup gives a copy of the service's store, as [store.ReadBackup] reads it.
func (c *Client) DownloadBackup(ctx context.Context) (io.ReadCloser, error) {
	resp, err := c.send(ctx, request{method: http.MethodGet, path: pathOf("backup")})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Archive moves finished campaigns to an archive, which is an operation.
func (c *Client) Archive(ctx context.Context, a Archive) (Operation, error) {
	return post[Operation](ctx, c, a, "archive")
}

// Operation is a slow action, as it is at the moment.
func (c *Client) Operation(ctx context.Context, id string) (Operation, error) {
	return get[Operation](ctx, c, nil, "operations", id)
}

// Wait waits for the end of an operation, which it gives.
func (c *Client) Wait(ctx context.Context, id string) (Operation, error) {
	for wait := firstWait; ; wait = min(wait*3/2, time.Second) {
		o, err := c.Operation(ctx, id)
		if err != nil || o.State.Ended() {
			return o, err
		}
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Importance says which genes mattered in a campaign. It waits while the service computes it.
func (c *Client) Importance(ctx context.Context, id string, best float64) (evotune.Importance, error) {
	const all = "1000" // pairs
	patient := *c
	patient.Attempts = math.MaxInt
	query := url.Values{"best": {strconv.FormatFloat(best, 'g', -1, 64)}, "pairs": {all}}
	return get[evotune.Importance](ctx, &patient, query, "campaigns", id, "importance")
}

// Report gives what a campaign did as the files of a folder.
func (c *Client) Report(ctx context.Context, id string) (evotune.Files, error) {
	return c.folder(ctx, pathOf("campaigns", id, "report"))
}

// mostFolder bounds what is downloaded, and what it unpacks to, in bytes.
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
