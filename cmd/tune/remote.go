package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// remote belongs to the commands that can ask a service.
type remote struct {
	Server    string `flag:"server" doc:"ask the service at this <URL>, such as https://host:8787, instead of --store; the token is in EVOTUNE_TOKEN or --token-file"`
	TokenFile string `flag:"token-file" doc:"with --server: the <FILE> that the token is in"`
}

// tokenName is the variable with the client's token. It is not a setting: a token does not
// belong in a configuration file or on a command line.
const tokenName = envPrefix + "TOKEN"

// localCommands use a store themselves and cannot ask a service.
var localCommands = []string{
	"tune sweep", "tune compare", "tune plot", "tune verify", "tune ratchet", "tune evidence", "tune check", "tune merge", "tune archive",
	"tune token create", "tune token list", "tune token revoke",
}

// checkServer refuses to answer from a store where a service was to be asked.
func (a *app) checkServer(cmd *cobra.Command) error {
	address := a.Server
	switch known := cmd.Flags().Lookup("server") != nil; {
	case address == "":
		return nil
	case !known && slices.Contains(localCommands, cmd.CommandPath()):
		return fmt.Errorf("`%s` cannot ask a service, and a server is set (%s): set it to nothing (%s=) to use a store here", cmd.CommandPath(), words.OneLine(address), envName("server"))
	case known && cmd.Flags().Changed("store"):
		return fmt.Errorf("--store and --server %s exclude each other: leave one out (--server= where a variable or a file sets it)", words.OneLine(address))
	}
	return nil
}

// client makes the client of the service that is set; nil when none is.
func (a *app) client() (*api.Client, error) {
	address := a.Server
	if address == "" {
		return nil, nil
	}
	token := a.token
	if path := a.TokenFile; path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, badInputf("--token-file: %w", err)
		}
		if token = strings.TrimSpace(string(b)); token == "" || strings.ContainsAny(token, " \t\r\n") {
			return nil, badInputf("--token-file %s: it must have one line, the token", path)
		}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, badInputf("the token in %s has characters that no token has, such as a space or the end of a line: set it again", tokenName)
	}
	c, err := api.NewClient(address, token)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(address); err == nil && u.Scheme == "http" && token != "" && !loopback(u.Hostname()) {
		fmt.Fprintf(a.err, "tune: the token crosses the network in the clear: use https, or a tunnel to the service\n")
	}
	return c, nil
}

func loopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

// service returns the client of the service to ask: that of --server or, if --store is in
// use, the service that holds it. Nil means that the store is to be opened here.
func (a *app) service(ctx context.Context) (*api.Client, error) {
	c, err := a.client()
	if c != nil || err != nil {
		return c, err
	}
	path := a.Store
	s, err := store.Open(path, store.Options{ReadOnly: true, MustExist: true})
	if err == nil {
		return nil, s.Close()
	}
	if !errors.Is(err, store.ErrLocked) {
		return nil, nil //nolint:nilerr // opening it reports what is wrong
	}
	c, who, err := server.Dial(ctx, path)
	if err != nil || !who.Service {
		return nil, nil //nolint:nilerr // as above
	}
	return c, nil
}

// where returns the flag with which a command asks the same service.
func (a *app) where(c *api.Client) string {
	if a.Server == "" {
		return a.given("store")
	}
	return " --server " + shellWord(c.Address())
}

// elsewhereOnly refuses flags that are for the machine that evaluates.
func elsewhereOnly(cmd *cobra.Command) error {
	for _, f := range slices.Concat(backendOptions, workersOption) {
		if cmd.Flags().Changed(f.Name) && (f.Name != "cuda-devices" || cmd.Name() != "run") {
			return badInputf("--%s is for the machine that evaluates: give it to `tune serve` there", f.Name)
		}
	}
	return nil
}

// submissionThere is a submission for a service, which runs on its own machine.
func (a *app) submissionThere(cmd *cobra.Command, kernel string) (s api.Submission, err error) {
	if err := elsewhereOnly(cmd); err != nil {
		return s, err
	}
	if s = a.submission(kernel); s.Table != "" {
		if s.Table, err = filepath.Abs(s.Table); err != nil {
			return s, badInput(err)
		}
	}
	if gpus := a.Backends.CUDA.Devices; cmd.Flags().Changed("cuda-devices") {
		if len(gpus) != 1 || gpus[0] == "all" {
			return s, badInputf("--cuda-devices: a service runs a campaign on one GPU: name that one, or leave it out for any")
		}
		s.Device = gpus[0]
	}
	return s, nil
}

