package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

// betweenOf reads --between: "none" is an empty list, and no flag is nil.
func betweenOf(given []string) []string {
	if len(given) == 1 && given[0] == "none" {
		return []string{}
	}
	return given
}

// continuedFamily is the family that a name given to resume means, or nil. Without a name it is
// the family of the last campaign, if that belongs to one.
func (a *app) continuedFamily(s *store.Store, id string) (*evotune.Family, error) {
	if id == "" {
		all, err := s.Campaigns()
		if err != nil || len(all) == 0 {
			return nil, err
		}
		last, err := s.Campaign(all[len(all)-1].ID)
		if err != nil {
			return nil, err
		}
		if id = evotune.FamilyOf(last); id == "" {
			return nil, nil
		}
	}
	return a.machine().ContinueFamily(s, id, a.Run.Budget)
}

// family runs or continues a family, and prints it.
func (a *app) family(ctx context.Context, s *store.Store, f *evotune.Family) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sig := catchSignals(ctx, cancel)
	json := a.jsonPrinter()
	sig.say = func(line string) { fmt.Fprintf(a.err, "tune: %s\n", line) }
	stop, err := server.Serve(s)
	if err != nil {
		return fmt.Errorf("answer queries beside %s: %w", s.Path(), err)
	}
	defer stop()
	if json == nil {
		fmt.Fprintf(a.out, "family %s: %s", f.Plan.ID, words.Plural(max(len(f.Plan.Tuned), len(f.Plan.Tables)), "shape"))
		if n := len(f.Plan.Between); n > 0 {
			fmt.Fprintf(a.out, ", and %d between them", n)
		}
		fmt.Fprintf(a.out, "; budget: %s\n", budgetText(f.Plan.Budget))
	}
	rounds := 0
	begun := time.Now()
	out, err := f.Run(ctx, s, evotune.Options{
		Workers: a.Workers, Drain: sig.drain,
		Ready: func(int, evaluator.Evaluator) { sig.begun.Store(true) },
		Listen: func(e evotune.Event) {
			switch {
			case json != nil:
				json.event(e)
			case e.Warning != "", e.Paused != nil, e.Continued != nil:
				(&textPrinter{w: a.out}).event(e)
			}
		},
	}, func(r evotune.FamilyRound) {
		if rounds++; json != nil {
			json.line("round", r)
			return
		}
		fmt.Fprintln(a.out, roundLine(r))
	})
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("%w: what was evaluated is in %s; `tune resume %s` goes on", err, s.Path(), f.Plan.ID)
	case !out.Complete:
		if json == nil {
			fmt.Fprintf(a.out, "to go on: tune resume %s%s\n", f.Plan.ID, a.given("store"))
		}
		return &exitError{code: exitInterrupted}
	}
	tuned, between, err := f.Points(s)
	if err != nil {
		return storeError(err)
	}
	if rounds == 0 && json == nil {
		fmt.Fprintf(a.out, "the family is finished; give it a larger budget to go on\n")
	}
	if json != nil {
		json.line("family", familyEvent(f, out, tuned, between))
	} else if err := a.familyTable(f, out, tuned, between, time.Since(begun)); err != nil {
		return err
	}
	for _, p := range tuned {
		if ns, _ := p.Best(); ns > 0 {
			return nil
		}
	}
	return &exitError{exitNoCandidate, errors.New("no shape of the family has a valid candidate: see `tune show CAMPAIGN` for the verdicts")}
}

// jsonPrinter is the printer of JSON lines with --json, else nil.
func (a *app) jsonPrinter() *jsonPrinter {
	if a.JSON {
		return &jsonPrinter{a.out, a.err}
	}
	return nil
}

// roundLine says what a round was for, and its result.
func roundLine(r evotune.FamilyRound) string {
	head := fmt.Sprintf("%s %3d  %-7s  %s", time.Now().Format(time.TimeOnly), r.Number, r.Phase, r.Shape)
	if r.More != "" {
		head += ", " + r.More
	}
	head += " (" + r.Why + ")"
	b := r.Finished.Best
	if b == nil {
		return head + ": no valid candidate"
	}
	return fmt.Sprintf("%s: %s, %.3fx the baseline", head, nanoseconds(b.MedianNS), b.Speedup)
}

// A familyPoint is a shape of a family in JSON.
type familyPoint struct {
	Shape     string  `json:"shape"`
	Between   bool    `json:"between,omitempty"`
	Campaign  string  `json:"campaign,omitempty"`
	Evaluated int     `json:"evaluated"`
	Candidate string  `json:"candidate,omitempty"`
	From      string  `json:"from,omitempty"`
	MedianNS  float64 `json:"median_ns,omitempty"`
	Speedup   float64 `json:"speedup,omitempty"`
}

// familyEvent is the last line of a family with --json.
func familyEvent(f *evotune.Family, out evotune.FamilyOutcome, tuned, between []evotune.FamilyPoint) any {
	var points []familyPoint
	for i, p := range append(append([]evotune.FamilyPoint{}, tuned...), between...) {
		row := familyPoint{Shape: p.Shape, Between: i >= len(tuned), Campaign: p.Campaign.ID, Evaluated: p.Evaluated, From: p.From}
		row.MedianNS, row.Speedup = p.Best()
		if p.Campaign.Finals != nil {
			row.Candidate = p.Campaign.Finals.Winner
		}
		points = append(points, row)
	}
	return struct {
		Family string        `json:"family"`
		Points []familyPoint `json:"points"`
		Left   []string      `json:"left,omitempty"`
	}{f.Plan.ID, points, out.Left}
}

// familyTable prints what was found at every shape.
func (a *app) familyTable(f *evotune.Family, out evotune.FamilyOutcome, tuned, between []evotune.FamilyPoint, took time.Duration) error {
	fmt.Fprintf(a.out, "\n%s, in %s:\n", f.Plan.ID, duration(took))
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SHAPE\tEVALUATED\tTIME\tSPEEDUP\tWINNER\tTUNED FOR")
	for _, p := range append(tuned[:len(tuned):len(tuned)], between...) {
		ns, speedup := p.Best()
		winner := "-"
		if c := p.Campaign; c.Finals != nil && c.Finals.Winner != "" {
			winner = c.Finals.Winner
		}
		if ns == 0 {
			fmt.Fprintf(w, "%s\t%d\t-\t-\t-\t-\n", p.Shape, p.Evaluated)
			continue
		}
		from := p.From
		if from == p.Shape {
			from = "this shape"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%.3fx\t%s\t%s\n", p.Shape, p.Evaluated, nanoseconds(ns), speedup, winner, from)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(out.Left) > 0 {
		fmt.Fprintf(a.out, "the time was over before winners were compared at %s: the same command goes on\n", words.Plural(len(out.Left), "shape"))
	}
	if len(tuned) == 0 || len(f.Plan.Tables) > 0 {
		return nil
	}
	lang := ""
	if f := backend.Of(tuned[0].Campaign.Started.Backend); f.Accelerator {
		lang = " --lang " + f.Library
	}
	kernel := tuned[0].Campaign.Started.Kernel
	return a.suggest("\nnext:", [][2]string{{"tune export " + kernel + " --out lib" + kernel + lang + a.given("store", "kernels"), "write all of these winners as one library"}}, "")
}
