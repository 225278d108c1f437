package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

// withReader opens the store for queries: the file itself, the process that holds it, or
// the service that is set.
func (a *app) withReader(cmd *cobra.Command, f func(server.Reader) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if c != nil {
		defer c.Close()
		return remoteError(f(c.Reader(cmd.Context())))
	}
	r, err := server.OpenReader(cmd.Context(), a.Store)
	if err != nil {
		return storeError(err)
	}
	defer r.Close()
	return f(r)
}

func (a *app) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the campaigns of a store",
		Long: `List the campaigns of a store, oldest first. For a service, the list ends with the
campaigns that its store does not have yet, such as queued ones; --json omits these.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withReader(cmd, func(r server.Reader) error {
				cs, err := r.Campaigns()
				if err != nil {
					return err
				}
				if a.JSON {
					views := make([]campaignView, len(cs))
					for i, c := range cs {
						views[i] = viewOfCampaign(c)
					}
					return a.printJSON(views)
				}
				w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "CAMPAIGN\tKERNEL\tSHAPES\tDEVICE\tSTATE\tEVALUATED\tCORRECT\tBEST\tFROM\tSTARTED")
				for _, c := range cs {
					best, measured := "-", "-"
					if v := viewOfCampaign(c); v.Speedup > 0 {
						best, measured = fmt.Sprintf("%.3fx", v.Speedup), v.Measured
						if record.NothingFaster(c) {
							best = "none faster"
						}
					}
					state, err := stateText(r, c)
					if err != nil {
						return storeError(err)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", c.ID, c.Started.Kernel, strings.Join(c.Started.Shapes, ","),
						c.Started.Name, state, c.Evaluated, c.Verdicts[string(evaluator.Correct)], best, measured, c.StartedAt.Local().Format(time.DateTime))
				}
				waiting, err := unlogged(cmd.Context(), r)
				if err != nil {
					return storeError(err)
				}
				for _, c := range waiting {
					fmt.Fprintf(w, "%s\t%s\t%s\t-\t%s\t0\t0\t-\t-\t-\n", c.ID, c.Kernel, strings.Join(c.Shapes, ","), c.State)
				}
				return w.Flush()
			})
		},
	}
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

// unlogged lists the campaigns of a service that its log does not have yet, oldest first.
func unlogged(ctx context.Context, r server.Reader) (list []api.Campaign, err error) {
	there, ok := r.(*api.Reader)
	if !ok {
		return nil, nil
	}
	for _, state := range []api.State{api.Queued, api.Preparing, api.Paused, api.Failed, api.Cancelled} {
		for cursor := ""; ; {
			page, err := there.Client.Campaigns(ctx, state, "", cursor)
			if err != nil {
				return nil, err
			}
			for _, c := range page.Items {
				if c.Log == nil && !slices.ContainsFunc(list, func(l api.Campaign) bool { return l.ID == c.ID }) {
					list = append(list, c)
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	slices.SortStableFunc(list, func(a, b api.Campaign) int { return a.Submitted.Compare(b.Submitted) })
	return list, nil
}

// showUnlogged shows a campaign of a service that its log does not have yet.
func (a *app) showUnlogged(c api.Campaign) error {
	if a.JSON {
		return a.printJSON(c)
	}
	state := string(c.State)
	if c.Position > 0 {
		state += fmt.Sprintf(": number %d", c.Position)
	}
	if c.Reason != "" {
		state += ": " + c.Reason
	}
	row(a.out, "campaign", "%s (%s)", c.ID, words.OneLine(state))
	row(a.out, "kernel", "%s at %s, %s backend", c.Kernel, strings.Join(c.Shapes, ", "), c.Backend)
	row(a.out, "submitted", "%s by %s", c.Submitted.Local().Format(time.DateTime), c.By)
	return nil
}

// A campaignView is a stored campaign as queries print it, with the figure of its
// best candidate.
type campaignView struct {
	store.Campaign
	Speedup  float64 `json:"speedup,omitempty"`
	Measured string  `json:"measured,omitempty"`
}

func viewOfCampaign(c store.Campaign) campaignView {
	_, f := record.CampaignFigures(c)
	return campaignView{c, f.Speedup(), f.From}
}

// What queries print of candidates.
type (
	candidateView = api.Found
	answerView    = api.Answer
	selectedView  = api.Match
)

func viewOf(c store.Candidate) candidateView { return api.FoundOf(c) }

func (a *app) showCommand() *cobra.Command {
	var source bool
	cmd := &cobra.Command{
		Use:   "show CANDIDATE|CAMPAIGN",
		Short: "Show what is stored about a candidate or a campaign",
		Long: `Show what is stored about a candidate or a campaign. A name may be shortened to a
