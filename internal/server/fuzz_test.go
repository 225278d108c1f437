package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/longtest"
)

// A mangler makes requests that are wrong in ways that the OpenAPI document suggests.
type mangler struct {
	*rand.Rand
	ops      []documented
	campaign string
	token    string
}

func pick[T any](m *mangler, of ...T) T { return of[m.Intn(len(of))] }

// text is one that somebody could send by mistake or on purpose.
func (m *mangler) text() string {
	return pick(m, "", "x", "-1", "0", "1", "99999999999999999999", "1e999", "NaN", "null", "true", "\x00", "\xff\xfe", "é\u202e", "'; DROP TABLE", "../../etc/passwd",
		"{{.}}", "%s%n", strings.Repeat("a", 1+m.Intn(300)), strings.Repeat("é", 3000), "evt_"+strings.Repeat("A", 43), m.campaign, "cpu", "replay", "queued",
		strings.Repeat("0", 40), "deadbeef", "2026-01-01T00:00:00Z", "0001-01-01", "\u2028", "a b", "a\tb")
}

// junk is a JSON value of any type, or none at all.
func (m *mangler) junk() string {
	return pick(m, "null", "true", "0", "-1", "1.5", "1e400", "-1e-400", "9223372036854775808", "-9223372036854775809", `""`, "[]", "{}", "[[[[]]]]",
		"", "{", "[1,", `"`, `"\x"`, `"\ud800"`, "\xff", "nul", "{1:2}", `{"a":1,"a":2}`, "01", "+1", ".5", "'a'", "//", "\ufeff{}",
		strings.Repeat("[", 1+m.Intn(20000)), strings.Repeat(`{"a":`, 1+m.Intn(3000)), "["+strings.Repeat("1,", m.Intn(5000))+"1]",
		quoted(m.text()), quoted(strings.Repeat("x", m.Intn(100000))))
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	if !utf8.ValidString(s) {
		return `"` + s + `"` // as it is: no UTF-8
	}
	return string(b)
}

// value is a JSON value for a schema, more or less.
func (m *mangler) value(schema any, schemas map[string]any, depth int) string {
	if m.Intn(8) == 0 || depth > 5 {
		return m.junk()
	}
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return m.value(schemas[ref[strings.LastIndex(ref, "/")+1:]], schemas, depth+1)
	}
	if enum, ok := s["enum"].([]any); ok && m.Intn(3) > 0 {
		b, err := json.Marshal(pick(m, enum...))
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	kind, _ := s["type"].(string)
	if kinds, ok := s["type"].([]any); ok {
		kind, _ = pick(m, kinds...).(string)
	}
	switch kind {
	case "object":
		properties, _ := s["properties"].(map[string]any)
		var names []string
		for name := range properties {
			names = append(names, name)
		}
		slices.Sort(names)
		var parts []string
		for _, name := range names {
			if m.Intn(3) > 0 {
				parts = append(parts, quoted(name)+":"+m.value(properties[name], schemas, depth+1))
			}
		}
		for m.Intn(4) == 0 {
			parts = append(parts, quoted(m.text())+":"+m.junk())
		}
		return "{" + strings.Join(parts, ",") + "}"
	case "array":
		var parts []string
		for range m.Intn(4) {
			parts = append(parts, m.value(s["items"], schemas, depth+1))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case "string":
		return quoted(m.text())
	case "integer", "number":
		return pick(m, "0", "1", "-1", "7", "1000000", "1.5", "-0", "1e9", "1e308", "9223372036854775807", "-9223372036854775808", "18446744073709551616")
	case "boolean":
		return pick(m, "true", "false", "1", `"true"`)
	}
	return m.junk()
}

// escape puts a text into an address, well or badly.
func (m *mangler) escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '%' || c == '?' || c == '#' || m.Intn(20) == 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if m.Intn(20) == 0 {
		b.WriteString(pick(m, "%", "%0", "%zz", "%2", "%00", "%2e%2e%2f", "%c0%af", "/..", "//", "/./", ";a=b"))
	}
	return b.String()
}

var braces = regexp.MustCompile(`\{[^}]*\}`)

