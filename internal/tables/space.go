package tables

import (
	"encoding/json"
	"fmt"

	"github.com/evotune/evotune/genome"
)

// What several forms say of a space in the same way.

// values reads the values of a parameter.
func (r *reader) values(name string) ([]genome.Value, error) {
	at := r.here()
	var values []genome.Value
	seen := map[genome.Value]bool{}
	err := r.list("the values of "+name, func(int) error {
		t, at, err := r.token()
		if err != nil {
			return err
		}
		v, err := genome.ValueOf(t)
		if err != nil {
			return fail(at, "parameter %s: %v", name, err)
		}
		if seen[v] {
			return fail(at, "parameter %s has the value %s twice", name, v)
		}
		seen[v] = true
		values = append(values, v)
		return nil
	})
	if err == nil && len(values) == 0 {
		err = fail(at, "parameter %s has no values", name)
	}
	return values, err
}

func (r *reader) rules() ([]rule, error) {
	var rules []rule
	err := r.list("constraints", func(i int) error {
		at := r.here()
		source, err := r.str(fmt.Sprintf("constraint %d", i+1))
		if err != nil {
			return err
		}
		rule, err := newRule(source)
		if err != nil {
			return fail(at, "constraint %q: %v", source, err)
		}
		rules = append(rules, rule)
		return nil
	})
	return rules, err
}

// unrecorded reads what is thought of configurations that the constraints allow
// and that are not recorded: "absent" from the space, or "infeasible".
func (r *reader) unrecorded() (absent bool, err error) {
	at := r.here()
	s, err := r.str("unrecorded")
	if err == nil && s != "absent" && s != "infeasible" {
		err = fail(at, `unrecorded is %s: expected "absent" or "infeasible"`, show(json.Token(s)))
	}
	return s == "absent", err
}

// withUnrecorded says that what the constraints allow and the file does not
// record is part of the space, in the forms where it is not.
func (t *Table) withUnrecorded(o object) (object, error) {
	if t.listed {
		return o, nil
	}
	whole, err := t.whole()
	if err == nil && !whole {
		o = o.with("unrecorded", "infeasible")
	}
	return o, err
}
