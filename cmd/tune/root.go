package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/words"
)

// An app is one invocation: where it prints and what it was configured with.
type app struct {
	in  io.Reader
	out *output
	err *output
	v   *viper.Viper
	settings
	m *evotune.Machine // nil until the first call of machine
	// flags are those of the command, and config is the configuration file that was read.
	flags  *pflag.FlagSet
	config string
	// token is the value of EVOTUNE_TOKEN. Child processes do not get it.
	token string
}

// An output is without the tokens of services. It keeps the first write error, so that a command
// that printed half of an answer fails.
type output struct {
	words.Redactor
	failed error
}

func newOutput(w io.Writer) *output { return &output{Redactor: words.Redactor{To: w}} }

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Redactor.Write(b)
	if err != nil && o.failed == nil {
		o.failed = err
	}
	return n, err
}

// Flush writes what was kept back.
func (o *output) Flush() error {
	err := o.Redactor.Flush()
	if err != nil && o.failed == nil {
		o.failed = err
	}
	return err
}

// run is the whole program; tests call it. It returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: newOutput(stdout), err: newOutput(stderr), v: viper.New(), token: os.Getenv(tokenName)}
	defer a.err.Flush() //nolint:errcheck // there is nowhere to say so
	if err := os.Unsetenv(tokenName); err != nil {
		a.token = ""
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	_ = a.out.Flush()
	if err == nil {
		err = a.out.failed
	}
	if err == nil {
		return exitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{statusOf(err), err}
	}
	if e.err != nil {
		text := e.err.Error()
		if fields := evotune.FieldErrors(err); len(fields) > 0 { // a field has the name of its flag
			texts := make([]string, len(fields))
			for i, f := range fields {
				texts[i] = "--" + f.Field + " " + f.Err.Error()
				if f.Field == "kernel" { // it has no flag
					texts[i] = f.Err.Error()
				}
			}
			text = strings.Join(texts, "; ")
		}
		fmt.Fprintf(a.err, "tune: %s\n", words.OneLine(a.there(root, err, text)))
	}
	return e.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tune",
		Short: "Evolve compute kernels: every candidate compiled, proven, sanitized and timed",
		Long: `tune evolves a kernel that is written as a template with holes. Every candidate is
rendered, compiled, compared with a double-precision reference, run under
sanitizers and only then timed. The store keeps every candidate with its parents.

Start with "tune run sgemm". With no GPU it tunes C kernels for this machine.

Settings come from flags, then from EVOTUNE_ environment variables
(EVOTUNE_STORE for --store), then from a configuration file, then from defaults.
The file is --config, or ./config.toml, or evotune/config.toml in the user's
configuration folder; an unknown key in it is an error.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.configure(cmd); err != nil {
				return badInput(err)
			}
			level := slog.LevelWarn
			if a.Verbose {
				level = slog.LevelDebug
			}
			slog.SetDefault(slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level})))
			return nil
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var refused *pflag.InvalidValueError
		if errors.As(err, &refused) {
			err = fmt.Errorf("--%s %s: %s", refused.GetFlag().Name, refused.GetValue(), wanted(refused))
		}
		if strings.HasPrefix(err.Error(), "unknown flag: --server") {
			err = errors.New("--server: this command does not ask a service; it works on this machine")
		}
		return badInputf("%w: see `%s --help`", err, cmd.CommandPath())
	})
	root.PersistentFlags().String("config", "", "the configuration `FILE`")
	addOptions(root.PersistentFlags(), option.Of(common{}))
	root.AddCommand(
		a.runCommand(), a.resumeCommand(), a.attachCommand(), a.pauseCommand(), a.cancelCommand(), a.judgeCommand(), a.sweepCommand(), a.spaceCommand(), a.replayCommand(), a.searchbenchCommand(),
		a.listCommand(), a.showCommand(), a.bestCommand(), a.selectCommand(), a.compareCommand(), a.lineageCommand(), a.importanceCommand(),
		a.verifyCommand(), a.ratchetCommand(), a.evidenceCommand(), a.reportCommand(), a.exportCommand(), a.plotCommand(), a.kernelsCommand(), a.checkCommand(), a.mergeCommand(), a.backupCommand(), a.archiveCommand(),
		a.serveCommand(), a.workerCommand(), a.tokenCommand(), a.doctorCommand(), a.versionCommand(),
	)
	// cobra's own errors about arguments are bad input.
	for _, c := range append([]*cobra.Command{root}, descendants(root)...) {
		if args := c.Args; args != nil {
			c.Args = func(cmd *cobra.Command, given []string) error {
				if err := args(cmd, given); err != nil {
					return badInputf("%w: call it as `%s`, or see `%s --help`", err, strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath())
				}
				return nil
			}
		}
	}
	root.SuggestionsMinimumDistance = 2
	root.Args = func(_ *cobra.Command, given []string) error {
		if len(given) == 0 {
			return nil
		}
		near := ""
		if known := root.SuggestionsFor(given[0]); len(known) > 0 {
			near = fmt.Sprintf(": did you mean %s?", strings.Join(known, " or "))
		}
		return badInputf("unknown command %q%s: see `tune --help`", given[0], near)
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, ok := a.out.terminal(); ok {
			return a.firstSteps()
		}
		return cmd.Help()
	}
	return root
}

func descendants(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range c.Commands() {
		out = append(append(out, sub), descendants(sub)...)
	}
	return out
}