unique prefix. --source prints the source of a candidate as one file, rendered again
from the current kernel.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReader(cmd, func(r server.Reader) error {
				if !source {
					if c, err := r.Campaign(args[0]); err == nil {
						return a.showCampaign(r, c)
					}
				}
				c, err := r.Candidate(args[0])
				if there, ok := r.(*api.Reader); ok && errors.Is(err, store.ErrNotFound) {
					if c, known := there.Client.Campaign(cmd.Context(), args[0]); known == nil {
						return a.showUnlogged(c)
					}
				}
				if err != nil {
					return storeError(err)
				}
				if source {
					return a.showSource(r, c)
				}
				return a.showCandidate(r, c)
			})
		},
	}
	cmd.Flags().BoolVar(&source, "source", false, "print the candidate's rendered source")
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

// stateText names the state of a campaign. One without a logged end is running only if the
// process that holds the store runs it.
func stateText(r server.Reader, c store.Campaign) (string, error) {
	if c.State != store.Running {
		return string(c.State), nil
	}
	there, ok := r.(*api.Reader)
	if !ok {
		return "killed", nil
	}
	state, err := there.State(c.ID)
	switch {
	case err != nil:
		return "", err
	case state.Running():
		return string(c.State), nil
	case state == api.Queued:
		return string(state), nil
	}
	return "killed", nil
}

func (a *app) showCampaign(r server.Reader, c store.Campaign) error {
	if a.JSON {
		return a.printJSON(viewOfCampaign(c))
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	s := c.Started
	state, err := stateText(r, c)
	if err != nil {
		return storeError(err)
	}
	if c.Reason != "" {
		state += ": " + c.Reason
	}
	fmt.Fprintf(w, "campaign\t%s (%s)\n", c.ID, state)
	if c.Archive != "" {
		fmt.Fprintf(w, "archive\t%s\n", c.Archive)
	}
	fmt.Fprintf(w, "kernel\t%s at %s\n", s.Kernel, strings.Join(s.Shapes, ", "))
	fmt.Fprintf(w, "device\t%s (%s), %s backend\n", s.Name, s.Device, s.Backend)
	fmt.Fprintf(w, "search\t%s version %d, seed %d\n", s.Strategy, s.SearchVersion, s.Seed)
	if job, err := evotune.RecordedJob(c); err == nil {
		if s := job.Sanitized(); s != "" {
			fmt.Fprintf(w, "sanitized\t%s\n", sanitizedText(s))
		}
		if len(job.Start) > 0 {
			fmt.Fprintf(w, "warm start\t%s\n", warmText(job.Start))
		}
	}
	fmt.Fprintf(w, "started\t%s\n", c.StartedAt.Local().Format(time.DateTime))
	fmt.Fprintf(w, "evaluated\t%d\n", c.Evaluated)
	verdicts := map[evaluator.Verdict]int{}
	for v, n := range c.Verdicts {
		verdicts[evaluator.Verdict(v)] = n
	}
	fmt.Fprintf(w, "verdicts\t%s\n", verdictCounts(verdicts))
	if c.Best != nil {
		of := "one measurement in the search"
		if c.BestAgain {
			of = "measured again, since the machine disturbed the search"
		}
		fmt.Fprintf(w, "best reading\t%s %.3fx the baseline (%s)\n", c.Best.Candidate, 1/c.Best.Fitness, of)
	}
	if f := c.Finals; f != nil && f.Winner != "" {
		sure := "significant"
		switch {
		case record.Faster(f.Significant, 1/f.Fitness):
		case s.Backend == evotune.Replay:
			sure = "recorded; nothing was tested"
		default:
			sure = "not significant"
		}
		if f.Unproven != "" {
			sure = f.Unproven
		}
		if f.Slower > 0 {
			sure += fmt.Sprintf("; the baseline took %.0f%% longer than usual", 100*f.Slower)
		}
		what := "winner of the finals"
		if record.NothingFaster(c) {
			fmt.Fprintf(w, "result\tnothing faster was found: %s tried; use the baseline\n", words.Plural(c.Evaluated, "genome"))
			what = "nearest in the finals"
		}
		fmt.Fprintf(w, "%s\t%s %.3fx the baseline (%s)\n", what, f.Winner, 1/f.Fitness, sure)
	}
	return w.Flush()
}

func (a *app) showCandidate(r server.Reader, c store.Candidate) error {
	v, err := api.EvidenceOf(c)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(v)
	}
	row(a.out, "candidate", "%s of campaign %s, number %d", v.Candidate, v.Campaign, v.Index)
	row(a.out, "kernel", "%s at %s on %s", v.Kernel, strings.Join(v.Shapes, ", "), v.Device)
	row(a.out, "genome", "%s", v.Encoding)
	made := " from " + orNone(strings.Join(v.ParentIDs, ", "))
	if len(v.ParentIDs) == 1 {
		p, err := r.Candidate(v.ParentIDs[0])
		if err != nil {
			return storeError(err)
		}
		if p.Campaign != c.Campaign {
			where, err := elsewhere(r)
			if err != nil {
				return err
			}
			made = ", from candidate " + p.ID + where(p)
		}
	}
	row(a.out, "made by", "%s%s", v.Operator, made)
	row(a.out, "verdict", "%s", v.Verdict)
	if v.Speedup > 0 {
		row(a.out, "speedup", "%.3fx the baseline (%s)", v.Speedup, v.Measured)
	}
	if v.Result != nil {
		showResult(a.out, *v.Result, c.Again)
	}
	if f := v.Finals; f != nil {
		text := string(f.Verdict)
		if f.Speedup > 0 {
			text += fmt.Sprintf(", %.3fx the baseline", f.Speedup)
		}
		if f.Reason != "" {
			text += ": " + words.OneLine(f.Reason)
		}
		row(a.out, "finals", "%s", text)
		showEvidence(a.out, f.Evidence)
		showContents(a.out, f.Timings)
	}
	return nil
}

