// Package api is the HTTP API of a service, as `tune serve` runs it: the bodies of requests
// and answers, and a [Client] that sends them.
//
// Everything is under /v1 and needs a token, except /healthz, /readyz and /openapi.json,
// which reveal nothing about campaigns. The OpenAPI document names the scope that each
// operation needs. Errors are problems ([Problem], RFC 9457). Lists come in pages with
// cursors, which are opaque to a client. Cursors count events, so a list neither repeats nor
// misses items while campaigns write.
//
// Stored objects have the form of package store, so a client answers every query
// exactly like a command that has opened the store.
package api

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// A State is the state of a campaign in a service.
type State string

// The states. Queued to Finals are in progress; Paused waits to be resumed; the
// others have ended.
const (
	Queued    State = "queued"
	Preparing State = "preparing" // its device, reference and baseline are being prepared
	Searching State = "searching"
	Finals    State = "finals" // disturbed measurements are repeated, then the best few are measured again
	Paused    State = "paused"
	Finished  State = "finished"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Ended says whether nothing more happens to a campaign without a request.
func (s State) Ended() bool { return s == Finished || s == Failed || s == Cancelled }

// Running says whether a campaign holds a device.
func (s State) Running() bool { return s == Preparing || s == Searching || s == Finals }

// A Submission asks for a campaign: a job, without the fields that a campaign fills in, and what belongs to the service.
// The tags of the fields declare options, as those of a job do.
type Submission struct {
	evotune.Job
	Device   string `json:"device,omitempty" flag:"device" doc:"in a service: the UUID of a GPU of it, fleet for the devices of its workers, or fleet:NAME for those with this NAME in theirs (default: any of the service or, where it has none, of workers)"`
	Workers  int    `json:"workers,omitempty" flag:"fleet-workers" minimum:"0" maximum:"1000" doc:"in a service: use at most <N> workers of its fleet at once (0: four)"`
	Priority int    `json:"priority,omitempty" flag:"priority" minimum:"-100" maximum:"100" doc:"in a service: larger priorities run first"`
}

// A Campaign is a campaign of a service.
type Campaign struct {
	ID    string `json:"id"`
	State State  `json:"state" enum:"queued,preparing,searching,finals,paused,finished,failed,cancelled"`
	// Reason says why the campaign is paused, failed or has ended.
	Reason   string   `json:"reason,omitempty"`
	Kernel   string   `json:"kernel"`
	Backend  string   `json:"backend"`
	Shapes   []string `json:"shapes"`
	Priority int      `json:"priority"`
	// Position in the queue, from 1; 0 when it is not waiting.
	Position int            `json:"position,omitempty"`
	Device   string         `json:"device,omitempty" doc:"The name of the device that it runs or ran on."`
	Budget   evotune.Budget `json:"budget"`
	Uploaded bool           `json:"uploaded,omitempty" doc:"Its kernel was uploaded: it keeps that content, also when it is resumed."`
	// Submitted is zero for campaigns that `tune run` ran on the store, not the service.
	Submitted time.Time `json:"submitted,omitzero"`
	By        string    `json:"by,omitempty" doc:"The name of the token that submitted it."`
	Evaluated int       `json:"evaluated"`
	// Speedup over the baseline of the best so far, and which measurement it is from:
	// "finals", "again" or "search". Significant says that finals found it to be more than
	// noise.
	Speedup     float64 `json:"speedup,omitempty"`
	Measured    string  `json:"measured,omitempty"`
	Significant bool    `json:"significant,omitempty"`
	Unproven    string  `json:"unproven,omitempty" doc:"Why the winner of its finals is not proven to be right."`
	Best        string  `json:"best,omitempty" doc:"The candidate."`
	// Progress is the current progress; it is only set while the campaign runs.
	Progress *Progress `json:"progress,omitempty"`
	// Log is what the store holds of the campaign; nil before it begins.
	Log *store.Campaign `json:"log,omitempty"`
}

// Progress is what a running campaign is doing now.
type Progress struct {
	Campaign  string         `json:"campaign"`
	State     State          `json:"state"`
	Evaluated int            `json:"evaluated"`
	Verdicts  map[string]int `json:"verdicts"`
	PerMinute float64        `json:"per_minute"`
	ElapsedNS time.Duration  `json:"elapsed_ns"`
	// Preparing is the longest step that is under way while the campaign is prepared.
	Preparing *Preparation `json:"preparing,omitempty"`
	// RemainingNS estimates the time until the budget ends the search; negative if
	// unknown.
	RemainingNS time.Duration    `json:"remaining_ns"`
	Cost        float64          `json:"cost,omitempty"`
	Workers     []Worker         `json:"workers"`
	Usage       *evaluator.Usage `json:"usage,omitempty"`
}

// A Preparation is a step of the preparation of a campaign or an operation.
type Preparation struct {
	Step    string        `json:"step" doc:"What is being done: \"reference at shape 1024, on the CPU\"."`
	SinceNS time.Duration `json:"since_ns"`
}

// A Worker is what one of a campaign's workers is doing.
type Worker struct {
	Candidate string          `json:"candidate,omitempty" doc:"Empty when it is idle."`
	Stage     evaluator.Stage `json:"stage,omitempty"`
	SinceNS   time.Duration   `json:"since_ns"`
}

// A Change of a campaign: nil fields change nothing.
type Change struct {
	Budget   *evotune.Budget `json:"budget,omitempty" doc:"Replaces the budget as a whole. A larger one goes on with a finished campaign."`
	Priority *int            `json:"priority,omitempty" minimum:"-100" maximum:"100"`
}

// A Page is a part of a list. Next, when not empty, is the cursor of the next part.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// Candidates is a page of candidates by events, as [store.Store.Candidates] returns it.
type Candidates struct {
	Items []store.Candidate `json:"items"`
	Next  uint64            `json:"next,omitempty"`
}

// A Lineage is a candidate with its ancestors, each once. The first is the requested
// one; Parents has the positions of each one's parents.
type Lineage struct {
	Candidates []store.Candidate `json:"candidates"`
	Parents    [][]int           `json:"parents"`
}

// A Source is what a genome renders to, in one text.
type Source struct {
	Candidate string `json:"candidate"`
	Language  string `json:"language"`
	Source    string `json:"source"`
	// Against names what Other is: the baseline, or a candidate.
	Against string `json:"against,omitempty"`
	Other   string `json:"other,omitempty"`
}

// A Summary is the data for charts of a campaign: few points, however many
// candidates there are.
type Summary struct {
	// Best has a point for each new best: after how many evaluations, at which wall time of
	// the campaign, how many times as fast as the baseline, and which candidate.
	Best []BestPoint `json:"best"`
	// Funnel counts candidates by the stage that rejected them and why; Stage "" is
	// correct.
	Funnel []FunnelRow `json:"funnel"`
	// Stages sums up the time that candidates spent in each stage, in nanoseconds.
	Stages map[evaluator.Stage]time.Duration `json:"stages"`
	// Evaluated, ElapsedNS and DeviceNS are those of a BestPoint, for the whole
	// campaign.
	Evaluated int           `json:"evaluated"`
	ElapsedNS time.Duration `json:"elapsed_ns"`
	DeviceNS  time.Duration `json:"device_ns"`
	// Phases are the parts of ElapsedNS.
	Phases record.Phases `json:"phases"`
	// Finals are the newest; nil without any.
	Finals *FinalsSummary `json:"finals,omitempty"`
}

// A FinalsSummary is what the finals of a campaign found, without samples.
type FinalsSummary struct {
	Winner  string      `json:"winner,omitempty" doc:"The candidate; empty when no finalist survived."`
	Entries []FinalsRow `json:"entries"`
	// VsBaseline and VsRunnerUp test the winner; RunnerUp is the second best. A recorded table
	// has no samples, so its tests find nothing.
	VsBaseline *evaluator.Comparison `json:"vs_baseline,omitempty"`
	VsRunnerUp *evaluator.Comparison `json:"vs_runner_up,omitempty"`
	RunnerUp   string                `json:"runner_up,omitempty"`
	Early      string                `json:"early,omitempty" doc:"What they do not show, in one line, where they ended early because the time was over."`
	// Evaluations and ElapsedNS are those of a BestPoint, at the end of the finals.
	Evaluations int           `json:"evaluations"`
	ElapsedNS   time.Duration `json:"elapsed_ns"`
}

// A FinalsRow is one candidate of the finals.
type FinalsRow struct {
	Candidate  string            `json:"candidate"`
	Verdict    evaluator.Verdict `json:"verdict"`
	Reason     string            `json:"reason,omitempty"`
	MedianNS   float64           `json:"median_ns,omitempty"`
	BaselineNS float64           `json:"baseline_ns,omitempty"`
	Speedup    float64           `json:"speedup,omitempty" doc:"0 for a candidate without a time that counts."`
	// Lo and Hi bound the 95% interval of the speedup; 0 with too few samples for one.
	Lo float64 `json:"lo,omitempty"`
	Hi float64 `json:"hi,omitempty"`
}

// A BestPoint is a new best of a campaign.
type BestPoint struct {
	Evaluations int           `json:"evaluations"`
	ElapsedNS   time.Duration `json:"elapsed_ns"`
	// DeviceNS is how long the campaign had held devices: the wall time of each of its GPUs,
	// or of the CPU; for a recorded table, the recorded time.
	DeviceNS  time.Duration `json:"device_ns"`
	Speedup   float64       `json:"speedup"`
	Candidate string        `json:"candidate"`
}

// A FunnelRow counts the candidates that ended in the same way.
type FunnelRow struct {
	Verdict evaluator.Verdict `json:"verdict"`
	Stage   evaluator.Stage   `json:"stage,omitempty"`
	Reason  string            `json:"reason,omitempty" doc:"As far as reasons are alike: numbers are left out."`
	Count   int               `json:"count"`
}

// Points has one candidate per row, in columns, for charts of all candidates that have
// results. If a candidate's row is repeated in a later answer, it was measured again.
// The figures are those of the search, not of the finals.
type Points struct {
	Candidates []string  `json:"candidates"`
	Index      []int     `json:"index"`
	Verdict    []int     `json:"verdict" doc:"Positions in verdicts."`
	Verdicts   []string  `json:"verdicts"`
	Speedup    []float64 `json:"speedup" doc:"0 unless the verdict is correct; six digits of it."`
	// Genes are in the order of the space; each gene's values are indexes into its Values.
	Genes []GenePoints `json:"genes"`
	// Next is the event from which to ask for later results.
	Next uint64 `json:"next"`
}

// GenePoints is one gene of all candidates.
type GenePoints struct {
	Name   string `json:"name"`
	Values []any  `json:"values"`
	At     []int  `json:"at" doc:"Positions in values; -1 where the candidate has no such gene."`
}

// Compared compares two campaigns over equal device time.
type Compared struct {
	A Curve `json:"a"`
	B Curve `json:"b"`
	// EqualNS is the device time that both have used; AtA and AtB are the best that each has
	// found by then, 0 for none.
	EqualNS time.Duration `json:"equal_ns"`
	AtA     float64       `json:"at_a"`
	AtB     float64       `json:"at_b"`
	// NotComparable says why the speedups of the two cannot be compared; empty when they can.
	NotComparable []string `json:"not_comparable"`
}

// A Curve is the best so far of a campaign.
type Curve struct {
	Campaign   string        `json:"campaign"`
	Kernel     string        `json:"kernel"`
	Shapes     []string      `json:"shapes"`
	Device     string        `json:"device"`
	DeviceName string        `json:"device_name"`
	Strategy   string        `json:"strategy"`
	DeviceNS   time.Duration `json:"device_ns"`
	Best       []BestPoint   `json:"best"`
}

// A Roofline compares times with a device's peaks.
type Roofline struct {
	Campaign   string `json:"campaign"`
	Device     string `json:"device"`
	DeviceName string `json:"device_name"`
	// Peaks are the stored ceilings, as in [evaluator.Device].
	Peaks  map[string]float64 `json:"peaks"`
	Points []RooflinePoint    `json:"points"`
}

// A RooflinePoint is the best candidate or the baseline at a shape.
type RooflinePoint struct {
	Shape string `json:"shape"`
	// Candidate is empty for the baseline.
	Candidate string  `json:"candidate,omitempty"`
	Measured  string  `json:"measured"`
	MedianNS  float64 `json:"median_ns"`
	// FloorNS is the shortest time that a launch on this device can take.
	FloorNS    float64 `json:"floor_ns,omitempty"`
	Operations float64 `json:"operations"`
	Bytes      float64 `json:"bytes"`
	// Intensity is operations per byte; the rates are per second.
	Intensity      float64 `json:"intensity"`
	OperationsRate float64 `json:"operations_rate"`
	BytesRate      float64 `json:"bytes_rate"`
}

// A LeaderboardRow is the best of a kernel for its shapes on a device. Proven is false if
// nothing is proven: it is printed as "~".
type LeaderboardRow struct {
	Kernel      string   `json:"kernel"`
	Backend     string   `json:"backend"`
	Device      string   `json:"device"`
	DeviceName  string   `json:"device_name"`
	Shapes      []string `json:"shapes"`
	Candidate   string   `json:"candidate"`
	Campaign    string   `json:"campaign"`
	Speedup     float64  `json:"speedup"`
	MedianNS    float64  `json:"median_ns"`
	BaselineNS  float64  `json:"baseline_ns"`
	Measured    string   `json:"measured"`
	Proven      bool     `json:"proven"`
	Significant bool     `json:"significant"`
	Unproven    string   `json:"unproven,omitempty" doc:"Why a winner of finals is not proven to be right."`
}

// A Kernel is a kernel that campaigns can be submitted for.
type Kernel struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Hash        string `json:"hash"`
	Builtin     bool   `json:"builtin"`
	// Backends are those that it has implementations for. The rest is only set for a single
	// kernel, not in lists.
	Backends        []string     `json:"backends,omitempty"`
	Implementations []string     `json:"implementations,omitempty"`
	Dims            []string     `json:"dims,omitempty" doc:"The names of the dimensions, in the order of the definition."`
	Shapes          []Shape      `json:"shapes,omitempty"`
	Genes           []KernelGene `json:"genes,omitempty"`
	// SpaceSize counts the genomes of all implementations at the first shape to tune for.
	SpaceSize float64 `json:"space_size,omitempty"`
}

