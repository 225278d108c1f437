package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/internal/report"
)

// evolved is a report of n proposals, of which those of the given verdict have a
// speedup.
func evolved(n int, verdict string) *report.Campaign {
	r := &report.Campaign{Campaign: `<k> & "co"-1`, Evaluated: n}
	for i := range n {
		e := report.Evaluation{
			Index: i, Candidate: fmt.Sprintf("%016x", i), Verdict: verdict, SpentS: float64(i),
			Genome: fmt.Sprintf("A=%d,MODE=\"<m%d>\",SAME=1", i%20, i%3),
		}
		if i%2 == 1 {
			e.Genome += ",B=true"
		}
		if verdict == "correct" {
			e.Speedup = 1 + float64(i%7)/4
		}
		r.Evaluations = append(r.Evaluations, e)
	}
	return r
}

func TestFigures(t *testing.T) {
	pending := report.Campaign{Evaluations: []report.Evaluation{{Genome: "A=1"}}}
	alike := evolved(1, "correct")
	mixed := evolved(30, "correct")
	mixed.Evaluations = append(mixed.Evaluations, evolved(5, "parity").Evaluations...)
	back := evolved(9, "correct") // the clock was set back
	back.Evaluations[3].SpentS = -2
	for _, c := range []struct {
		name    string
		of      *report.Campaign
		files   []string
		missing string
	}{
		{"correct and failed", mixed, []string{"SHA256SUMS", "parallel", "progress", "time", "verdicts"}, ""},
		{"many", evolved(5000, "correct"), []string{"SHA256SUMS", "parallel", "progress", "time", "verdicts"}, ""},
		{"one", alike, []string{"SHA256SUMS", "progress", "time", "verdicts"}, "parallel: no gene has two values among the correct candidates"},
		{"clock set back", back, []string{"SHA256SUMS", "parallel", "progress", "time", "verdicts"}, ""},
		{"none correct", evolved(9, "parity"), []string{"SHA256SUMS", "verdicts"}, "progress: none of 9 candidates is correct"},
		{"none told", &pending, nil, "verdicts: there is no result yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, format := range report.FigureFormats() {
				if format == "png" && c.of != alike {
					continue // slow to draw with the race detector
				}
				files, missing, err := c.of.Figures(report.FigureKinds(), format)
				if err != nil {
					t.Fatal(err)
				}
				again, _, err := c.of.Figures(report.FigureKinds(), format)
				if err != nil || !cmp.Equal(files, again) {
					t.Errorf("%s: the same log gave other bytes (%v)", format, err)
				}
				var names []string
				for name, content := range files {
					base, ext, _ := strings.Cut(name, ".")
					if names = append(names, base); ext == "" {
						continue
					}
					if ext != format {
						t.Errorf("%s is no %s", name, format)
					}
					if err := wellFormed(format, content); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				slices.Sort(names)
				if diff := cmp.Diff(c.files, names); diff != "" {
					t.Errorf("%s files (-want +got):\n%s", format, diff)
				}
				if said := strings.Join(missing, "\n"); !strings.Contains(said, c.missing) || (c.missing == "") != (said == "") {
					t.Errorf("%s missing: %q, want %q", format, said, c.missing)
				}
			}
		})
	}
	files, _, err := evolved(5000, "correct").Figures(report.FigureKinds(), "svg")
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"progress.svg": "one in 2 is drawn", "parallel.svg": "The best 1500 of 5000 are drawn.", "verdicts.svg": "correct 5000",
	} {
		if !bytes.Contains(files[name], []byte(says)) {
			t.Errorf("%s does not say %q", name, says)
		}
	}
	if !bytes.Contains(files["parallel.svg"], []byte(">absent<")) || !bytes.Contains(files["parallel.svg"], []byte("&lt;m1&gt;")) {
		t.Error("parallel.svg lacks a value")
	}
	if _, _, err := mixed.Figures([]string{"pie"}, "svg"); err == nil {
		t.Error("a figure that is not known was drawn")
	}
}

func wellFormed(format string, content []byte) error {
	if format == "png" {
		_, err := png.Decode(bytes.NewReader(content))
		return err
	}
	for d := xml.NewDecoder(bytes.NewReader(content)); ; {
		if _, err := d.Token(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}
