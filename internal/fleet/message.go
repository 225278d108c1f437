package fleet

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/evotune/evotune/evaluator"
)

// protocol is the version of the messages. Workers of another are refused.
const protocol = 1

// A Host is what a worker says of itself when it enrols. One worker has one device.
type Host struct {
	Name    string           `json:"name"` // see CheckWorker
	Backend string           `json:"backend"`
	Device  evaluator.Device `json:"device"`
	// Tools are those that `tune doctor` finds there.
	Tools []evaluator.Tool `json:"tools,omitempty"`
	// Limits are what the device tells of itself for constraints, as a job has them.
	Limits map[string]int64 `json:"limits,omitempty"`
	// Slots is how many candidates it takes at once.
	Slots int `json:"slots"`
	// Timeout is how long it allows for one run of a candidate; zero means 30 s.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Version is the worker's evotune; it must be the coordinator's.
	Version string `json:"version"`
}

// enrolment is the body of Enrol. The session is drawn by each process of a worker: a new
// one means that the old process has ended.
type enrolment struct {
	Protocol int       `json:"protocol"`
	Session  string    `json:"session"`
	Time     time.Time `json:"time"`
	Host     Host      `json:"host"`
}

// enrolled is the answer.
type enrolled struct {
	Lease time.Duration `json:"lease_ns"`
}

// A doing is a candidate that a worker evaluates.
type doing struct {
	Task  string `json:"task"`
	Stage string `json:"stage,omitempty"`
}

// beat is the body of Beat. What a worker does not name it does not do (any more).
type beat struct {
	Session string `json:"session"`
	// Place is the campaign whose evaluator is open, and Class its class.
	Place string `json:"place,omitempty"`
	Class string `json:"class,omitempty"`
	// Description is sent when the coordinator asks for it.
	Description *evaluator.Description `json:"description,omitempty"`
	Doing       []doing                `json:"doing,omitempty"`
	Kept        []string               `json:"kept,omitempty"` // tasks whose results it keeps
	// Trouble says in one line why it can take no candidates now; empty when it can.
	Trouble string `json:"trouble,omitempty"`
	// Leaving says that it takes no more candidates and ends when it has none.
	Leaving bool `json:"leaving,omitempty"`
	underway
}

// An underway is the step of preparation that a worker is at while it opens an evaluator, and for how
// long it has been; empty when there is none.
type underway struct {
	Preparing   string        `json:"preparing,omitempty"`
	PreparingNS time.Duration `json:"preparing_ns,omitempty"`
}

// orders are the answer to Beat.
type orders struct {
	Enrol    bool     `json:"enrol,omitempty"` // the coordinator does not know this session
	Describe bool     `json:"describe,omitempty"`
	Cancel   []string `json:"cancel,omitempty"` // nobody waits for these any more
	Send     []string `json:"send,omitempty"`   // these results have not arrived
	Forget   []string `json:"forget,omitempty"` // these are durable, or no longer wanted
}

// take is the body of Take. Number grows with every new one: one that is repeated has the
// answer that it had.
type take struct {
	Session string        `json:"session"`
	Number  uint64        `json:"number"`
	Place   string        `json:"place,omitempty"` // and Class, as in beat
	Class   string        `json:"class,omitempty"`
	Free    int           `json:"free"`
	Wait    time.Duration `json:"wait_ns"`
}

// given is the answer: a place to go to, or tasks there, or nothing.
type given struct {
	Enrol bool   `json:"enrol,omitempty"`
	Place *Place `json:"place,omitempty"`
	Leave bool   `json:"leave,omitempty"` // close the evaluator and ask again
	Tasks []task `json:"tasks,omitempty"`
}

// A Place is a campaign to evaluate candidates of.
type Place struct {
	Campaign string `json:"campaign"`
	// Job is what the worker opens an evaluator of; this package does not look into it.
	Job   json.RawMessage `json:"job"`
	Files []File          `json:"files,omitempty"`
}

// A File is one that an evaluator needs, and which workers fetch by its hash.
type File struct {
	Path   string `json:"path"` // slashed, relative to a folder of the place
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// The kinds of tasks.
const (
	kindCandidate = ""
	kindAgain     = "again"  // the same on another host, to compare the hosts
	kindCheck     = "check"  // the reference candidate, to see whether a host drifts
	kindFinals    = "finals" // all finalists, on one device
)

// A task is one thing to evaluate, as it travels.
type task struct {
	ID        string   `json:"id"`
	Index     int      `json:"index,omitempty"` // of the proposal
	Kind      string   `json:"kind,omitempty"`
	Genomes   []string `json:"genomes"`
	Incumbent float64  `json:"incumbent,omitempty"`
	// By and Last are how long it is until the finals' [evaluator.End]; both are 0 where there
	// is none.
	By   time.Duration `json:"by_ns,omitempty"`
	Last time.Duration `json:"last_ns,omitempty"`
}

// done is the body of Done: one of Result, Finals and Error is set.
type done struct {
	Session string            `json:"session"`
	Task    string            `json:"task"`
	Result  *evaluator.Result `json:"result,omitempty"`
	Finals  *evaluator.Finals `json:"finals,omitempty"`
	// Error says what of evotune or the machine failed; of a candidate that is a Result.
	Error string `json:"error,omitempty"`
}

// ready is the body of Ready.
type ready struct {
	Session     string                 `json:"session"`
	Campaign    string                 `json:"campaign"`
	Description *evaluator.Description `json:"description,omitempty"`
	Error       string                 `json:"error,omitempty"`
}

// fetch asks for a piece of a file; the answer is the piece, empty at the end. With a key it asks for an
// entry of compiled code; the answer is the entry, empty when there is none.
type fetch struct {
	SHA256 string `json:"sha256,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	name
}

// A name is that of an entry of compiled code. It is the first line of the body of Keep, and the
// entry is the rest.
type name struct {
	Kind string `json:"kind,omitempty"`
	Key  string `json:"key,omitempty"`
}

// pieceSize is the most that one answer to Fetch has.
const pieceSize = 512 << 10

// clean replaces, in all texts of a message, each character that is not to be seen, but for new lines and
// tabs: a worker's texts go to logs, to pages and to terminals, which act on such characters.
func clean(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(seen(v.String()))
		}
	case reflect.Pointer:
		clean(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			clean(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			clean(v.Index(i))
		}
	case reflect.Map:
		if !v.CanInterface() {
			return
		}
		for it := v.MapRange(); it.Next(); {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.Set(it.Key())
			value.Set(it.Value())
			clean(key)
			clean(value)
			v.SetMapIndex(it.Key(), reflect.Value{})
			v.SetMapIndex(key, value)
		}
	default: // numbers; there are no interfaces
	}
}

func seen(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r != utf8.RuneError && unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