// A Shape is a size of a problem by its name.
type Shape struct {
	Name string           `json:"name"`
	Uses []string         `json:"uses"`
	Dims map[string]int64 `json:"dims"`
	// Backends are those that have the shape: types, costs and shapes may differ between
	// backends.
	Backends []string `json:"backends"`
}

// A KernelGene is a parameter of an implementation.
type KernelGene struct {
	Implementation string `json:"implementation"`
	Backend        string `json:"backend"`
	Name           string `json:"name"`
	Values         []any  `json:"values"`
	// Ordinal says that neighboring values are similar; When, if not empty, is the
	// condition under which the gene exists.
	Ordinal bool   `json:"ordinal,omitempty"`
	When    string `json:"when,omitempty"`
}

// An Upload is a kernel's folder: its files by slash-separated paths, including
// kernel.toml.
type Upload struct {
	Name  string            `json:"name" doc:"The kernel's name, which is the folder's: a-z, 0-9, - and _, at most 63."`
	Files map[string]string `json:"files" minProperties:"1" maxProperties:"64" doc:"Texts by slashed paths."`
}

// A Device is one that campaigns are placed on.
type Device struct {
	evaluator.Device
	Backend  string   `json:"backend"`
	Campaign []string `json:"campaigns" doc:"Those that hold it."`
	// Operations are those that hold the device: one that measures holds it
	// exclusively.
	Operations []string `json:"operations"`
	// Measuring and Reserved are shares of the time of this service, for GPUs in use.
	Usage *evaluator.Usage `json:"usage,omitempty"`
}

