package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/evotune/evotune/internal/export"
	"github.com/evotune/evotune/internal/naming"
	"github.com/evotune/evotune/kernels"
)

// A setting is a key of the configuration. It can be given as the flag --key,
// as the environment variable EVOTUNE_KEY and as `key = ...` in config.toml.
type setting struct {
	key   string
	value any // the default, whose type is the setting's
	usage string
}

// globalSettings belong to every command.
var globalSettings = []setting{
	{"store", "evotune.db", "the store `FILE` that campaigns are kept in"},
	{"kernels", []string{}, "a `DIR` with kernels of your own (repeatable)"},
	{"json", false, "print JSON instead of text"},
	{"verbose", false, "log what happens inside to standard error"},
}

// strictSetting belongs to the commands that open a problem for the first time.
var strictSetting = setting{"strict", false, "refuse a kernel that proves nothing at a tuned shape, where an input returned as output or work left out is within the tolerance, before anything is searched"}

// runSettings belong to the commands that evaluate.
var runSettings = []setting{
	{"backend", "auto", "where candidates run: auto, cpu, cuda, or replay"},
	{"strategy", "evolution", "how the space is searched"},
	{"seed", int64(1), "fixes the search's path"},
	{"warm-start", "auto", "begin with up to `N` genomes that won for other shapes and devices, or here; auto is 8, or none with --strategy random or --backend replay; off gives the path of an empty store"},
	{"evaluations", 0, "stop after `N` candidates (0: no limit)"},
	{"time", time.Duration(0), "end the whole command, finals included, after this wall `DURATION` (0: no limit; 2m when no budget is set at all)"},
	{"target", 0.0, "stop at this speedup over the baseline (0: no limit)"},
	{"patience", 0, "stop after `N` candidates without a new best (0: no limit)"},
	{"cost-per-hour", 0.0, "what an hour of this machine costs, for --max-cost"},
	{"max-cost", 0.0, "stop when the campaign has cost this much (0: no limit)"},
	{"sanitize", "all", "sanitize all candidates that match the reference, or only contenders: slow ones are then timed unsanitized, and can never win"},
	strictSetting,
	{"workers", 0, "evaluate `N` candidates at once (0: two per core; for GPUs one per proposal in flight)"},
	{"window", 0, "proposals in flight; part of the search's path, unlike --workers (0: 8, or 32 for each GPU)"},
	{"finalists", 4, "measure the best `N` again at the end (-1: no finals)"},
	{"shape", []string{}, "tune for this `SHAPE`: a name, or dimensions such as M=64,N=512 (repeatable; default: the kernel's first)"},
	{"implementation", []string{}, "search only this implementation (repeatable; default: all for the backend)"},
}

// submitSettings belong to campaigns in a service.
var submitSettings = []setting{
	{"priority", 0, "with a service: larger priorities run first, from -100 to 100"},
	{"device", "", "with a service: fleet for the devices of its workers, fleet:NAME for those with this `NAME`"},
	{"fleet-workers", 0, "with a service: use at most `N` workers of its fleet at once (0: four)"},
}

// backendSettings belong to the commands that open a backend.
var backendSettings = []setting{
	{"latency", time.Duration(0), "replay: let every evaluation take this `DURATION`"},
	{"compiler", "auto", "the C compiler: auto, gcc, clang or a path"},
	{"python", "", "the interpreter for references in Python: a name or a path (default: python3)"},
	{"sanitizers", []string{}, "run only these sanitizers (repeatable; default: all that were found)"},
	{"timeout", 30 * time.Second, "how long a candidate may take for one stage"},
	{"cuda-worker", "", "the GPU worker: the path of tune-cuda (default: beside tune, else on the PATH)"},
	{"cuda-devices", []string{}, "use this GPU, by index or UUID, or all of one model with \"all\" (repeatable; default: the first)"},
	{"cuda-compiler", "auto", "the CUDA compiler: auto, nvrtc or nvcc"},
	{"cuda-nvcc", "", "the path of nvcc (default: the one on the PATH, else the toolkit's)"},
	{"cuda-nvrtc", "", "the path of libnvrtc.so (default: the toolkit's, else that of a Python package)"},
	{"cuda-compile-workers", 0, "compile `N` candidates for GPUs at once (0: one per core)"},
	{"cuda-parity-workers", 0, "compare `N` candidates at once on each GPU (0: the default)"},
	{"cuda-sanitize-workers", 0, "run `N` processes for each tool of compute-sanitizer on each GPU (0: the default)"},
	{"cuda-profile", true, "profile finalists with Nsight Compute where it works"},
	{"cache-dir", "", "where compiled candidates and references are cached (default: the user's cache folder)"},
	{"cache-size", 2048, "how large the cache may grow, in `MiB`"},
}