// request is one, as it goes over the wire.
func (m *mangler) request() string {
	op := pick(m, m.ops...)
	// In one pass: what a text has of braces must not be filled in turn.
	path := braces.ReplaceAllStringFunc(op.path, func(string) string { return m.escape(pick(m, m.campaign, m.campaign[:3], m.text())) })
	var query []string
	headers := []string{"Host: x", "Connection: close"}
	for _, p := range op.params {
		switch {
		case p.in == "query" && m.Intn(2) == 0:
			query = append(query, p.name+"="+m.escape(m.text()))
		case p.in == "header" && m.Intn(2) == 0:
			headers = append(headers, p.name+": "+oneLine(m.text()))
		}
	}
	for m.Intn(6) == 0 {
		query = append(query, m.escape(m.text())+pick(m, "=", "", "[]=", "==")+m.escape(m.text()))
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, pick(m, "&", "&", ";"))
	}
	method := op.method
	if m.Intn(10) == 0 {
		method = pick(m, "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "X-")
	}
	switch m.Intn(12) {
	case 0:
	case 1:
		headers = append(headers, "Authorization: "+pick(m, "Bearer", "Bearer ", "Bearer evt_", "Basic eDp5", "bearer  "+m.token, oneLine(m.text()), "Bearer "+m.token+"\r\nAuthorization: Bearer x"))
	default:
		headers = append(headers, "Authorization: Bearer "+m.token)
	}
	for m.Intn(3) == 0 {
		headers = append(headers, pick(m,
			"Accept: "+oneLine(m.text()), "Accept: application/cbor", "Accept: text/event-stream;q=x", "Accept-Encoding: gzip, br;q=,", "X-Request-Id: "+oneLine(m.text()),
			"Expect: 100-continue", "Range: bytes=9-1,-", "If-None-Match: "+oneLine(m.text()), "Cookie: a=b; token="+m.token, "Origin: null", "Upgrade: h2c",
			"X-"+strings.Repeat("a", m.Intn(2000))+": "+strings.Repeat("b", m.Intn(9000)), "Content-Encoding: gzip", "Last-Event-ID: "+oneLine(m.text()), "Traceparent: 00-"))
	}
	text := ""
	if op.body != nil && m.Intn(12) > 0 || m.Intn(12) == 0 {
		text = m.value(op.body, op.schemas, 0)
		headers = append(headers, "Content-Type: "+pick(m, "application/json", "application/json", "application/json", "application/json", "application/json; charset=utf-16", "text/plain", "application/cbor",
			"multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application/merge-patch+json", "application/problem+json", "", "/", oneLine(m.text())))
		switch m.Intn(20) {
		case 0:
			headers = append(headers, "Transfer-Encoding: chunked")
			text = pick(m, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(text), text), "zz\r\n", "5\r\nab", "ffffffffffffffff\r\n", "0\r\n\r\n")
		case 1:
			headers = append(headers, fmt.Sprint("Content-Length: ", len(text)+1+m.Intn(5)))
		case 2:
			headers = append(headers, "Content-Length: "+pick(m, "-1", "x", "99999999999", "0"))
		default:
			headers = append(headers, fmt.Sprint("Content-Length: ", len(text)))
		}
	}
	return method + " " + path + " HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + text
}

// oneLine is a text that ends no header.
func oneLine(s string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(s) }

// TestMalformed: whatever comes in, the service answers that it is wrong, and stays whole.
func TestMalformed(t *testing.T) { malformed(t, 2000, 1) }

func TestMalformedNightly(t *testing.T) {
	longtest.Nightly(t, "soak", "it sends 10,000 requests")
	malformed(t, 10_000, time.Now().UnixNano())
}