// A Judge asks for a judgment of one finished kernel, like `tune judge`.
type Judge struct {
	Kernel string `json:"kernel"`
	// Name is the file's name, which says its language: .c or .cu.
	Name    string   `json:"name" pattern:"^[A-Za-z0-9_.-]{1,100}\\.(c|cu)$" patternDescription:"a file name that ends in .c or .cu, without a folder"`
	Source  string   `json:"source"`
	Flags   []string `json:"flags,omitempty"`
	Threads int      `json:"threads,omitempty" minimum:"0"`
	Shapes  []string `json:"shapes,omitempty"`
	Seed    *int64   `json:"seed,omitempty" doc:"Determines the inputs; 0 is a seed, too. Default: 1."`
	Strict  bool     `json:"strict,omitempty" doc:"Refuse a kernel that proves nothing at a shape that it is judged at."`
	// Against is the source of another kernel to time it against; empty means the baseline.
	Against     string `json:"against,omitempty"`
	AgainstName string `json:"against_name,omitempty" pattern:"^[A-Za-z0-9_.-]{1,100}\\.(c|cu)$" patternDescription:"a file name that ends in .c or .cu, without a folder"`
}

// An Operation is a slow action.
type Operation struct {
	ID    string `json:"id"`
	Kind  string `json:"kind" enum:"verify,judge,export,report,importance,backup,archive"`
	State State  `json:"state" enum:"queued,preparing,finished,failed,cancelled" doc:"preparing means that it runs."`
	Error string `json:"error,omitempty"`
	// Preparing is the longest step that is under way while what measures is prepared.
	Preparing *Preparation `json:"preparing,omitempty"`
	// Result is the outcome, as the corresponding command prints it with --json.
	Result json.RawMessage `json:"result,omitempty"`
	// Download is the path of the files that it made, if any.
	Download string    `json:"download,omitempty"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended,omitzero"`
	By       string    `json:"by,omitempty"`
}

