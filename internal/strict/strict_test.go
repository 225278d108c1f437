package strict

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

type base struct {
	Name string `json:"name"`
}

type sample struct {
	base2
	Kernel string `json:"kernel"`
	Budget *struct{ Seconds float64 }
	List   []base            `json:"list"`
	Map    map[string]base   `json:"map"`
	Any    any               `json:"any"`
	Raw    json.RawMessage   `json:"raw"`
	When   time.Time         `json:"when"`
	Not    string            `json:"-"`
	Free   map[string]string `json:"free"`
}

type base2 struct {
	Embedded int `json:"embedded"`
}

func TestUnmarshal(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "",
		`{"kernel": "a", "list": [{"name": "x"}, {"name": "y"}], "map": {"A": {}, "a": {"name": "z"}}, "embedded": 3, "Budget": {"Seconds": 1}}`: "",
		`{"free": {"Kernel": "", "kernel": ""}, "any": {"Name": 1, "name": 2}, "unknown": {"a": 1}, "Not": 1}`:                                   "",
		`{"raw": {"X": 1, "x": 2}, "when": "2026-11-28T00:00:00Z", "Budget": null, "list": null}`:                                                "",

		`{"kernel": "a", "kernel": "b"}`:             `key "kernel" is there twice`,
		`{"kernel": "a", "\u006bernel": "b"}`:        `key "kernel" is there twice`,
		`{"Kernel": "a"}`:                            `key "Kernel" is spelled "kernel"`,
		`{"\u212aernel": "a"}`:                       `is spelled "kernel"`, // a Kelvin sign, which folds to k
		`{"EMBEDDED": 1}`:                            `key "EMBEDDED" is spelled "embedded"`,
		`{"budget": {}}`:                             `key "budget" is spelled "Budget"`,
		`{"Budget": {"seconds": 1}}`:                 `key "seconds" is spelled "Seconds" in Budget`,
		`{"list": [{"name": "x"}, {"NAME": "y"}]}`:   `key "NAME" is spelled "name" in list[1]`,
		`{"map": {"A": {"name": "z", "name": "z"}}}`: `key "name" is there twice in map.A`,
		`{"any": [{"b": {"c": 1, "c": 2}}]}`:         `key "c" is there twice in any[0].b`,
		`{"raw": {"X": 1, "X": 2}}`:                  `key "X" is there twice in raw`,
		`{"unknown": {"a": 1, "a": 2}}`:              `key "a" is there twice in unknown`,
		`{"kernel": "a", "kernel": "b"`:              `twice`,
		`{"kernel": `:                                "unexpected end",
		`{"kernel": 3}`:                              "cannot unmarshal",
		``:                                           "unexpected end",
		strings.Repeat("[", 20_000):                  "exceeded max depth",
		`[{"a": 1, "a": 1}]`:                         `key "a" is there twice in [0]`,
	} {
		err := Unmarshal([]byte(text), new(sample))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}
