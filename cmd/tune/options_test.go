package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/viper"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

var update = flag.Bool("update", false, "write the tables of options")

// TestOptionTables: what tells of options is what the declarations say.
func TestOptionTables(t *testing.T) {
	for path, want := range map[string]string{
		"config.toml":                    configFile(),
		"docs/options.md":                optionsPage(),
		"python/src/evotune/_options.py": pythonOptions(),
	} {
		path = filepath.Join(repository, path)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what the options' declarations say (%v): run `go test ./cmd/tune -run TestOptionTables -update` and read the difference", path, err)
		}
	}
}

// wrapped breaks a text into lines of at most some characters, each with a mark before it.
func wrapped(text, mark string, most int) string {
	var b strings.Builder
	line := mark
	for _, word := range strings.Fields(text) {
		if line != mark && len(line)+1+len(word) > most {
			b.WriteString(line + "\n")
			line = mark
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

func configFile() string {
	var b strings.Builder
	b.WriteString(`# evotune's settings, each with its default. A flag (--store) goes over the
# environment (EVOTUNE_STORE), which goes over this file. An unknown key is an
# error. evotune reads the file given by --config or EVOTUNE_CONFIG, else
# ./config.toml, else evotune/config.toml in the user's configuration folder.
`)
	all := option.Of(settings{})
	var sections []string
	for _, f := range all {
		if !slices.Contains(sections, f.Section) {
			sections = append(sections, f.Section)
		}
	}
	slices.SortStableFunc(all, func(f, g option.Field) int {
		return cmp.Compare(slices.Index(sections, f.Section), slices.Index(sections, g.Section))
	})
	section := ""
	written := map[string]bool{}
	for _, f := range all {
		if f.Name == "" || written[f.Name] {
			continue
		}
		written[f.Name] = true
		if f.Section != section {
			section = f.Section
			b.WriteString("\n" + wrapped("--- "+section+" ---", "#", 84))
		}
		var docs []string
		for _, g := range all {
			if g.Name == f.Name && g.Doc != "" {
				docs = append(docs, option.Sentence(g.Doc))
			}
		}
		value := "[]"
		if !f.List() {
			value = f.Text(f.DefaultValue())[0]
			if k := f.Kind(); k.Kind() == reflect.String || k == reflect.TypeFor[time.Duration]() || value == option.Auto {
				value = fmt.Sprintf("%q", value)
			}
		}
		fmt.Fprintf(&b, "\n%s%s = %s\n", wrapped(strings.Join(docs, " "), "#", 84), f.Name, value)
	}
	return b.String()
}

func optionsPage() string {
	var b strings.Builder
	b.WriteString("# Options of a campaign\n\n" +
		"This page lists what you can choose for a campaign: with `tune run`, in the body of `POST /v1/campaigns`, in [config.toml](../config.toml), and in Python.\n\n" +
		"    tune run softmax --evaluations 200 --finalists 8 --seed 0\n\n" +
		"A flag `--max-cost` is the variable `EVOTUNE_MAX_COST`, the key `max-cost` of config.toml, and the argument `max_cost` of `Kernel.tune` in Python. " +
		"A body has the names of the second column, and the log of the campaign has them too: `{\"kernel\": \"softmax\", \"budget\": {\"evaluations\": 200}, \"finalists\": 8, \"seed\": 0}`. " +
		"What is left out has its default. Zero is a value like any other, unless the table says what it stands for. Times in bodies are in nanoseconds.\n\n" +
		"| flag | in a body | default | from | to | what it does |\n|---|---|---|---|---|---|\n")
	for _, f := range runOptions {
		name, value := "", ""
		if f.Name != "" {
			name = "`--" + f.Name + "`"
		}
		if !f.List() && f.Name != "" {
			if value = f.Text(f.DefaultValue())[0]; value != "" {
				value = "`" + value + "`"
			}
		}
		least, most := f.Bounds()
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s |\n", name, f.Key, value, least, cmp.Or(most, strings.Join(f.Values(), ", ")), option.Sentence(f.Doc))
	}
	b.WriteString("\nThe options of the machine that evaluates, such as `--workers` and those of backends, are in [config.toml](../config.toml). " +
		"`go test ./cmd/tune -run TestOptionTables -update` writes this page from the fields of `record.Job` and `api.Submission`.\n")
	return b.String()
}

func pythonOptions() string {
	var b strings.Builder
	b.WriteString(`"""The options of tune run as arguments. Written by go test ./cmd/tune -run TestOptionTables -update."""

from __future__ import annotations

from typing import Sequence, TypedDict, Union
`)
	class := func(name, base, doc string, lists ...[]option.Field) {
		fmt.Fprintf(&b, "\n\nclass %s(%s):\n    \"\"\"%s\"\"\"\n\n", name, base, doc)
		written := map[string]bool{"": true, "time": true} // Kernel.tune has the time in its own place
		for _, f := range slices.Concat(lists...) {
			if written[f.Name] {
				continue
			}
			written[f.Name] = true
			kind := map[reflect.Kind]string{reflect.Bool: "bool", reflect.Float64: "float", reflect.String: "str", reflect.Slice: "Union[str, Sequence[str]]"}[f.Kind().Kind()]
			switch {
			case f.Kind() == reflect.TypeFor[time.Duration]():
				kind = "str"
			case f.Default == option.Auto && f.Type.Kind() == reflect.Pointer:
				kind = "Union[int, str]"
			case kind == "":
				kind = "int"
			}
			fmt.Fprintf(&b, "    %s: %s\n    \"\"\"%s\"\"\"\n", strings.ReplaceAll(f.Name, "-", "_"), kind, option.Sentence(f.Doc))
		}
	}
	class("ResumeOptions", "TypedDict, total=False", "What a resumption may change: the budget, and how this machine evaluates.", budgetOptions, workersOption, backendOptions)
	class("RunOptions", "ResumeOptions, total=False", "What a campaign may choose.", option.Without(runOptions, option.Names(budgetOptions)...))
	return b.String()
}

// parsed is a command with its settings, as it is before it does anything.
func parsed(t *testing.T, args ...string) *app {
	t.Helper()
	a := &app{in: strings.NewReader(""), out: newOutput(io.Discard), err: newOutput(io.Discard), v: viper.New()}
	cmd, rest, err := a.root().Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = a.configure(cmd)
	}
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return a
}

// other is a value of an option that is not its default.
func other(f option.Field) []string {
	switch values := f.Values(); {
	case len(values) > 0:
		return values[len(values)-1:]
	case f.List():
		return []string{"first", "2=3"}
	case f.Kind() == reflect.TypeFor[time.Duration]():
		return []string{"1h0m7s"}
	case f.Kind().Kind() == reflect.Bool:
		return []string{fmt.Sprint(f.Default != "true")}
	case f.Kind().Kind() == reflect.Float64:
		return []string{"2.5"}
	case f.Kind().Kind() == reflect.String:
		return []string{"some"}
	}
	return []string{"7"}
}

// TestOptions: every option of a campaign goes from a flag, a variable or the configuration file to the body that a
// service takes, to the log and back, with each value as it is: also with zero, and with none.
func TestOptions(t *testing.T) {
	filled := []string{"id", "definitions", "hash", "limits", "start", "family", "arch"} // in by the campaign
	bodies := []string{"kernel", "table", "sweep"}                                       // without a flag
	for _, f := range reflect.VisibleFields(reflect.TypeFor[api.Submission]()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		told := slices.ContainsFunc(runOptions, func(o option.Field) bool { return strings.HasPrefix(o.Key+".", key+".") })
		if !f.Anonymous && (key == "" || key == "-" || told == slices.Contains(filled, key)) {
			t.Errorf("%s is in the body: %v: give it a doc, and a name for bodies", f.Name, told)
		}
	}
	document := readSchema(t)
	var changed, zero []string
	file := ""
	for _, f := range runOptions {
		if (f.Name == "") != slices.Contains(bodies, f.Key) {
			t.Errorf("%s has the flag %q", f.Key, f.Name)
		}
		if !document["Submission"][f.Key] && !document["RecordBudget"][strings.TrimPrefix(f.Key, "budget.")] {
			t.Errorf("the document of the service has no %s", f.Key)
		}
		if f.Name == "" {
			continue
		}
		texts := other(f)
		for _, text := range texts {
			changed = append(changed, "--"+f.Name+"="+text)
		}
		switch k := f.Kind().Kind(); {
		case f.List():
			file += fmt.Sprintf("%s = [%q, %q]\n", f.Name, texts[0], texts[1])
		case k == reflect.String || k == reflect.Int64 && f.Kind() != reflect.TypeFor[int64]():
			file += fmt.Sprintf("%s = %q\n", f.Name, texts[0])
		default:
			file += fmt.Sprintf("%s = %s\n", f.Name, texts[0])
		}
		if f.Kind() == reflect.TypeFor[time.Duration]() {
			zero = append(zero, "--"+f.Name+"=0s")
		} else if k := f.Kind().Kind(); k != reflect.String && k != reflect.Bool && !f.List() {
			zero = append(zero, "--"+f.Name+"=0")
		}
	}
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	everything := parsed(t, append([]string{"run", "k"}, changed...)...).submission("k")
	if read := parsed(t, "run", "k", "--config", path).submission("k"); !reflect.DeepEqual(read, everything) {
		t.Errorf("a file gives\n%+v, flags give\n%+v", read, everything)
	}
	for _, f := range runOptions {
		if f.Name != "" && !slices.Equal(f.Text(f.Value(everything)), other(f)) {
			t.Errorf("--%s is %q, want %q", f.Name, f.Text(f.Value(everything)), other(f))
		}
		if f.Name == "" || f.List() {
			continue
		}
		t.Setenv(envName(f.Name), other(f)[0])
		if read := parsed(t, "run", "k").submission("k"); !slices.Equal(f.Text(f.Value(read)), other(f)) {
			t.Errorf("%s gives %q, want %q", envName(f.Name), f.Text(f.Value(read)), other(f))
		}
		os.Unsetenv(envName(f.Name)) //nolint:errcheck // it was set above
	}
	nothing := parsed(t, append([]string{"run", "k"}, zero...)...).submission("k")
	if nothing.SearchSeed() != 0 || nothing.FinalsOf() != 0 || nothing.WarmStart == nil || *nothing.WarmStart != 0 || nothing.Budget != (evotune.Budget{}) {
		t.Errorf("zeros are %+v", nothing)
	}
	if usual := parsed(t, "run", "k").submission("k"); usual.SearchSeed() != 1 || usual.FinalsOf() != 4 || usual.WarmStart != nil || usual.Budget != (evotune.Budget{}) {
		t.Errorf("the defaults are %+v", usual)
	}
	for _, sent := range []api.Submission{everything, nothing, parsed(t, "run", "k").submission("k"), {}} {
		body, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var came api.Submission
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&came); err != nil || !reflect.DeepEqual(came, sent) {
			t.Errorf("%s: came as %+v: %v", body, came, err)
		}
		started, err := record.NewStarted(came.Job, evaluator.Description{}, 1, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if logged, err := record.ReadJob("k-1", started); err != nil || !reflect.DeepEqual(logged, sent.Job) {
			t.Errorf("the log has %+v of %+v: %v", logged, sent.Job, err)
		}
		note, err := (record.Resumption{Budget: &came.Budget}).Note("budget", 0)
		if err != nil {
			t.Fatal(err)
		}
		if resumed, err := record.ReadResumption(&store.Event{Campaign: "k-1", Kind: store.KindResumed, Note: note}); err != nil || resumed.Budget == nil || *resumed.Budget != sent.Budget {
			t.Errorf("a resumption has %+v of %+v: %v", resumed, sent.Budget, err)
		}
	}
	var budget []string
	for _, f := range budgetOptions {
		budget = append(budget, "--"+f.Name+"="+other(f)[0])
	}
	if resumed := parsed(t, append([]string{"resume"}, budget...)...); resumed.Run.Budget != everything.Budget {
		t.Errorf("a resumption takes %+v, want %+v", resumed.Run.Budget, everything.Budget)
	}
}

// readSchema lists the properties of the schemas of the service's document.
func readSchema(t *testing.T) map[string]map[string]bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository, "docs/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]bool{}
	for name, s := range doc.Components.Schemas {
		out[name] = map[string]bool{}
		for key := range s.Properties {
			out[name][key] = true
		}
	}
	return out
}