// A Scope is what a token may do. Each of Scopes includes those before it.
type Scope string

// The scopes. An author may upload kernels and have files judged, which runs their code. A worker
// may only take part in the fleet; of the other scopes, only an admin may do so.
const (
	Viewer      Scope = "viewer"
	Runner      Scope = "runner"
	Author      Scope = "author"
	Admin       Scope = "admin"
	WorkerScope Scope = "worker"
)

// Scopes lists the scopes that form an order: each includes those before it.
func Scopes() []Scope { return []Scope{Viewer, Runner, Author, Admin} }

// Includes says whether a token of a scope may do what needs another scope. An unknown
// scope includes nothing, and nothing includes it.
func (s Scope) Includes(other Scope) bool {
	if other == WorkerScope {
		return s == WorkerScope || s == Admin
	}
	need := slices.Index(Scopes(), other)
	return need >= 0 && slices.Index(Scopes(), s) >= need
}

// A Token describes a token. Its secret is only returned once, when the token is made.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Scope   Scope     `json:"scope" enum:"viewer,runner,author,admin,worker"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	Used    time.Time `json:"used,omitzero" doc:"About when it was last used."`
	Secret  string    `json:"secret,omitempty"`
}

// A NewToken asks for a token.
type NewToken struct {
	Name    string    `json:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9 ._@:-]{0,99}$" patternDescription:"letters, digits, spaces and ._@:-, at most 100, with a letter or digit first" doc:"Who or what uses it: what it does is noted under this name."`
	Scope   Scope     `json:"scope" enum:"viewer,runner,author,admin,worker"`
	Expires time.Time `json:"expires,omitzero" doc:"Default: never."`
}

