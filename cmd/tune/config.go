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
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/internal/export"
	"github.com/evotune/evotune/internal/naming"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/kernels"
)

// settings are what flags, the environment and the configuration file set, in this order, read once for each command.
// The tags of the fields declare them, as package option has it: `store` is the flag --store, the environment variable
// EVOTUNE_STORE and the key store of config.toml.
type settings struct {
	common
	remote
	Run        api.Submission `doc:"the search"`
	evaluating `doc:"the search"`
	Backends   backends `doc:"the backends"`
	Serve      serving  `doc:"tune serve"`
	Worker     working  `doc:"tune worker"`
}

// common belongs to every command.
type common struct {
	Store   string   `flag:"store,evotune.db" doc:"the store <FILE> that campaigns are kept in"`
	Kernels []string `flag:"kernels" doc:"a <DIR> with kernels of your own: it is a kernel, or holds several"`
	JSON    bool     `flag:"json" doc:"print JSON instead of text"`
	Verbose bool     `flag:"verbose" doc:"log what happens inside to standard error"`
}

// evaluating belongs to the commands that run campaigns.
type evaluating struct {
	Workers int `flag:"workers" minimum:"0" doc:"evaluate <N> candidates at once (0: two per core; for GPUs one per proposal in flight)"`
}

// backends belongs to the commands that open a backend.
type backends struct {
	CPU       cpu.Options   `doc:"the CPU backend, and what it shares with the others"`
	CUDA      cuda.Options  `doc:"the CUDA backend"`
	CacheSize int           `flag:"cache-size,2048" minimum:"0" doc:"how large the cache may grow, in <MiB>"`
	Latency   time.Duration `flag:"latency" minimum:"0" doc:"replay: let every evaluation take this <DURATION>"`
}

// The options of commands.
var (
	runOptions     = option.Of(api.Submission{})
	budgetOptions  = option.Of(evotune.Budget{})
	workersOption  = option.Of(evaluating{})
	backendOptions = option.Of(backends{})
	remoteOptions  = option.Of(remote{})
)

// known are all options by their names. Several fields may read one option; the first has its doc.
var known = func() map[string]option.Field {
	m := map[string]option.Field{}
	for _, f := range option.Of(settings{}) {
		if _, ok := m[f.Name]; !ok && f.Name != "" {
			m[f.Name] = f
		}
	}
	return m
}()

// addOptions makes flags of options.
func addOptions(fs *pflag.FlagSet, lists ...[]option.Field) {
	for _, f := range slices.Concat(lists...) {
		if f.Name == "" || fs.Lookup(f.Name) != nil {
			continue
		}
		value := f.DefaultValue()
		if value.Kind() == reflect.Pointer && value.IsNil() {
			fs.Var(&optional{f, f.Default}, f.Name, f.Usage())
			continue
		}
		switch d := reflect.Indirect(value).Interface().(type) {
		case bool:
			fs.Bool(f.Name, d, f.Usage())
		case int:
			fs.Int(f.Name, d, f.Usage())
		case int64:
			fs.Int64(f.Name, d, f.Usage())
		case float64:
			fs.Float64(f.Name, d, f.Usage())
		case time.Duration:
			fs.Duration(f.Name, d, f.Usage())
		case []string:
			fs.StringArray(f.Name, d, f.Usage())
		default:
			fs.String(f.Name, fmt.Sprint(d), f.Usage())
		}
	}
}

// An optional is the flag of a number, or auto, or off.
type optional struct {
	option.Field
	text string
}

func (o *optional) String() string { return o.text }
func (o *optional) Type() string   { return "number" }

func (o *optional) Set(text string) error {
	_, err := o.Parse(text)
	o.text = text
	return err
}

const envPrefix = "EVOTUNE_"

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// configure reads file and environment and binds the command's flags over them.
func (a *app) configure(cmd *cobra.Command) error {
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
	for name, f := range known {
		envs[envName(name)] = true
		a.setDefault(f)
		if err := a.v.BindEnv(name, envName(name)); err != nil {
			return err
		}
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, envPrefix) && !envs[name] {
			return fmt.Errorf("environment: unknown setting %s: see config.toml for the keys", name)
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
		if err := a.readConfig(f, path); err != nil {
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
	if err := a.readSettings(); err != nil {
		return err
	}
	return a.checkServer(cmd)
}

// readConfig reads a configuration file and refuses unknown keys.
func (a *app) readConfig(r io.Reader, path string) error {
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
	return checkConfig(path, a.v.AllKeys())
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
func checkConfig(path string, keys []string) error {
	slices.Sort(keys)
	for _, k := range keys {
		if _, ok := known[k]; ok {
			continue
		}
		return fmt.Errorf("%s: unknown key %q%s", path, k, suggest(k))
	}
	return nil
}

func suggest(key string) string {
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

// texts are the values of a setting, as a flag gives them.
func (a *app) texts(name string) []string { return known[name].Text(known[name].Value(a.settings)) }

// setDefault gives viper the default of an option.
func (a *app) setDefault(f option.Field) {
	if f.List() {
		a.v.SetDefault(f.Name, []string{})
		return
	}
	a.v.SetDefault(f.Name, f.Text(f.DefaultValue())[0])
}

// readSettings reads all settings. It refuses a value that does not fit its setting, which viper would read as zero.
func (a *app) readSettings() error {
	list := option.Of(a.settings)
	slices.SortStableFunc(list, func(f, g option.Field) int { return strings.Compare(f.Name, g.Name) })
	for _, f := range list {
		if f.Name == "" {
			continue
		}
		raw := a.v.Get(f.Name)
		value, err := f.Read(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", a.place(f.Name, fmt.Sprint(raw)), err)
		}
		f.Value(&a.settings).Set(value)
	}
	return nil
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