func allSettings() []setting {
	return slices.Concat(globalSettings, runSettings, backendSettings, serveSettings, remoteSettings, submitSettings, workerSettings)
}

func knownSettings() map[string]setting {
	known := map[string]setting{}
	for _, s := range allSettings() {
		known[s.key] = s
	}
	return known
}

// addSettings makes flags of settings.
func addSettings(fs *pflag.FlagSet, settings []setting) {
	for _, s := range settings {
		switch d := s.value.(type) {
		case string:
			fs.String(s.key, d, s.usage)
		case bool:
			fs.Bool(s.key, d, s.usage)
		case int:
			fs.Int(s.key, d, s.usage)
		case int64:
			fs.Int64(s.key, d, s.usage)
		case float64:
			fs.Float64(s.key, d, s.usage)
		case time.Duration:
			fs.Duration(s.key, d, s.usage)
		case []string:
			fs.StringArray(s.key, d, s.usage)
		default:
			panic(fmt.Sprintf("setting %s has the unknown type %T", s.key, d))
		}
	}
}

const envPrefix = "EVOTUNE_"

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// configure reads file and environment and binds the command's flags over them.
func (a *app) configure(cmd *cobra.Command) error {
	known := knownSettings()
	envs := map[string]bool{
		envPrefix + "CONFIG":     true,
		envPrefix + "TEST":       true, // which tests run, and their cache (internal/longtest)
		envPrefix + "TEST_CACHE": true,
		envPrefix + "TUNE":       true, // the program that the Python package runs
		tokenName:                true,
	}
	for _, name := range export.Environment() {
		envs[name] = true
	}
	for _, s := range allSettings() {
		envs[envName(s.key)] = true
		a.v.SetDefault(s.key, s.value)
		if err := a.v.BindEnv(s.key, envName(s.key)); err != nil {
			return err
		}
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, envPrefix) && !envs[name] {
			return fmt.Errorf("environment: %s is no setting of evotune: see config.toml for the keys", name)
		}
	}
	a.flags = cmd.Flags()
	path, from, err := a.configFile(cmd)
	if err != nil {
		return err
	}
	if path != "" {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		defer f.Close()
		if err := a.readConfig(f, path, known); err != nil {
			return err
		}
	}
	var bindErr error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := known[f.Name]; ok && bindErr == nil {
			bindErr = a.v.BindPFlag(f.Name, f)
		}
	})
	if bindErr != nil {
		return bindErr
	}
	if f := cmd.Flags().Lookup("store"); f != nil && f.Changed && f.Value.String() == "" {
		return errors.New("--store names no file: give one, or leave it out")
	}
	if err := a.checkTypes(known); err != nil {
		return err
	}
	return a.checkServer(cmd)
}

// readConfig reads a configuration file and refuses unknown keys.
func (a *app) readConfig(r io.Reader, path string, known map[string]setting) error {
	a.v.SetConfigType("toml")
	text := bufio.NewReader(r)
	if mark, _ := text.Peek(3); string(mark) == "\uFEFF" { // of some editors
		_, _ = text.Discard(3)
	}
	if err := a.v.ReadConfig(text); err != nil {
		var fault *toml.DecodeError
		if errors.As(err, &fault) {
			line, column := fault.Position()
			return fmt.Errorf("%s:%d:%d: %s", path, line, column, kernels.TOMLFault(fault.Error()))
		}
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return fmt.Errorf("%s: %s", path, kernels.TOMLFault(err.Error()))
	}
	a.config = path
	return checkConfig(path, a.v.AllKeys(), known)
}