// An AuditEntry records one request that changed something, or was refused.
type AuditEntry struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Token   string    `json:"token" doc:"The token's name, or socket."`
	From    string    `json:"from"`
	Request string    `json:"request" doc:"The request's id, as in the logs."`
	Action  string    `json:"action" doc:"Method and path."`
	Status  int       `json:"status"`
}

// Who says who a token identifies.
type Who struct {
	Name    string `json:"name"`
	Scope   Scope  `json:"scope"`
	Version string `json:"version" doc:"That of the service."`
	Store   string `json:"store"`
	// Service is false if one `tune run` answers for the store that it holds: it answers
	// queries, but takes no campaigns.
	Service bool `json:"service"`
}

// A Problem is an error in HTTP's form (RFC 9457).
type Problem struct {
	// Type is stable: scripts may test for it. See the list of Problem types.
	Type   string   `json:"type"`
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail"`
	Errors []Detail `json:"errors,omitempty"`
	// Request is the request's id, as in the service's logs.
	Request string `json:"request,omitempty"`
}

// A Detail is one thing that was wrong: in a field of the body ("body.budget.evaluations"), a
// parameter ("query.limit"), or a file of a kernel ("kernel.toml:12").
type Detail struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

func (p *Problem) Error() string { return p.Detail }

