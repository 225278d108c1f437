package fleettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evotune/evotune/internal/fleet"
)

// A Rig is a transport under test.
type Rig struct {
	// Coordinator makes a coordinator's end. One that is made after another has been closed
	// takes its place, and knows the same workers.
	Coordinator func(tb testing.TB) fleet.Transport
	// Dial makes a worker's end.
	Dial func(tb testing.TB, a fleet.Access) fleet.Link
}

const (
	// Soon is within which a transport is whole again after a loss.
	Soon = 2 * time.Second
	// slack is for a machine that does other things too.
	slack = 5 * time.Second
)

// Run tests that a transport does what [fleet.Transport], [fleet.Link] and [fleet.Handler] promise.
// Every test gets a rig of its own.
func Run(t *testing.T, rig func() Rig) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, r Rig)
	}{
		{"bodies", bodies},
		{"refusals", refusals},
		{"names", names},
		{"strangers", strangers},
		{"expel", expel},
		{"at once", atOnce},
		{"too many at once", tooMany},
		{"contexts", contexts},
		{"restart", restart},
		{"closed link", closedLink},
		{"faults", faults},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, rig()) })
	}
}

// serve makes a coordinator that closes with the test.
func (r Rig) serve(t *testing.T, h fleet.Handler) fleet.Transport {
	t.Helper()
	c := r.Coordinator(t)
	t.Cleanup(func() { c.Close() })
	if err := c.Serve(h); err != nil {
		t.Fatal(err)
	}
	return c
}

// join makes a link for a worker that is admitted now.
func (r Rig) join(t *testing.T, c fleet.Transport, worker string) fleet.Link {
	t.Helper()
	a, err := c.Admit(worker)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Dial(t, a)
	t.Cleanup(func() { l.Close() })
	return l
}

func echo(_ context.Context, worker string, verb fleet.Verb, body []byte) ([]byte, error) {
	return append([]byte(worker+" "+string(verb)+" "), body...), nil
}

// within is a context for a request that must not take long.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), slack)
	t.Cleanup(cancel)
	return ctx
}

// oneLine checks that a person can read an error.
func oneLine(t *testing.T, err error) {
	t.Helper()
	if err == nil || strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 400 {
		t.Errorf("not one line: %v", err)
	}
}

// Eventually asks until there is an answer, and fails after Soon.
func Eventually(t *testing.T, l fleet.Link) {
	t.Helper()
	begin := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), Soon)
		_, err := l.Request(ctx, fleet.Beat, nil)
		cancel()
		if took := time.Since(begin); took > Soon {
			t.Fatalf("no answer within %v, but %v after %v", Soon, err, took)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, fleet.ErrUnreachable) {
			t.Fatalf("want %v until it answers again, got %v", fleet.ErrUnreachable, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func bodies(t *testing.T, r Rig) {
	l := r.join(t, r.serve(t, echo), "w-1_A")
	noise := make([]byte, 300<<10)
	chance := rand.NewChaCha8([32]byte{1})
	_, _ = chance.Read(noise) // cannot fail
	for _, body := range [][]byte{nil, {}, []byte("x"), []byte("two\r\nlines\x00"), noise, bytes.Repeat([]byte("genome "), 1<<17)} {
		for _, verb := range fleet.Verbs() {
			sent := slices.Clone(body)
			got, err := l.Request(within(t), verb, sent)
			if want := append([]byte("w-1_A "+string(verb)+" "), body...); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s of %d bytes: got %d bytes, %v", verb, len(body), len(got), err)
			}
			if !bytes.Equal(sent, body) {
				t.Fatalf("%s of %d bytes: the worker's body has changed", verb, len(body))
			}
		}
	}
}

func refusals(t *testing.T, r Rig) {
	const text = "candidate 12 is not yours: ask again — µ"
	l := r.join(t, r.serve(t, func(_ context.Context, _ string, verb fleet.Verb, _ []byte) ([]byte, error) {
		if verb == fleet.Take {
			return nil, errors.New("the disk of the coordinator is full")
		}
		return []byte("not for you"), fmt.Errorf("told: %w", fleet.Refusal(text))
	}), "w")
	got, err := l.Request(within(t), fleet.Done, nil)
	var refusal fleet.Refusal
	if !errors.As(err, &refusal) || refusal != text || got != nil {
		t.Errorf("got %q, %v, want the refusal %q", got, err, text)
	}
	begin := time.Now()
	_, err = l.Request(within(t), fleet.Take, nil)
	if !errors.Is(err, fleet.ErrUnreachable) || strings.Contains(err.Error(), "disk") || time.Since(begin) > Soon {
		t.Errorf("got %v after %v, want %v at once, and nothing of the cause", err, time.Since(begin), fleet.ErrUnreachable)
	}
	oneLine(t, err)
}

func names(t *testing.T, r Rig) {
	c := r.serve(t, echo)
	for _, name := range []string{"", "a.b", "*", ">", "a b", "a\n", "@coordinator", "ä", strings.Repeat("x", 65)} {
		if a, err := c.Admit(name); err == nil {
			t.Errorf("%q is admitted: %+v", name, a.Worker)
		} else {
			oneLine(t, err)
		}
	}
	if _, err := c.Admit(strings.Repeat("x", 64)); err != nil {
		t.Error(err)
	}
	if err := c.Expel("nobody"); err != nil {
		t.Error(err)
	}
}

// refuses checks that a link is refused in one line that names the worker. One of several brokers may
// learn of the coordinator later than others.
func refuses(t *testing.T, l fleet.Link, worker string) {
	t.Helper()
	_, err := l.Request(within(t), fleet.Enrol, nil)
	for begin := time.Now(); errors.Is(err, fleet.ErrUnreachable) && time.Since(begin) < Soon; time.Sleep(5 * time.Millisecond) {
		_, err = l.Request(within(t), fleet.Enrol, nil)
	}
	var refusal fleet.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), worker) {
		t.Errorf("got %v, want a refusal that names %s", err, worker)
	}
	oneLine(t, err)
}

