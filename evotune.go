// Package evotune tunes compute kernels: it searches the space of a kernel's
// implementations, proves every candidate, measures it, and keeps all of it in a
// store. The command tune calls it, and so can other programs.
//
// This program tunes softmax for 20 seconds and prints the best:
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"time"
//
//		"github.com/evotune/evotune"
//	)
//
//	func main() {
//		job := evotune.Job{Kernel: "softmax", Budget: evotune.Budget{Time: 20 * time.Second}}
//		done, err := new(evotune.Machine).Run(context.Background(), nil, job, evotune.Options{})
//		fmt.Println(done.Best, err)
//	}
//
// Pass an open [store.Store] instead of nil to keep all results.
//
// # The model
//
// A [Machine] says how candidates are compiled, run and measured here; its zero value
// is this machine with its defaults. A [Job] says what is tuned: a kernel, a backend,
// shapes, a strategy and a budget. [Machine.Run] does a job, as one campaign of a
// [store.Store], and reports typed events. [Machine.Resume] continues an interrupted
// campaign. [Machine.Target] is the first half of both: a
// [Target] is a job with its kernel loaded, which shows its space and its sources.
//
// Query a store with [Machine.Best] and [Selection], measure what it holds again with
// [Machine.Verify] and [Ratchet], and write it as a library with [Machine.Export].
// [Machine.Judge] judges one finished kernel, without a search and without a store.
//
// A candidate that fails is a value with a verdict. An error means that evotune or
// the machine failed, or, where it is an [ErrInput], that the caller asked for
// something that does not exist.
//
// # Caveats
//
// Only one process at a time can write to a store. A campaign draws its random numbers
// from its seed alone, but it begins with winners from the store, unless Job.WarmStart
// says otherwise. The CPU backend needs Linux and a C compiler. A program that tunes
// for GPUs calls [cuda.CompileServerMain] at the start of main.
//
// # Stability
//
// The public packages are this one, search, searchbench, genome, kernels, evaluator with the
// packages below it, and store. Before version 1 their API may change with a minor
// version, and CHANGELOG.md says how. Stores stay readable: every version reads what
// an earlier one wrote. Everything under internal and cmd may change at any time.
package evotune

import (
	"errors"
	"fmt"
	"strings"

	"github.com/evotune/evotune/internal/ask"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/export"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/store"
)

// Errors that callers test for, besides those of store.
var (
	// ErrInput is the error of a job, a question or a name that the caller can
	// correct: nothing was run.
	ErrInput = errors.New("bad input")
	// ErrTable is the error, an ErrInput, of a recorded table that cannot be read.
	ErrTable = errors.New("no recorded table")
	// ErrSandbox says that the sandbox does not confine candidates; see
	// [Machine.Sandboxed].
	ErrSandbox = errors.New("candidates are not locked in on this machine")
	// ErrNoCandidate is the error of a question that no stored candidate answers.
	ErrNoCandidate = ask.ErrNoCandidate
	// ErrUnproven is the error of an export of a candidate that lacks evidence.
	ErrUnproven = export.ErrUnproven
	// ErrDisturbed is the error of a measurement that the machine was too busy for:
	// nothing was found right or wrong.
	ErrDisturbed = errors.New("the machine is busy")
	// ErrDiverged is the error of a campaign whose log does not replay to itself.
	ErrDiverged = campaign.ErrDiverged
	// ErrInfrastructure is the error of a campaign during which the machine failed
	// several times in a row.
	ErrInfrastructure = campaign.ErrInfrastructure
)

// A marked error matches another one in errors.Is, and keeps its own text.
type marked struct {
	error
	as error
}

func (e marked) Unwrap() error        { return e.error }
func (e marked) Is(target error) bool { return target == e.as }

func badInput(err error) error {
	if err == nil {
		return nil
	}
	return marked{err, ErrInput}
}

// A FieldError is an ErrInput about one field of a request, such as
// "shape" of a Question.
type FieldError struct {
	Field string
	Err   error // the text after the name of the field
}

