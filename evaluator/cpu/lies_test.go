//go:build linux

package cpu_test

import (
	"encoding/csv"
	"errors"
	"flag"
	"image/color"
	"os"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

var (
	lieTries = flag.Int("lies", 3, "TestLiesNightly: how many candidates tell each lie")
	lieOut   = flag.String("lies.out", "", "TestLiesNightly: write a table to this `FILE.csv` and a plot beside it")
	lieOnly  = flag.String("lies.only", "100,110,120,150,200", "TestLiesNightly: the true times, in percent of those claimed")
	lieTeams = flag.String("lies.threads", "1,2", "TestLiesNightly: how many threads are declared")
	lieCalm  = flag.Bool("lies.calm", false, "TestLiesNightly: the machine is calm, and lies of 1.1 times must be caught too")
)

// TestLiesNightly has candidates whose clock is bent by a known factor judged. A lie of
// 1.2 times must be caught, and on a calm machine one of 1.1 times; honest
// candidates are never called liars. Where a candidate declares two threads and
// the cores are taken, a lie may be missed, and must not pay.
//
//	EVOTUNE_TEST=measure go test ./evaluator/cpu -run TestLiesNightly -v -lies 100 -lies.calm
func TestLiesNightly(t *testing.T) {
	longtest.Nightly(t, "measure", "judges many candidates")
	def, err := kernels.Load(os.DirFS(zooDir), "lies")
	if err != nil {
		t.Fatal(err)
	}
	space, err := def.Space(def.Implementations, def.Problem.Shapes, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := zooOptions(t)
	o.Sanitizers = []string{"none"} // they say nothing of time
	ev := opener(t, zooPlan(t, def), o)(t)
	defer func() {
		if err := ev.Close(); err != nil {
			t.Error(err)
		}
	}()
	var table [][]string
	for _, threads := range numbers(t, *lieTeams) {
		for _, lie := range numbers(t, *lieOnly) {
			seen := map[evaluator.Verdict]int{}
			best := 0.0
			for n := range *lieTries {
				g, err := space.FromMap(map[string]any{"LIE": lie, "THREADS": threads, "SALT": n + 1})
				if err != nil {
					t.Fatal(err)
				}
				r, err := ev.Evaluate(t.Context(), g, 0)
				if err != nil {
					t.Fatal(err)
				}
				seen[r.Verdict]++
				if r.Verdict == evaluator.Correct {
					best = max(best, 1/r.Fitness)
				}
				if v := r.Verdict; v != evaluator.Correct && v != evaluator.Implausible && v != evaluator.Infrastructure {
					t.Errorf("lie %d%%: %s: %s", lie, v, r.Reason)
				}
			}
			t.Logf("LIES calm=%t threads %d, true time %.2f times the claimed: %d of %d caught, %d not settled, %d believed; best speedup believed %.3f",
				*lieCalm, threads, float64(lie)/100, seen[evaluator.Implausible], *lieTries, seen[evaluator.Infrastructure], seen[evaluator.Correct], best)
			table = append(table, []string{
				strconv.FormatBool(*lieCalm), strconv.Itoa(threads), strconv.Itoa(lie), strconv.Itoa(*lieTries),
				strconv.Itoa(seen[evaluator.Implausible]), strconv.Itoa(seen[evaluator.Infrastructure]),
			})
			believed := seen[evaluator.Correct]
			switch {
			case lie == 100 && seen[evaluator.Implausible] > 0:
				t.Errorf("%d honest candidates of %d were called liars", seen[evaluator.Implausible], *lieTries)
			case lie >= 120 && believed > 0 && (threads == 1 || best > 1.1), lie >= 110 && believed > 0 && *lieCalm:
				t.Errorf("%d threads: a lie of %.2f times was believed %d times of %d", threads, float64(lie)/100, believed, *lieTries)
			}
		}
	}
	if *lieOut != "" {
		if err := writeLies(*lieOut, table); err != nil {
			t.Fatal(err)
		}
	}
}

// numbers reads a list like "1,2".
func numbers(t *testing.T, list string) []int {
	t.Helper()
	var all []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// writeLies writes a table, and a plot of it.
func writeLies(path string, table [][]string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	err = w.WriteAll(append([][]string{{"calm", "threads", "lie_percent", "tries", "caught", "unsettled"}}, table...))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "true time over claimed time", "share not believed"
	p.Y.Min, p.Y.Max = 0, 1
	p.Legend.XOffs, p.Legend.YOffs = -vg.Centimeter, vg.Centimeter
	p.X.Max = 2.05
	for n, threads := range []string{"1", "2"} {
		var line plotter.XYs
		for _, row := range table {
			if row[1] != threads {
				continue
			}
			var v [4]float64
			for i, s := range row[2:6] {
				if v[i], err = strconv.ParseFloat(s, 64); err != nil {
					return err
				}
			}
			line = append(line, plotter.XY{X: v[0] / 100, Y: (v[2] + v[3]) / v[1]})
		}
		l, points, err := plotter.NewLinePoints(line)
		if err != nil {
			return err
		}
		shade := []color.Color{color.RGBA{B: 160, A: 255}, color.RGBA{R: 190, G: 90, A: 255}}[n]
		l.Color, points.Color = shade, shade
		p.Add(l, points)
		p.Legend.Add("declared threads: "+threads, l)
	}
	return p.Save(14*vg.Centimeter, 9*vg.Centimeter, strings.TrimSuffix(path, ".csv")+".svg")
}