// submit submits a campaign to a service and follows it.
func (a *app) submit(ctx context.Context, cmd *cobra.Command, c *api.Client, kernel string) error {
	s, err := a.submissionThere(cmd, kernel)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, endSignals()...)
	defer stop()
	if err := a.upload(ctx, c, s.Kernel); err != nil {
		return err
	}
	detach, err := cmd.Flags().GetBool("detach")
	if err != nil {
		return err
	}
	campaign, err := c.Submit(ctx, s)
	switch {
	case err != nil && ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted: it is not known whether the campaign was submitted: see `tune list" + a.where(c) + "`")}
	case err != nil && s.Table != "" && strings.Contains(err.Error(), s.Table):
		return remoteError(fmt.Errorf("%w (a file on the service's machine)", err))
	case err != nil:
		return remoteError(err)
	case detach:
		return a.detached(c, campaign)
	}
	if !a.JSON {
		fmt.Fprintf(a.out, "campaign %s is submitted to %s\n", campaign.ID, a.whose(c))
	}
	return a.follow(ctx, c, campaign.ID, false)
}

// whose names a service for people.
func (a *app) whose(c *api.Client) string {
	if a.Server == "" {
		return "the service that holds " + a.Store
	}
	return c.Address()
}

// detached prints what a script needs to come back.
func (a *app) detached(c *api.Client, campaign api.Campaign) error {
	if a.JSON {
		return a.printJSONLine(struct {
			Event    string    `json:"event"`
			Campaign string    `json:"campaign"`
			State    api.State `json:"state"`
		}{"submitted", campaign.ID, campaign.State})
	}
	fmt.Fprintf(a.err, "tune: to follow it: tune attach %s%s\n", campaign.ID, a.where(c))
	_, err := fmt.Fprintln(a.out, campaign.ID)
	return err
}

// upload gives a service the kernel that is to be tuned, if a folder of --kernels has it.
func (a *app) upload(ctx context.Context, c *api.Client, kernel string) error {
	folders := a.Kernels
	if len(folders) == 0 || kernel == "" {
		return nil
	}
	d, err := kernels.Find(kernel, folders...)
	switch {
	case errors.Is(err, kernels.ErrUnknownKernel):
		return nil // the service may know it
	case err != nil:
		return badInput(err)
	case strings.HasPrefix(d.Dir, "builtin/"):
		return nil
	}
	if there, err := c.Kernel(ctx, kernel); err == nil && there.Hash == d.Hash {
		return nil
	} else if err != nil && !errors.Is(err, store.ErrNotFound) {
		return remoteError(err)
	}
	up := api.Upload{Name: kernel, Files: d.Files()}
	k, err := c.Upload(ctx, up)
	if err != nil {
		return remoteError(err)
	}
	if !a.JSON {
		fmt.Fprintf(a.out, "kernel %s is uploaded (%.12s)\n", k.Name, k.Hash)
	}
	return nil
}

// details returns what a problem says and the fields that it is about. A field that is a flag
// has the flag's name.
func details(p *api.Problem) string {
	told := []string{p.Detail}
	if p.Detail == "validation failed" { // the fields say what failed
		told = nil
	}
	for _, d := range p.Errors {
		if strings.Contains(p.Detail, d.Message) {
			continue
		}
		name := strings.TrimPrefix(d.Location, "body.")
		at := slices.IndexFunc(runOptions, func(f option.Field) bool { return f.Key == name && f.Name != "" })
		switch {
		case at >= 0:
			name = "--" + runOptions[at].Name
		case name == "scope":
			name = "--" + name
		case d.Location == "body.name":
			name = "the name"
		default:
			name = d.Location
		}
		told = append(told, name+": "+d.Message)
	}
	return strings.Join(told, "; ")
}

// remoteError adds the fields that it is about to an error of a service, and gives errors that
// the user can correct their exit status.
func remoteError(err error) error {
	var p *api.Problem
	if !errors.As(err, &p) {
		return err
	}
	var field *evotune.FieldError
	if !errors.As(err, &field) && len(p.Errors) > 0 {
		err = fmt.Errorf("%s%w", details(p), silent{err})
	}
	switch p.Status / 100 {
	case 4:
		if statusOf(err) == exitFailure {
			return badInput(err)
		}
	}
	return err
}

