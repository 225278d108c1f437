package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
)

// parts are what results are comparable by. A device's fingerprint covers its model, driver, power
// limit, clocks and partition.
func parts(d evaluator.Description) (list []string) {
	list = append(list, "backend "+d.Backend, fmt.Sprintf("device %s (%s)", d.Device.Name, d.Device.Fingerprint), strings.TrimSpace("compiler "+d.Compiler), "harness "+d.Harness)
	if d.Baseline != "" {
		list = append(list, "baseline "+d.Baseline)
	}
	for _, t := range d.Tools {
		if t.Missing == "" {
			list = append(list, strings.TrimSpace(t.Name+" "+t.Version))
		} else {
			list = append(list, "no "+t.Name)
		}
	}
	for i, part := range list {
		list[i] = seen(part) // as the coordinator takes it from a worker
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Class names what a campaign's results have in common: equal classes give comparable results.
func Class(d evaluator.Description) string {
	sum := sha256.Sum256([]byte(strings.Join(parts(d), "\n")))
	return hex.EncodeToString(sum[:8])
}

// difference says in one line how a description differs from that of a campaign.
func difference(here, campaign evaluator.Description) string {
	a, b := parts(here), parts(campaign)
	only := func(of, not []string) string {
		var list []string
		for _, p := range of {
			if !slices.Contains(not, p) {
				list = append(list, p)
			}
		}
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("here %s, there %s", only(a, b), only(b, a))
}

// Hash hashes a file.
func Hash(path string) (f File, err error) {
	in, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer in.Close()
	sum := sha256.New()
	if f.Size, err = io.Copy(sum, in); err != nil {
		return f, fmt.Errorf("read %s: %w", path, err)
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return f, nil
}

// piece reads a piece of a file.
func piece(path string, offset int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Refusal(fmt.Sprintf("a file of the campaign is gone from the coordinator: %v", err))
	}
	defer f.Close()
	b := make([]byte, pieceSize)
	n, err := f.ReadAt(b, offset)
	if err != nil && err != io.EOF { //nolint:errorlint // ReadAt gives it bare
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b[:n], nil
}