func strangers(t *testing.T, r Rig) {
	c := r.serve(t, echo)
	first, err := c.Admit("w")
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Admit("w")
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Admit("other")
	if err != nil {
		t.Fatal(err)
	}
	if first.Secret == second.Secret || second.Secret == other.Secret || len(first.Secret) < 20 {
		t.Errorf("secrets %q, %q and %q", first.Secret, second.Secret, other.Secret)
	}
	dial := func(a fleet.Access) fleet.Link {
		l := r.Dial(t, a)
		t.Cleanup(func() { l.Close() })
		return l
	}
	refuses(t, dial(first), "w") // it was admitted again
	borrowed := second
	borrowed.Secret = other.Secret
	refuses(t, dial(borrowed), "w")
	unknown := second
	unknown.Worker, unknown.User = "nobody", "nobody"
	refuses(t, dial(unknown), "nobody")
	if _, err := dial(second).Request(within(t), fleet.Enrol, nil); err != nil {
		t.Error(err)
	}
}

func expel(t *testing.T, r Rig) {
	c := r.serve(t, echo)
	l, stays := r.join(t, c, "w"), r.join(t, c, "stays")
	for _, l := range []fleet.Link{l, stays} {
		if _, err := l.Request(within(t), fleet.Beat, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Expel("w"); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; { // the connection may break first
		_, err := l.Request(within(t), fleet.Beat, nil)
		if err == nil || time.Since(begin) > slack {
			t.Fatalf("an expelled worker gets %v", err)
		}
		if !errors.Is(err, fleet.ErrUnreachable) {
			break
		}
	}
	refuses(t, l, "w")
	if _, err := stays.Request(within(t), fleet.Beat, nil); err != nil {
		t.Error(err)
	}
	if _, err := r.join(t, c, "w").Request(within(t), fleet.Beat, nil); err != nil {
		t.Errorf("a worker that is admitted again: %v", err)
	}
}

// atOnce has 100 requests of 10 workers answered when all of them have arrived.
func atOnce(t *testing.T, r Rig) {
	const workers, each = 10, 10
	var all sync.WaitGroup
	all.Add(workers * each)
	c := r.serve(t, func(ctx context.Context, worker string, verb fleet.Verb, body []byte) ([]byte, error) {
		all.Done()
		all.Wait()
		return echo(ctx, worker, verb, body)
	})
	var asking sync.WaitGroup
	for w := range workers {
		name := fmt.Sprint("w", w)
		l := r.join(t, c, name)
		for i := range each {
			asking.Go(func() {
				got, err := l.Request(within(t), fleet.Take, fmt.Append(nil, i))
				if want := fmt.Sprint(name, " take ", i); err != nil || string(got) != want {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
			})
		}
	}
	asking.Wait()
}

// tooMany has a worker that does not wait for answers.
func tooMany(t *testing.T, r Rig) {
	const most, more = 256, 44
	release := make(chan struct{})
	c := r.serve(t, func(_ context.Context, worker string, _ fleet.Verb, _ []byte) ([]byte, error) {
		if worker == "greedy" {
			<-release
		}
		return nil, nil
	})
	greedy, other := r.join(t, c, "greedy"), r.join(t, c, "other")
	failed := make(chan error, most+more)
	var asking sync.WaitGroup
	for range most + more {
		asking.Go(func() {
			if _, err := greedy.Request(within(t), fleet.Take, nil); err != nil {
				failed <- err
			}
		})
	}
	for range more {
		if err := <-failed; !errors.Is(err, fleet.ErrUnreachable) || !strings.Contains(err.Error(), "greedy") {
			t.Errorf("got %v, want %v that names the worker", err, fleet.ErrUnreachable)
		}
	}
	if _, err := other.Request(within(t), fleet.Beat, nil); err != nil {
		t.Errorf("another worker: %v", err)
	}
	close(release)
	asking.Wait()
	if n := len(failed); n != 0 {
		t.Errorf("%d of the first %d requests failed too", n, most)
	}
	if _, err := greedy.Request(within(t), fleet.Take, nil); err != nil {
		t.Errorf("after all others: %v", err)
	}
}

func contexts(t *testing.T, r Rig) {
	release, done := make(chan struct{}), make(chan error, 1)
	l := r.join(t, r.serve(t, func(ctx context.Context, worker string, verb fleet.Verb, _ []byte) ([]byte, error) {
		if verb == fleet.Take {
			<-release
			done <- ctx.Err()
		}
		return nil, nil
	}), "w")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Request(ctx, fleet.Take, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("a worker that gives up ends the context of the handler: %v", err)
	}
	if _, err := l.Request(within(t), fleet.Beat, nil); err != nil {
		t.Error(err)
	}
}

func restart(t *testing.T, r Rig) {
	started := make(chan struct{}, 1)
	c := r.serve(t, func(ctx context.Context, _ string, verb fleet.Verb, _ []byte) ([]byte, error) {
		if verb == fleet.Take {
			started <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, nil
	})
	l := r.join(t, c, "w")
	got := make(chan error, 1)
	go func() {
		_, err := l.Request(within(t), fleet.Take, nil)
		got <- err
	}()
	<-started
	begin := time.Now()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; !errors.Is(err, fleet.ErrUnreachable) || time.Since(begin) > Soon {
		t.Errorf("a request under way when the coordinator closes: %v after %v", err, time.Since(begin))
	}
	begin = time.Now()
	_, err := l.Request(within(t), fleet.Beat, nil)
	if took := time.Since(begin); !errors.Is(err, fleet.ErrUnreachable) || took > slack-time.Second {
		t.Errorf("a request without a coordinator: %v after %v", err, took)
	}
	oneLine(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := l.Request(ctx, fleet.Beat, nil); !errors.Is(err, fleet.ErrUnreachable) {
		t.Errorf("the same, with little time: %v", err)
	}
	r.serve(t, echo)
	Eventually(t, l)
}

func closedLink(t *testing.T, r Rig) {
	started := make(chan struct{}, 1)
	l := r.join(t, r.serve(t, func(ctx context.Context, _ string, _ fleet.Verb, _ []byte) ([]byte, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, nil
	}), "w")
	got := make(chan error, 1)
	go func() {
		_, err := l.Request(within(t), fleet.Take, nil)
		got <- err
	}()
	<-started
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	begin := time.Now()
	if err := <-got; !errors.Is(err, fleet.ErrUnreachable) || time.Since(begin) > Soon {
		t.Errorf("a request under way when the link closes: %v after %v", err, time.Since(begin))
	}
	if _, err := l.Request(within(t), fleet.Beat, nil); !errors.Is(err, fleet.ErrUnreachable) {
		t.Errorf("a request over a closed link: %v", err)
	}
}

// faults counts over a link that fails in every way: with numbers on requests, a coordinator
// counts each of them once.
func faults(t *testing.T, r Rig) {
	var mu sync.Mutex
	seen, arrived := map[string]bool{}, 0
	c := r.serve(t, func(_ context.Context, worker string, _ fleet.Verb, body []byte) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		arrived++
		seen[worker+" "+string(body)] = true
		return body, nil
	})
	const seed, workers, each = 7, 4, 60
	var asking sync.WaitGroup
	for w := range workers {
		f := Faulty(r.join(t, c, fmt.Sprint("w", w)), seed+uint64(w))
		f.Set(Faults{Drop: .1, Cut: .1, Late: .1, Twice: .1, Hold: .1, Delay: .1, MaxDelay: 2 * time.Millisecond})
		asking.Go(func() {
			for i := range each {
				for {
					got, err := f.Request(within(t), fleet.Done, fmt.Append(nil, i))
					if err == nil && string(got) != fmt.Sprint(i) {
						t.Errorf("request %d got the answer %q", i, got)
					}
					if err == nil {
						break
					}
					if !errors.Is(err, fleet.ErrUnreachable) {
						t.Error(err)
						return
					}
				}
			}
			for _, kind := range []string{"drop", "cut", "late", "twice", "hold", "delay"} {
				if f.Struck()[kind] == 0 {
					t.Errorf("seed %d: no %s has struck", seed, kind)
				}
			}
			f.Close()
		})
	}
	asking.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != workers*each || arrived <= workers*each {
		t.Errorf("%d requests were seen in %d deliveries, want %d in more", len(seen), arrived, workers*each)
	}
}