func (e *FieldError) Error() string { return e.Field + " " + e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

// Is reports that e is an ErrInput.
func (e *FieldError) Is(target error) bool { return target == ErrInput }

// FieldErrors gives the fields that an error is about, each with what is wrong with it; none for an error
// that is about no field.
func FieldErrors(err error) (list []*FieldError) {
	if f := (*FieldError)(nil); errors.As(err, &f) {
		list = []*FieldError{f}
	}
	if all := wrongFields(nil); errors.As(err, &all) {
		list = all
	}
	return list
}

// wrongFields are several fields that are wrong.
type wrongFields []*FieldError

func (e wrongFields) Error() string {
	texts := make([]string, len(e))
	for i, f := range e {
		texts[i] = f.Error()
	}
	return strings.Join(texts, "; ")
}

func (e *wrongFields) add(field, format string, args ...any) {
	*e = append(*e, &FieldError{field, fmt.Errorf(format, args...)})
}

// Is reports that e is an ErrInput.
func (e wrongFields) Is(target error) bool { return target == ErrInput }

// all is the error of these fields; nil without any.
func (e wrongFields) all() error {
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}

func badField(field, format string, args ...any) error {
	return &FieldError{field, fmt.Errorf(format, args...)}
}

func noCandidate(format string, args ...any) error {
	return marked{fmt.Errorf(format, args...), ErrNoCandidate}
}

// What a campaign reports, as aliases: the types they stand for have the documentation.
type (
	// An Event is one moment of a campaign: exactly one of its fields Started,
	// Evaluated, Measured, Paused, Continued, Budget, Searched, Finals, Warning and
	// Finished is set, besides Time. It is sent once what it reports is durable in the
	// store.
	//
	// A campaign is preparing until Started, searching until Searched, and then in its
	// finals until Finished. If it is stopped while searching, there is no Searched.
	// From Paused to Continued it waits for a calm machine, in the search or in the
	// finals.
	Event = campaign.Event
	// Started opens the stream of events.
	Started = campaign.Started
	// Evaluated reports one candidate: its genome, parents and whole result.
	Evaluated = campaign.Evaluated
	// Paused says that the campaign waits for a calm machine, and why.
	Paused = campaign.Paused
	// Continued says that the campaign goes on.
	Continued = campaign.Continued
	// Searched says that the search has ended, and why.
	Searched = campaign.Searched
	// Compared is the type of Event.Finals: who was in the finals, and how they ended.
	Compared = campaign.Finals
	// Progress sums up a campaign so far.
	Progress = campaign.Progress
	// Finished closes the stream, and Run returns it: the best candidate (nil
	// without a valid one), the counts of verdicts, what ended the search, and
	// whether the campaign is Complete or can be resumed.
	Finished = campaign.Finished
	// Phases are the parts of a campaign's wall time, over all resumptions: preparation,
	// search and finals.
	Phases = record.Phases
	// Best is the best candidate of a campaign, with its speedup over the baseline.
	Best = campaign.Best
)

// A Reader answers queries about a store. *[store.Store] is one.
type Reader interface {
	// Campaigns lists the campaigns, the oldest first.
	Campaigns() ([]store.Campaign, error)
	// Campaign finds a campaign by its ID or a unique beginning of it.
	Campaign(id string) (store.Campaign, error)
	// Candidate finds a candidate by its ID or a unique beginning of it.
	Candidate(id string) (store.Candidate, error)
	// Best lists correct candidates, the best first.
	Best(q store.Query) ([]store.Candidate, error)
	// Candidates lists candidates in the order of the log, page by page.
	Candidates(q store.Query, from uint64) (page []store.Candidate, next uint64, err error)
	// Lineage gives a candidate and its ancestors.
	Lineage(id string) (*store.Node, error)
}

// Files are the files of a folder, by their slash-separated paths.
type Files = report.Files

// storeName is the path of the store's file, if the reader knows it.
func storeName(r Reader) string {
	if s, ok := r.(interface{ Path() string }); ok {
		return s.Path()
	}
	return "the store"
}

// WriteFolder writes a folder, whole or not at all. If the folder exists and is not
// empty, the error is an ErrInput, unless replace is set and evotune wrote the folder.
func WriteFolder(dir string, files Files, replace bool) error {
	err := report.Write(dir, files, replace)
	if refused := (*report.RefusedError)(nil); errors.As(err, &refused) {
		return badInput(err)
	}
	return err
}
