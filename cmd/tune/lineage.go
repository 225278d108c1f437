package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/store"
)

// The formats of a lineage, besides JSON.
const (
	formatText = "text"
	formatDOT  = "dot"
	formatSVG  = "svg"
)

var lineageFormats = []string{formatText, formatDOT, formatSVG, formatJSON}

func (a *app) lineageCommand() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "lineage CANDIDATE",
		Short: "Show where a candidate comes from",
		Long: `Show a candidate's ancestors as a tree (text), a graph for Graphviz (dot), a picture
(svg) or nested JSON. The tree shows an ancestor by the genes in which it differs
from its child, and does not expand an ancestor twice; JSON does, as long as that is
not too much. The picture has the nearest 40 candidates and says how many it leaves out.

A candidate that was made by "warm" has a parent from an earlier campaign, shown with
the shape and the device that it was measured for.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: "  tune lineage 3f2a\n  tune lineage 3f2a --format svg --out lineage.svg\n  tune lineage 3f2a --format dot | dot -Tpdf > lineage.pdf",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch json := a.JSON; {
			case json && !cmd.Flags().Changed("format"):
				format = formatJSON
			case json && format != formatJSON:
				return badInputf("--json and --format %s exclude each other", format)
			}
			if !slices.Contains(lineageFormats, format) {
				return badInputf("unknown format %q: there are %s", format, strings.Join(lineageFormats, ", "))
			}
			return a.withReader(cmd, func(r server.Reader) error {
				n, err := r.Lineage(args[0])
				if err != nil {
					return storeError(err)
				}
				where, err := elsewhere(r)
				if err != nil {
					return err
				}
				text := func(p *store.Node) string {
					if p.Campaign == n.Campaign {
						return nodeText(p)
					}
					return nodeText(p) + where(p.Candidate)
				}
				var b bytes.Buffer
				switch format {
				case formatText:
					printTree(&b, n, text)
				case formatDOT:
					printDOT(&b, n, text)
				case formatSVG:
					b.Write(report.LineagePicture(n))
				default:
					e := json.NewEncoder(&b)
					e.SetIndent("", "  ")
					if err := e.Encode(nest(n)); err != nil {
						return err
					}
				}
				write := func(w io.Writer) error {
					_, err := b.WriteTo(w)
					return err
				}
				if out == "" {
					return write(a.out)
				}
				return writeTrace(out, write)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", formatText, strings.Join(lineageFormats, ", "))
	cmd.Flags().StringVar(&out, "out", "", "write it to a `FILE`, whole or not at all (default: print it)")
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

// maxNested bounds the JSON of a lineage, in candidates. Ancestors that several
// descendants share are repeated wherever they occur; where that would exceed
// the bound, each is given in full once and marked "repeated" after that.
const maxNested = 10_000

// A lineageView is a candidate with its ancestors in it.
type lineageView struct {
	candidateView
	Parents  []lineageView `json:"parents"`
	Repeated bool          `json:"repeated,omitempty"`
}

func nest(root *store.Node) lineageView {
	sizes := map[*store.Node]int{}
	var size func(n *store.Node) int
	size = func(n *store.Node) int {
		if s, ok := sizes[n]; ok {
			return s
		}
		s := 1
		for _, p := range n.Parents {
			s = min(s+size(p), maxNested+1)
		}
		sizes[n] = s
		return s
	}
	whole := size(root) <= maxNested
	seen := map[*store.Node]bool{}
	var view func(n *store.Node) lineageView
	view = func(n *store.Node) lineageView {
		v := lineageView{candidateView: viewOf(n.Candidate), Parents: []lineageView{}}
		if seen[n] && !whole {
			v.Repeated = len(n.Parents) > 0
			return v
		}
		seen[n] = true
		for _, p := range n.Parents {
			v.Parents = append(v.Parents, view(p))
		}
		return v
	}
	return view(root)
}

func printTree(w io.Writer, n *store.Node, text func(*store.Node) string) {
	seen := map[string]bool{}
	var walk func(n, child *store.Node, first, rest string)
	walk = func(n, child *store.Node, first, rest string) {
		again := ""
		if seen[n.ID] && len(n.Parents) > 0 {
			again = "  (as above)"
		}
		fmt.Fprintf(w, "%s%s  %s%s\n", first, text(n), difference(n, child), again)
		if seen[n.ID] {
			return
		}
		seen[n.ID] = true
		for i, p := range n.Parents {
			if i == len(n.Parents)-1 {
				walk(p, n, rest+"└─ ", rest+"   ")
			} else {
				walk(p, n, rest+"├─ ", rest+"│  ")
			}
		}
	}
	walk(n, nil, "", "")
}

// difference is the genome of the candidate asked for or, for an ancestor, the
// genes in which it differs from its child.
func difference(n, child *store.Node) string {
	if child == nil {
		return n.Asked.Genome
	}
	was, now := genome.Plain(n.Asked.Genome), genome.Plain(child.Asked.Genome)
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(was)) {
		if v, ok := now[k]; !ok || v != was[k] {
			parts = append(parts, fmt.Sprintf("%s=%v", k, was[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if _, ok := was[k]; !ok {
			parts = append(parts, "no "+k)
		}
	}
	return strings.Join(parts, " ")
}

func nodeText(n *store.Node) string {
	s := fmt.Sprintf("%s  %s", n.ID, n.Asked.Operator)
	switch {
	case n.Told == nil:
		return s + "  pending"
	case n.Told.Verdict == string(evaluator.Correct):
		f := record.FiguresOf(n.Candidate)
		return s + fmt.Sprintf("  %.3fx %s", f.Speedup(), f.From)
	}
	return s + "  " + n.Told.Verdict
}

func printDOT(w io.Writer, n *store.Node, text func(*store.Node) string) {
	fmt.Fprintf(w, "digraph lineage {\n  rankdir=BT;\n  node [shape=box, fontname=\"monospace\"];\n")
	seen := map[string]bool{}
	var walk func(n *store.Node)
	walk = func(n *store.Node) {
		if seen[n.ID] {
			return
		}
		seen[n.ID] = true
		fmt.Fprintf(w, "  %q [label=%q];\n", n.ID, strings.ReplaceAll(text(n), "  ", "\n"))
		for _, p := range n.Parents {
			fmt.Fprintf(w, "  %q -> %q;\n", n.ID, p.ID)
			walk(p)
		}
	}
	walk(n)
	fmt.Fprintln(w, "}")
}
