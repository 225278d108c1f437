package api

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/kernels"
)

// A Verify asks for a candidate to be judged again, as `tune verify` does.
type Verify struct {
	// Tolerance is the allowed relative change of the time; nil means 0.05.
	Tolerance *float64 `json:"tolerance,omitempty" minimum:"0" maximum:"10" doc:"Relative change of the time that is allowed. Default: 0.05."`
	Contents  string   `json:"contents,omitempty" enum:"new,stored" doc:"What it is timed on. Default: new."`
	Flavour   string   `json:"flavour,omitempty" enum:"release,debug" doc:"debug tells why a candidate was refused, and times nothing. Default: release."`
}

// An Export asks for winners as a library, as `tune export` writes it.
type Export struct {
	Kernels     []string `json:"kernels" minItems:"1" maxItems:"100"`
	Devices     []string `json:"devices,omitempty" maxItems:"100" doc:"Parts of names, or beginnings of fingerprints. Default: all."`
	Shapes      []string `json:"shapes,omitempty" maxItems:"100" doc:"Only winners that were tuned for one of these. Default: all."`
	Lang        string   `json:"lang,omitempty" enum:"c,cuda" doc:"Default: c."`
	MinEvidence string   `json:"min_evidence,omitempty" enum:"parity,sanitized,finals" doc:"Default: finals."`
}

// Exported is the result of an export.
type Exported struct {
	Kernels []string `json:"kernels"`
	Files   []string `json:"files"`
	// NotFaster has a line for every winner that was not faster than its baseline in the finals.
	NotFaster []string `json:"not_faster,omitempty"`
}

// A Judgment is [evotune.Judgment], with what its JSON leaves out.
type Judgment struct {
	evotune.Judgment
	Disturbed     string   `json:"disturbed,omitempty"`
	Sanitized     string   `json:"sanitized"`
	SanitizedAlso []string `json:"sanitized_also,omitempty"`
}

// Judgment reads the result of an operation of the kind judge.
func (o Operation) Judgment() (evotune.Judgment, error) {
	var told struct {
		Judgment
		Finals *record.Finals `json:"finals"` // in the place of those of Judgment: genomes have no space here
	}
	if err := json.Unmarshal(o.Result, &told); err != nil {
		return evotune.Judgment{}, fmt.Errorf("the judgment of operation %s cannot be read: %w", o.ID, err)
	}
	j := told.Judgment.Judgment
	j.Disturbed, j.Sanitized, j.SanitizedAlso = told.Disturbed, told.Sanitized, told.SanitizedAlso
	if told.Finals == nil {
		return j, nil
	}
	finals := told.Finals.Finals
	finals.Entries = []evaluator.Finalist{}
	for _, e := range told.Finals.Entries {
		if file, ok := e.Genome[kernels.FileGene]; ok {
			var err error
			if e.Finalist.Genome, err = genome.Alone(kernels.FileGene + "=" + strconv.Quote(fmt.Sprint(file))); err != nil {
				return j, fmt.Errorf("the judgment of operation %s cannot be read: %w", o.ID, err)
			}
		}
		finals.Entries = append(finals.Entries, e.Finalist)
	}
	j.Finals = &finals
	return j, nil
}

// A Backup asks for a copy of the store on the server, as `tune backup` makes it.
type Backup struct {
	Path    string `json:"path" minLength:"1" maxLength:"1000" doc:"An absolute path on the server."`
	Replace bool   `json:"replace,omitempty" doc:"A store that is there may be replaced."`
}

// An Archive asks for finished campaigns to be moved out of the store, as `tune archive` does.
type Archive struct {
	Campaigns []string `json:"campaigns,omitempty" maxItems:"10000" doc:"IDs, or unique beginnings. Either these or older_than_seconds."`
	OlderThan *float64 `json:"older_than_seconds,omitempty" minimum:"0" maximum:"10000000000" doc:"Finished campaigns whose last event is so long ago."`
}