// commands matches the commands that an error tells users to call.
var commands = regexp.MustCompile("`tune [^`]*`")

// there adapts an error's text to the service that was asked: the commands in it ask that service
// too, and for an unknown name it adds a `tune list` that does.
func (a *app) there(root *cobra.Command, err error, text string) string {
	address := a.Server
	if address == "" {
		return text
	}
	flag := " --server " + shellWord(address)
	text = commands.ReplaceAllStringFunc(text, func(command string) string {
		cmd, _, findErr := root.Find(strings.Fields(strings.Trim(command, "`"))[1:])
		if findErr != nil || cmd.Flags().Lookup("server") == nil || strings.Contains(command, "--server") {
			return command
		}
		return strings.TrimSuffix(command, "`") + flag + "`"
	})
	if p := (*api.Problem)(nil); errors.As(err, &p) && p.Type == api.NotFound && !strings.Contains(text, "`") {
		text += ": see `tune list" + flag + "`"
	}
	return text
}

// heldError is the error of a command that needs a store for itself while another process holds
// it. instead says what to do if that process is a service.
func (a *app) heldError(ctx context.Context, path string, err error, instead string) error {
	if !errors.Is(err, store.ErrLocked) {
		return storeError(err)
	}
	c, who, dialErr := server.Dial(ctx, path)
	if dialErr != nil {
		return err
	}
	defer c.Close()
	if !who.Service {
		return fmt.Errorf("store %s: %w: one `tune run` writes it: wait until it ends, or end it (Ctrl-C there, `tune resume` goes on)", path, store.ErrLocked)
	}
	return fmt.Errorf("store %s: %w: `tune serve` holds it: %s", path, store.ErrLocked, instead)
}

// A silent error serves errors.Is and adds no text.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// A following is what one command has seen of a campaign in a service.
type following struct {
	*app
	client *api.Client
	id     string

	out    printer
	usage  *evaluator.Usage
	past   uint64 // events up to this one are summarized
	last   uint64 // the newest event so far
	best   *evotune.Event
	early  []evotune.Event // of the past, to be printed
	state  api.State
	reason string
	said   string
	begun  *evotune.Started
	told   evaluator.Patience
	end    *evotune.Finished
}

// follow prints a campaign of a service as if it ran here, until it ends. Ctrl-C detaches and
// does not stop it. With summary, the past is printed as a short summary.
func (a *app) follow(ctx context.Context, c *api.Client, id string, summary bool) error {
	f := &following{app: a, client: c, id: id, told: evaluator.Patience{Scripts: a.JSON}}
	if summary {
		campaign, err := c.Campaign(ctx, id)
		if err != nil {
			return remoteError(err)
		}
		if f.id = campaign.ID; campaign.Log != nil {
			f.past = campaign.Log.Last
		}
	}
	lost := false
	c.OnRetry = func(err error, after time.Duration) {
		if !lost {
			lost = true
			f.say(fmt.Sprintf("%s; the campaign does not depend on it, trying again", words.OneLine(err.Error())))
		}
	}
	defer f.close()
	moments := c.Follow
	if summary {
		moments = c.Attach
	}
	for m, err := range moments(ctx, f.id) {
		switch {
		case err != nil && ctx.Err() != nil:
			return f.detach()
		case err != nil:
			return remoteError(err)
		}
		if lost {
			lost = false
			f.say("connected again")
		}
		f.moment(m)
	}
	f.catchUp()
	return f.ended(ctx)
}

// say prints a message that is not the campaign's.
func (f *following) say(line string) {
	if f.out != nil && !f.JSON {
		f.out.say(line)
		return
	}
	fmt.Fprintf(f.err, "tune: %s\n", line)
}

func (f *following) close() {
	if f.out != nil {
		f.out.close()
	}
}

// moment handles the next event or status.
func (f *following) moment(m api.Moment) {
	if m.Status != nil {
		f.catchUp()
		f.status(m.Status)
		return
	}
	e := *m.Event
	if e.Started != nil && f.begun == nil {
		f.begun = e.Started
		f.open(e.Started.Workers)
	}
	if m.ID > 0 {
		f.last = m.ID
	}
	if m.ID > 0 && m.ID <= f.past || e.Warning != "" && f.last < f.past { // a warning has no number of its own
		f.keep(e)
		return
	}
	f.catchUp()
	f.event(e)
}