func malformed(t *testing.T, n int, seed int64) {
	before := goleak.IgnoreCurrent()
	t.Logf("seed %d", seed)
	t.Run("requests", func(t *testing.T) {
		g := protect(t, Limits{Rate: 1e9, Burst: 1e9, StrangerRate: 1e9, StrangerBurst: 1e9, BodyTime: 200 * time.Millisecond})
		_, _, text := g.send("POST", "/v1/campaigns", g.admin, fmt.Sprintf(`{"backend":"replay","table":%q,"budget":{"evaluations":8}}`, table(t)))
		var c api.Campaign
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(text)
		}
		ops := g.document()
		const senders = 4
		var mu sync.Mutex
		statuses := map[int]int{}
		var group sync.WaitGroup
		for sender := range senders {
			m := &mangler{rand.New(rand.NewSource(seed + int64(sender))), ops, c.ID, g.admin}
			group.Go(func() {
				for range n / senders {
					request := m.request()
					status, text, err := exchange(t, strings.TrimPrefix(g.url, "http://"), request)
					mu.Lock()
					statuses[status]++
					mu.Unlock()
					switch {
					case err != nil:
						t.Errorf("%v: %.2000q", err, request)
						return
					case status >= 500:
						t.Errorf("%d %s: %.2000q", status, text, request)
						return
					}
				}
			})
		}
		group.Wait()
		t.Logf("answers by status: %v", statuses)
		if n := g.service.panics.Load(); n > 0 {
			t.Errorf("%d panics: %s", n, g.logs.String())
		}
		for _, status := range []int{200, 400, 401, 404, 405, 422} {
			if statuses[status] == 0 {
				t.Errorf("no request got %d: are they what they should be?", status)
			}
		}
		if status, _, _ := g.send("GET", "/v1/campaigns/"+c.ID, g.admin, ""); status != 200 {
			t.Errorf("a good request after them: %d", status)
		}
	})
	goleak.VerifyNone(t, before)
}

// exchange sends bytes and reads the answer. A service may close the connection on what is
// no HTTP, or before it has read all of a request that it refuses.
func exchange(t *testing.T, address, request string) (status int, text string, err error) {
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(c, request)
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return 0, "", fmt.Errorf("no answer: %w", err)
	}
	if err != nil {
		return 0, "", nil //nolint:nilerr // the connection was closed
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") { // which closing it would read to its end
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		text = string(b[:min(len(b), 2000)])
	}
	return resp.StatusCode, text, nil //nolint:bodyclose // closing the connection closes a stream
}

// post sends a submission as it is, and reads the answer.
func (f *fixture) post(body string) (status int, text string) {
	f.Helper()
	req, err := http.NewRequestWithContext(f.Context(), http.MethodPost, f.url+"/v1/campaigns", strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestWrongRequests: a property that is none is told with those that there are, and a method with a type of its own.
func TestWrongRequests(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	for body, want := range map[string]api.Detail{
		`{"kernel": "sgemm", "budget": {"minutes": 3}}`: {Location: "body.budget.minutes", Message: "unexpected property: there are cost_per_hour, evaluations, max_cost, patience, target, time_ns"},
		`{"kernel": "sgemm", "bugdet": {}}`:             {Location: "body.bugdet", Message: "unexpected property: there are backend, budget, "},
		// What a campaign fills in is none of a caller's: not the folders of definitions, which are the server's.
		`{"kernel": "sgemm", "definitions": ["/etc"]}`: {Location: "body.definitions", Message: "unexpected property: there are backend, "},
		`{"kernel": "sgemm", "limits": {}}`:            {Location: "body.limits", Message: "unexpected property: there are backend, "},
		`{"kernel": "sgemm", "start": []}`:             {Location: "body.start", Message: "unexpected property: there are backend, "},
	} {
		var p api.Problem
		f.do("POST", "/v1/campaigns", json.RawMessage(body), &p, 422)
		if len(p.Errors) != 1 || p.Errors[0].Location != want.Location || !strings.HasPrefix(p.Errors[0].Message, want.Message) {
			t.Errorf("%s: %+v, want %+v", body, p, want)
		}
	}
	// Keys that encoding/json would take without a word.
	for body, want := range map[string]string{
		`{"kernel": "sgemm", "kernel": "softmax"}`:                     `key "kernel" is there twice`,
		`{"kernel": "sgemm", "budget": {"target": 1, "target": 9000}}`: `key "target" is there twice in budget`,
		`{"Kernel": "sgemm", "strategy": "random"}`:                    "unexpected property",
		`{"kernel": "sgemm", "BUDGET": {"target": 1}}`:                 "unexpected property",
	} {
		status, text := f.post(body)
		if status/100 != 4 || !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), want) {
			t.Errorf("%s: %d %s, want %q", body, status, text, want)
		}
	}
	var p api.Problem
	f.do("DELETE", "/v1/campaigns", nil, &p, 405)
	if p.Type != api.WrongMethod || !strings.Contains(p.Detail, "GET, HEAD, POST") {
		t.Errorf("%+v", p)
	}
}
