//go:build cuda

package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"time"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/internal/build"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("tune-cuda: ")
	share := flag.Int("share", 0, "so many processes like this one share the device: sleep rather than spin while it works, and keep no more than a share of its memory")
	version := flag.Bool("version", false, "print which evotune this is, and end")
	flag.Parse()
	if flag.NArg() > 0 || *share < 0 {
		log.Fatalf("wrong arguments %q: see %s -help", os.Args[1:], os.Args[0])
	}
	if *version {
		fmt.Println(build.This())
		return
	}
	// A context belongs to a thread, and this goroutine keeps to its own.
	runtime.LockOSThread()
	out := protocol()
	d, err := openDevice(*share)
	if err != nil {
		_ = wire.Write(out, wire.Failed, wire.Failure{Error: err.Error(), Fatal: true})
		log.Fatal(err)
	}
	if err := serve(&worker{device: d}, os.Stdin, out); err != nil {
		log.Fatal(err)
	}
}

// errEnd ends the worker after the answer that comes with it.
var errEnd = errors.New("end")

// grace is how long the worker may still take once its input has ended. A
// candidate that does not end would otherwise hold the device for ever when
// evotune is gone.
const grace = 30 * time.Second

type message struct {
	kind wire.Kind
	body []byte
	err  error
}

// receive reads requests ahead, so that the end of the input is noticed while
// one is being carried out.
func receive(in io.Reader) <-chan message {
	messages := make(chan message)
	go func() {
		r := bufio.NewReaderSize(in, 1<<16)
		for {
			kind, body, err := wire.Read(r)
			if err != nil {
				time.AfterFunc(grace, func() {
					log.Printf("the input ended %v ago and the last request has not: giving up", grace)
					os.Exit(3)
				})
			}
			messages <- message{kind, body, err}
			if err != nil {
				return
			}
		}
	}()
	return messages
}

// serve answers requests until the input ends, a request to quit, or the loss
// of the context.
func serve(w *worker, in io.Reader, out io.Writer) error {
	for m := range receive(in) {
		if errors.Is(m.err, io.EOF) {
			return nil
		}
		if m.err != nil {
			_ = wire.Write(out, wire.Failed, wire.Failure{Error: m.err.Error(), Fatal: true})
			return m.err
		}
		kind := m.kind
		answer, err := w.answer(kind, m.body)
		end := errors.Is(err, errEnd)
		if err != nil && !end {
			end = lost()
			kind, answer = wire.Failed, wire.Failure{Error: err.Error(), Fatal: end}
		}
		if err := wire.Write(out, kind, answer); err != nil {
			return err
		}
		if end {
			return nil
		}
	}
	return nil
}

// answer carries out one request. Its error is a failure of the worker, or
// errEnd beside an answer that is the last.
func (w *worker) answer(kind wire.Kind, body []byte) (any, error) {
	switch kind {
	case wire.Hello:
		return answerTo(body, w.hello)
	case wire.Open:
		return answerTo(body, w.open)
	case wire.Load:
		return answerTo(body, opened(w, (*problem).load))
	case wire.Unload:
		return answerTo(body, opened(w, (*problem).unload))
	case wire.Parity:
		return answerTo(body, opened(w, (*problem).parity))
	case wire.Control:
		return answerTo(body, opened(w, (*problem).control))
	case wire.Reference:
		return answerTo(body, opened(w, (*problem).writeReference))
	case wire.Launch:
		return answerTo(body, opened(w, (*problem).launch))
	case wire.Time:
		return answerTo(body, opened(w, (*problem).time))
	case wire.Peaks:
		return answerTo(body, w.peaks)
	case wire.Telemetry:
		return answerTo(body, func(wire.TelemetryRequest) (wire.TelemetryAnswer, error) {
			return wire.TelemetryAnswer{State: w.device.nvml.state(true)}, nil
		})
	case wire.Quit:
		return wire.QuitAnswer{}, errEnd
	}
	return nil, fmt.Errorf("a worker does not answer %q", kind)
}

func answerTo[Q, A any](body []byte, do func(Q) (A, error)) (any, error) {
	q, err := wire.Decode[Q](body)
	if err != nil {
		return nil, err
	}
	return do(q)
}

func (w *worker) hello(r wire.HelloRequest) (wire.HelloAnswer, error) {
	if r.Version != wire.Version {
		return wire.HelloAnswer{}, fmt.Errorf("evotune speaks version %d of the protocol, this worker %d: they must be of one release", r.Version, wire.Version)
	}
	return wire.HelloAnswer{Version: wire.Version, PID: os.Getpid(), Device: w.device.info}, nil
}

// ending is the error beside an answer: errEnd when its fault was fatal.
func ending(f *wire.Fault) error {
	if f != nil && f.Fatal {
		return errEnd
	}
	return nil
}