// keep keeps the events of the summary: the beginning, the best so far, the finals, warnings.
func (f *following) keep(e evotune.Event) {
	switch {
	case e.Started != nil && len(f.early) == 0, e.Finals != nil, e.Warning != "":
		f.early = append(f.early, e)
	case e.Evaluated != nil && (e.Evaluated.Record || f.best == nil):
		f.best = &e
	}
}

// catchUp prints what was kept of the past.
func (f *following) catchUp() {
	for _, e := range f.early {
		if e.Finals != nil && f.best != nil {
			f.event(*f.best)
			f.best = nil
		}
		f.event(e)
	}
	if f.best != nil {
		f.event(*f.best)
	}
	f.early, f.best, f.past = nil, nil, 0
}

func (f *following) event(e evotune.Event) {
	if e.Finished != nil {
		f.end = e.Finished
	}
	if f.out != nil {
		f.out.event(e)
	}
}

// open begins to print.
func (f *following) open(workers int) {
	f.out = f.printer(workers, func() (evaluator.Usage, bool) {
		if f.usage == nil {
			return evaluator.Usage{}, false
		}
		return *f.usage, true
	})
}

// status handles a change of the campaign's state or progress.
func (f *following) status(s *api.Status) {
	f.state, f.reason = s.State, s.Reason
	if p := s.Progress; p != nil {
		f.usage = p.Usage
		for i, w := range p.Workers {
			if f.out != nil {
				f.out.stage(i, w.Candidate, w.Stage)
			}
		}
	}
	text := ""
	switch {
	case s.State == api.Queued && s.Position > 0:
		text = fmt.Sprintf("queued: number %d", s.Position)
	case s.State == api.Preparing && f.begun == nil:
		if p := s.Progress; p != nil && p.Preparing != nil && f.told.Due(p.Preparing.Step, p.Preparing.SinceNS) {
			f.stillPreparing(s.Campaign, p.Preparing.Step, p.Preparing.SinceNS)
		}
		text = "preparing: harness, reference, baseline, ceilings of the machine"
	}
	if text != "" && text != f.said && !f.JSON {
		f.said = text
		fmt.Fprintln(f.app.out, text)
	}
}

// detach says how to follow the campaign again.
func (f *following) detach() error {
	f.close()
	fmt.Fprintf(f.err, "tune: detached, the campaign goes on; to come back: tune attach %s%s\n", f.id, f.where(f.client))
	return &exitError{code: exitInterrupted}
}

// ended turns the end of a campaign into that of the command.
func (f *following) ended(ctx context.Context) error {
	f.close()
	again := fmt.Sprintf("`tune resume %s%s` goes on", f.id, f.where(f.client))
	kernel := ""
	if f.state == api.Failed {
		kernel = f.uploaded(ctx)
	}
	switch {
	case kernel != "":
		return fmt.Errorf("campaign %s has failed: %s: if the kernel is to blame, correct it and submit it again with `tune run %s%s%s`, since a campaign keeps what was uploaded; else, %s",
			f.id, f.reason, shellWord(kernel), f.given("kernels"), f.where(f.client), again)
	case f.state == api.Failed:
		return fmt.Errorf("campaign %s has failed: %s: once that is put right, %s", f.id, f.reason, again)
	case f.state == api.Paused:
		return &exitError{exitInterrupted, fmt.Errorf("campaign %s is %s: %s", f.id, orPaused(f.reason), again)}
	case f.state == api.Cancelled:
		return &exitError{exitInterrupted, fmt.Errorf("campaign %s was %s", f.id, orPaused(f.reason))}
	case f.end == nil:
		return fmt.Errorf("campaign %s has ended (%s) and has told of no end: see `tune show %s%s`", f.id, f.state, f.id, f.where(f.client))
	case f.end.Best == nil:
		return &exitError{exitNoCandidate, fmt.Errorf("campaign %s has no valid candidate: see `tune show %s%s` for the verdicts", f.id, f.id, f.where(f.client))}
	case f.begun.Config.Sweep:
		return nil
	}
	c, err := f.client.Campaign(ctx, f.id)
	if err != nil {
		return remoteError(err)
	}
	if c.Log == nil {
		return nil
	}
	var definition *kernels.Definition
	if t, err := f.machine().Recorded(*c.Log); err == nil {
		definition = t.Definition()
	}
	return f.nextSteps(*c.Log, f.begun.Config, definition, *f.end, f.where(f.client))
}

