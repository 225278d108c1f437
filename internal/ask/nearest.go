package ask

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
)

// ErrDevice is the error of a device that nobody knows, or that is not named
// clearly.
var ErrDevice = errors.New("no device")

// flagDistance is what a dimension adds that is 0 in exactly one of two shapes.
// Such a dimension is a flag (a causal mask, say), and the other side of it
// another problem: farther than any change of one size, which is at most 63.
const flagDistance = 64

// Distance says how far two shapes of one problem are from each other, in
// doublings: the sum over their dimensions of |log2((1+a)/(1+b))|, and 64 more for
// every dimension that is 0 in exactly one of them. It is symmetric and keeps the
// triangle inequality. Shapes that do not have the same dimensions, and negative
// sizes, are no two shapes of one problem: the distance is +Inf.
func Distance(a, b map[string]int64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(a)) { // a sum in one order
		x := a[name]
		y, ok := b[name]
		if !ok || x < 0 || y < 0 {
			return math.Inf(1)
		}
		if (x == 0) != (y == 0) {
			sum += flagDistance
		}
		sum += math.Abs(math.Log2(1+float64(x)) - math.Log2(1+float64(y)))
	}
	return sum
}

// Nearest gives which of shapes is nearest to a wanted one by Distance, and how far it
// is; +Inf when none is known to be near. The wanted one is known by a name, by its
// dimensions, or by both; a shape of its name is the same one. dims gives the dimensions
// of a shape by its name, or nil.
func Nearest(name string, wanted map[string]int64, shapes []string, dims func(shape string) map[string]int64) (nearest string, distance float64) {
	if name != "" && slices.Contains(shapes, name) {
		return name, 0
	}
	distance = math.Inf(1)
	if len(wanted) == 0 {
		return "", distance
	}
	for _, shape := range shapes {
		if d := Distance(wanted, dims(shape)); d < distance {
			nearest, distance = shape, d
		}
	}
	return nearest, distance
}

// A DeviceRule says why a result of one device serves for another, the nearest
// first.
type DeviceRule int

// The rules. A later one serves only where no earlier one does.
const (
	AnyDevice      DeviceRule = iota // no device was asked for
	SameDevice                       // the same fingerprint
	SameUUID                         // the same GPU, with another driver, say
	SameName                         // the same name
	SameCapability                   // GPU: the same compute capability; CPU: the same instruction sets
	SameFamily                       // GPU: the same major capability; CPU: the same architecture
	OtherDevice                      // none: its results say nothing
)

// String is the rule in one word, as it is printed for scripts.
func (r DeviceRule) String() string {
	return [...]string{"any", "device", "uuid", "name", "capability", "family", "other"}[r]
}

// CompareDevices gives the first rule by which results of have serve for wanted.
// Of wanted as much need be set as is known of it; what is empty matches nothing.
func CompareDevices(wanted, have evaluator.Device) DeviceRule {
	same := func(a, b string) bool { return a != "" && a == b }
	switch {
	case wanted.Kind != have.Kind:
		return OtherDevice
	case same(wanted.Fingerprint, have.Fingerprint):
		return SameDevice
	case shareUUID(wanted, have):
		return SameUUID
	case same(wanted.Name, have.Name):
		return SameName
	case same(wanted.Facts["capability"], have.Facts["capability"]),
		same(wanted.Facts["architecture"], have.Facts["architecture"]) && same(instructionSets(wanted), instructionSets(have)):
		return SameCapability
	case same(majorCapability(wanted), majorCapability(have)), same(wanted.Facts["architecture"], have.Facts["architecture"]):
		return SameFamily
	}
	return OtherDevice
}

func shareUUID(a, b evaluator.Device) bool {
	for u := range strings.FieldsSeq(a.Facts["uuid"]) {
		if slices.Contains(strings.Fields(b.Facts["uuid"]), u) {
			return true
		}
	}
	return false
}

func majorCapability(d evaluator.Device) string {
	major, _, _ := strings.Cut(d.Facts["capability"], ".")
	return major
}