// The types of problems.
const (
	BadRequest   = "urn:evotune:bad-request"   // 400, 422: the request is wrong; Errors says where
	Unauthorized = "urn:evotune:unauthorized"  // 401: no token, or one that is not (or no longer) valid
	Forbidden    = "urn:evotune:forbidden"     // 403: the token's scope is not enough
	NotFound     = "urn:evotune:not-found"     // 404
	WrongMethod  = "urn:evotune:wrong-method"  // 405: the header Allow has the methods that the address takes
	Ambiguous    = "urn:evotune:ambiguous"     // 409: several begin with this
	NoCandidate  = "urn:evotune:no-candidate"  // 404: nothing stored answers the question
	Unproven     = "urn:evotune:unproven"      // 409: an export lacks evidence
	Conflict     = "urn:evotune:conflict"      // 409: not in this state
	Changed      = "urn:evotune:changed"       // 412: If-Match names an older version
	Reused       = "urn:evotune:key-reused"    // 422: an Idempotency-Key was used with another body
	TooLarge     = "urn:evotune:too-large"     // 413
	TooMany      = "urn:evotune:too-many"      // 429: see Retry-After
	Damaged      = "urn:evotune:damaged"       // 500: the store is damaged
	Internal     = "urn:evotune:internal"      // 500: evotune failed; the logs have the request
	Unavailable  = "urn:evotune:unavailable"   // 503: see Retry-After
	NotAService  = "urn:evotune:not-a-service" // 409: one campaign holds this store
)

// A Fleet is what the service knows about its workers on other machines.
type Fleet struct {
	Hosts []evotune.FleetHost `json:"hosts"`
	// Waiting says, by campaign, why no worker evaluates it.
	Waiting map[string]string `json:"waiting,omitempty"`
}

// A NewWorker asks for a credential for a worker.
type NewWorker struct {
	Name   string `json:"name" pattern:"^[A-Za-z0-9_-]{1,64}$" patternDescription:"letters, digits, - and _, at most 64" doc:"One for each worker: a new credential takes the place of an older one of the same name. The name of a worker that runs is refused to others."`
	Secret string `json:"secret,omitempty" maxLength:"64" doc:"That of the older credential: with it the worker of that name gets another one at once."`
}

// A Drain makes a worker take no more work, or take work again.
type Drain struct {
	Reason string `json:"reason,omitempty" maxLength:"200" doc:"Why it takes no candidates; empty lets it go on."`
}