// showContents prints the seeds of the inputs of the timed launches.
func showContents(w io.Writer, timings []evaluator.Timing) {
	if len(timings) > 0 && len(timings[0].Pools) > 0 {
		row(w, "contents", "%s", strings.Join(timings[0].Pools, " "))
	}
}

// elsewhere returns a function that says where a candidate of another campaign was
// measured.
func elsewhere(r server.Reader) (func(store.Candidate) string, error) {
	all, err := r.Campaigns()
	if err != nil {
		return nil, storeError(err)
	}
	devices := map[string]string{}
	for _, c := range all {
		devices[c.ID] = c.Started.Name
	}
	return func(c store.Candidate) string {
		return fmt.Sprintf(" (%s, %s)", strings.Join(c.Shapes, " "), devices[c.Campaign])
	}, nil
}

// row prints one named line.
func row(w io.Writer, name, format string, args ...any) {
	fmt.Fprintf(w, "%-14s %s\n", name, fmt.Sprintf(format, args...))
}

func showResult(w io.Writer, r evaluator.Result, again bool) {
	of := record.FromSearch
	if again {
		of = record.FromAgain
	}
	if r.Reason != "" {
		row(w, "reason", "%s: %s", r.Stage, words.OneLine(r.Reason))
	}
	if r.SharedWith != "" {
		row(w, "same binary as", "%s", r.SharedWith)
	}
	for _, t := range r.Timings {
		row(w, of+" time", "%s at %s, baseline %s, ratio %.4f (%s of %s, spread %.1f%%, floor %s, stopped: %s)",
			nanoseconds(t.MedianNS), t.Shape, nanoseconds(t.BaselineMedianNS), t.Ratio, words.Plural(len(t.SamplesNS), "sample"),
			words.Launches(t.Batch), 100*t.Spread, nanoseconds(t.FloorNS), t.Stopped)
	}
	showContents(w, r.Timings)
	row(w, "key", "%s", r.Key)
	row(w, "source", "%s", r.Source)
	row(w, "binary", "%s", r.Binary)
	for _, s := range r.Steps {
		row(w, string(s.Stage), "%s in %s", s.Outcome, duration(s.Elapsed))
		showEvidence(w, s.Evidence)
	}
}

func showEvidence(w io.Writer, list []evaluator.Evidence) {
	for _, e := range list {
		fmt.Fprintf(w, "  %-28s %s\n", e.Check, evidenceText(e))
	}
}

func evidenceText(e evaluator.Evidence) string {
	s := string(e.Outcome)
	if e.Limit != 0 && e.AtLeast {
		s += fmt.Sprintf(": %.3g, at least %.3g", e.Value, e.Limit)
	} else if e.Limit != 0 {
		s += fmt.Sprintf(": %.3g of %.3g allowed", e.Value, e.Limit)
	} else if e.Value != 0 {
		s += fmt.Sprintf(": %g", e.Value)
	}
	if e.Unit != "" {
		s += " " + e.Unit
	}
	if e.Detail != "" {
		d := words.OneLine(e.Detail)
		if len(d) > 160 {
			d = d[:160] + "..."
		}
		s += ": " + d
	}
	return s
}