// vectorFlags begin the names of those instruction sets that decide what a
// compiler makes of a kernel: vectors, matrices and the bit instructions that -march
// turns on with them. Names are those of /proc/cpuinfo.
var vectorFlags = []string{
	"sse4_", "avx", "fma", "f16c", "bmi", "amx_", // amd64
	"asimd", "sve", "sme", "fphp", "bf16", "i8mm", // arm64
}

// instructionSets lists the flags of a CPU that matter, in order; empty when
// they are not known.
func instructionSets(d evaluator.Device) string {
	var sets []string
	for f := range strings.FieldsSeq(d.Facts["flags"]) {
		if slices.ContainsFunc(vectorFlags, func(prefix string) bool { return strings.HasPrefix(f, prefix) }) {
			sets = append(sets, f)
		}
	}
	slices.Sort(sets)
	return strings.Join(slices.Compact(sets), " ")
}

// text says a rule to people, of the device asked for and the one that serves.
func (r DeviceRule) text(wanted, have evaluator.Device) string {
	switch r {
	case AnyDevice:
		return "any device (" + have.Name + ")"
	case SameDevice:
		return "same device"
	case SameUUID:
		return "same GPU by its UUID"
	case SameName:
		return "same name " + have.Name
	case SameCapability:
		if c := have.Facts["capability"]; c != "" {
			return "same compute capability " + c
		}
		return "same instruction sets (" + have.Facts["architecture"] + ")"
	case SameFamily:
		if c := have.Facts["capability"]; c != "" {
			return fmt.Sprintf("same family: compute capability %s for %s", c, wanted.Facts["capability"])
		}
		return "same family: architecture " + have.Facts["architecture"]
	}
	return "another device"
}

// FindDevice finds the device that a person means among those that are known: by
// its fingerprint, by its UUID, by its name, and else by a part of the name or the
// beginning of the fingerprint. Letter case of names does not matter. Of a name that several
// fingerprints have the device has no fingerprint: all of them serve as SameName.
// The error wraps ErrDevice: nothing is meant, or more than one name.
func FindDevice(known []evaluator.Device, text string) (evaluator.Device, error) {
	for _, d := range known {
		if d.Fingerprint == text {
			return d, nil
		}
	}
	for _, d := range known {
		if slices.Contains(strings.Fields(d.Facts["uuid"]), text) {
			d.Fingerprint, d.Facts = "", maps.Clone(d.Facts)
			d.Facts["uuid"] = text
			return d, nil
		}
	}
	meant := func(f func(evaluator.Device) bool) []evaluator.Device {
		return slices.DeleteFunc(slices.Clone(known), func(d evaluator.Device) bool { return !f(d) })
	}
	found := meant(func(d evaluator.Device) bool { return strings.EqualFold(d.Name, text) })
	if len(found) == 0 && text != "" {
		found = meant(func(d evaluator.Device) bool {
			return strings.Contains(strings.ToLower(d.Name), strings.ToLower(text)) || strings.HasPrefix(d.Fingerprint, text)
		})
	}
	if len(found) == 0 {
		return evaluator.Device{}, fmt.Errorf("%w is called %q: there are %s", ErrDevice, text, listDevices(known))
	}
	one := found[0]
	for _, d := range found[1:] {
		if d.Name != one.Name || d.Kind != one.Kind {
			return evaluator.Device{}, fmt.Errorf("%w is meant by %q alone, it may be any of %s: write the fingerprint", ErrDevice, text, listDevices(found))
		}
		if d.Fingerprint != one.Fingerprint {
			one.Fingerprint = ""
		}
	}
	if one.Fingerprint == "" {
		one.Facts = maps.Clone(one.Facts)
		delete(one.Facts, "uuid")
	}
	return one, nil
}

// listDevices names devices, each once.
func listDevices(devices []evaluator.Device) string {
	var out []string
	for _, d := range devices {
		out = append(out, fmt.Sprintf("%s (%s)", d.Name, d.Fingerprint))
	}
	slices.Sort(out)
	return cmp.Or(strings.Join(slices.Compact(out), ", "), "none")
}