// uploaded names the campaign's kernel if it was uploaded; it is empty if not, or if the service does not say.
func (f *following) uploaded(ctx context.Context) string {
	if f.client == nil {
		return ""
	}
	if c, err := f.client.Campaign(ctx, f.id); err == nil && c.Uploaded {
		return c.Kernel
	}
	return ""
}

// orPaused is the reason why a campaign does not run, or "paused" without one.
func orPaused(reason string) string {
	if reason == "" {
		return "paused"
	}
	return reason
}

func (a *app) attachCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attach CAMPAIGN",
		Short: "Follow a campaign of a service",
		Long: `Follow a campaign of the service at --server, or of the one that holds --store. A
short summary of the past comes first: how it began, the best so far, the finals. Then
every event is printed as it happens, until the campaign ends.

Ctrl-C ends this command, not the campaign. When the connection is lost or the service
is restarted, the command retries; no event is printed twice or left out.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate) + "  130  it is paused or was cancelled; or Ctrl-C ended this command, not the campaign\n",
		Example: "  tune attach softmax-1f2e3d4c --server http://127.0.0.1:8787",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.needService(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, stop := signal.NotifyContext(cmd.Context(), endSignals()...)
			defer stop()
			return a.follow(ctx, c, args[0], true)
		},
	}
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

// needService is service where a missing service is an error.
func (a *app) needService(ctx context.Context) (*api.Client, error) {
	c, err := a.service(ctx)
	if c == nil && err == nil {
		err = badInputf("no service holds %s: give --server URL, or the --store of a `tune serve` on this machine", a.Store)
	}
	return c, err
}

func (a *app) pauseCommand() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use:   "pause CAMPAIGN",
		Short: "Pause a campaign of a service",
		Long: `Pause a campaign of a service: it stops after the candidates in flight and frees its
device. "tune resume" continues it.
` + exitHelp(exitOK, exitFailure, exitBadInput),
	}, (*api.Client).Pause)
}

func (a *app) cancelCommand() *cobra.Command {
	return a.actCommand(&cobra.Command{
		Use:   "cancel CAMPAIGN",
		Short: "Cancel a campaign of a service",
		Long: `Cancel a campaign of a service: it ends at once, for good. What was evaluated stays in
the store.
` + exitHelp(exitOK, exitFailure, exitBadInput),
	}, (*api.Client).Cancel)
}

// actCommand makes a command that does one thing with a campaign of a service.
func (a *app) actCommand(cmd *cobra.Command, act func(*api.Client, context.Context, string) (api.Campaign, error)) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.needService(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		campaign, err := act(c, cmd.Context(), args[0])
		if err != nil {
			return remoteError(err)
		}
		if a.JSON {
			return a.printJSON(campaign)
		}
		_, err = fmt.Fprintf(a.out, "campaign %s is %s\n", campaign.ID, campaign.State)
		return err
	}
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

// resumeThere continues a campaign in a service and follows it.
func (a *app) resumeThere(ctx context.Context, c *api.Client, id string, budget evotune.Budget) error {
	ctx, stop := signal.NotifyContext(ctx, endSignals()...)
	defer stop()
	if id == "" {
		page, err := c.Campaigns(ctx, "", "", "")
		if err != nil {
			return remoteError(err)
		}
		if len(page.Items) == 0 {
			return badInputf("%s has no campaign: submit one with `tune run`", a.whose(c))
		}
		id = page.Items[0].ID
	}
	campaign, err := c.Campaign(ctx, id)
	if err != nil {
		return remoteError(err)
	}
	id = campaign.ID
	if !budget.IsZero() {
		if campaign, err = c.Change(ctx, id, api.Change{Budget: &budget}); err != nil {
			return remoteError(err)
		}
	}
	switch campaign.State {
	case api.Finished:
		return a.isFinished(id, campaign.Evaluated)
	case api.Paused, api.Failed:
		if _, err = c.Resume(ctx, id); err != nil {
			return remoteError(err)
		}
	case api.Cancelled:
		return badInputf("campaign %s was cancelled: submit a new one with `tune run`", id)
	}
	return a.follow(ctx, c, id, true)
}