// configFile finds the configuration file and says who named it. The path is "" when there is none.
func (a *app) configFile(cmd *cobra.Command) (path, from string, err error) {
	if f := cmd.Flags().Lookup("config"); f != nil && f.Value.String() != "" {
		return f.Value.String(), "--config", nil
	}
	if p := os.Getenv(envPrefix + "CONFIG"); p != "" {
		return p, envPrefix + "CONFIG", nil
	}
	candidates := []string{"config.toml"}
	if dir, err := os.UserConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "evotune", "config.toml"))
	}
	for _, p := range candidates {
		switch _, err := os.Stat(p); {
		case err == nil:
			return p, "configuration", nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", "", err
		}
	}
	return "", "", nil
}

// checkConfig refuses keys that no setting has. A key of a table shows as
// "table.key".
func checkConfig(path string, keys []string, known map[string]setting) error {
	slices.Sort(keys)
	for _, k := range keys {
		if _, ok := known[k]; ok {
			continue
		}
		return fmt.Errorf("%s: unknown key %q%s", path, k, suggest(k, known))
	}
	return nil
}

func suggest(key string, known map[string]setting) string {
	alt := strings.ReplaceAll(key, "_", "-")
	if _, ok := known[alt]; ok {
		return fmt.Sprintf(": it is spelled %q", alt)
	}
	names := slices.Sorted(maps.Keys(known))
	if near := naming.Nearest(alt, names); near != "" {
		return fmt.Sprintf(": did you mean %s?", near)
	}
	return ": the keys are " + strings.Join(names, ", ")
}

// place says where a setting's value came from, with the value.
func (a *app) place(key, text string) string {
	switch f := a.flags; {
	case f != nil && f.Changed(key):
		return fmt.Sprintf("--%s %s", key, text)
	case os.Getenv(envName(key)) != "":
		return fmt.Sprintf("%s: %q", envName(key), text)
	case a.v.InConfig(key):
		return fmt.Sprintf("%s: %s: %q", a.config, key, text)
	}
	return fmt.Sprintf("setting %q: %q", key, text)
}

// checkTypes refuses a value from the file or the environment that does not fit its
// setting, because viper would read it as zero. It refuses negative numbers in flags too.
func (a *app) checkTypes(known map[string]setting) error {
	for _, k := range slices.Sorted(maps.Keys(known)) {
		raw := a.v.Get(k)
		text := fmt.Sprint(raw)
		probe := pflag.NewFlagSet("", pflag.ContinueOnError)
		addSettings(probe, []setting{known[k]})
		why := ""
		switch known[k].value.(type) {
		case []string:
			switch raw.(type) {
			case string, []string, []any:
				continue
			}
			why = "give a list of strings"
		case string:
			if _, ok := raw.(string); !ok {
				why = "give a string"
			}
		default:
			var refused *pflag.InvalidValueError
			if err := probe.Set(k, text); errors.As(err, &refused) {
				why = wanted(refused)
			} else if err != nil {
				why = err.Error()
			} else {
				why = tooSmall(k, known[k].value, text)
			}
		}
		if why != "" {
			return fmt.Errorf("%s: %s", a.place(k, text), why)
		}
	}
	return nil
}

// tooSmall says what a setting must be whose number is negative; empty if it may be.
func tooSmall(key string, kind any, text string) string {
	switch _, isBool := kind.(bool); {
	case isBool, !strings.HasPrefix(text, "-"), key == "seed", key == "priority":
		return ""
	case key == "finalists" && text == "-1":
		return ""
	case key == "finalists":
		return "give a number, or -1 for no finals"
	}
	return "it must not be negative"
}

// list reads a setting that holds several strings. In the environment they are
// separated as paths are.
func (a *app) list(key string) []string {
	if s, ok := a.v.Get(key).(string); ok {
		if s == "" {
			return nil
		}
		return filepath.SplitList(s)
	}
	return a.v.GetStringSlice(key)
}

// wanted says what a flag's value must be, after pflag has refused it.
func wanted(refused *pflag.InvalidValueError) string {
	switch refused.GetFlag().Value.Type() {
	case "int", "int64":
		return "give a whole number"
	case "intSlice":
		return "give whole numbers, separated by commas"
	case "float64":
		return "give a number"
	case "duration":
		return "give a duration, such as 90s or 1h30m"
	case "bool":
		return "give true or false"
	}
	return refused.Unwrap().Error()
}
