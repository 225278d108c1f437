package expr

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestValueForms(t *testing.T) {
	for _, c := range []struct {
		v            Value
		text, asJSON string
	}{
		{Int(-64), "-64", "-64"},
		{Int(math.MinInt64), "-9223372036854775808", "-9223372036854775808"},
		{Float(1), "1.0", "1.0"},
		{Float(-0.5), "-0.5", "-0.5"},
		{Float(1e21), "1e+21", "1e+21"},
		{Float(math.Copysign(0, -1)), "0.0", "0.0"},
		{Bool(true), "true", "true"},
		{Str("ijk"), "ijk", `"ijk"`},
		{Str("-O3"), `"-O3"`, `"-O3"`},
		{Str("sm_90a"), "sm_90a", `"sm_90a"`},
		{Str("true"), `"true"`, `"true"`},
		{Str("64"), `"64"`, `"64"`},
		{Str(""), `""`, `""`},
		{Str("a=b, \"c\"\n"), `"a=b, \"c\"\n"`, `"a=b, \"c\"\n"`},
		{Str("\xff"), `"\xff"`, `"\ufffd"`},
		{Str("NaN"), `"NaN"`, `"NaN"`},
	} {
		if got := c.v.String(); got != c.text {
			t.Errorf("%#v is %s, want %s", c.v.Any(), got, c.text)
		}
		if v, err := ParseValue(c.text); err != nil || v != c.v {
			t.Errorf("ParseValue(%s) = %#v, %v", c.text, v.Any(), err)
		}
		data, err := json.Marshal(c.v)
		if err != nil || string(data) != c.asJSON {
			t.Errorf("%s is %s in JSON (%v), want %s", c.text, data, err, c.asJSON)
		}
		var v Value
		if err := json.Unmarshal(data, &v); err != nil || v != c.v && c.text != `"\xff"` {
			t.Errorf("%s comes back from JSON as %#v, %v", c.text, v.Any(), err)
		}
	}
	if Int(1) == Float(1) || Bool(true) == Int(1) || Str("1") == Int(1) {
		t.Error("values of different kinds are equal")
	}
	var none Value
	if data, err := json.Marshal(none); err != nil || string(data) != "null" || none.Any() != nil {
		t.Errorf("the zero value is %s, %v", data, err)
	}
	if _, err := json.Marshal(Float(math.Inf(1))); err == nil {
		t.Error("infinity has a JSON form")
	}
	for _, bad := range []string{"", "1 2", "é", `"a`, "0x10", "1_000", "+-1", "1e999", "-"} {
		if v, err := ParseValue(bad); err == nil {
			t.Errorf("ParseValue(%q) = %v", bad, v)
		}
	}
	for _, bad := range []string{"[1]", "{}", "1e999", "12345678901234567890123"} {
		var v Value
		if err := json.Unmarshal([]byte(bad), &v); err == nil && v.Kind() != KindFloat {
			t.Errorf("JSON %s gives %v", bad, v)
		}
	}
	if _, err := ValueOf(uint64(math.MaxUint64)); err == nil || !strings.Contains(err.Error(), "beyond the largest") {
		t.Errorf("a large unsigned integer: %v", err)
	}
}

func TestValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(
			rapid.Map(rapid.Int64(), Int),
			rapid.Map(rapid.Float64(), Float),
			rapid.Map(rapid.Bool(), Bool),
			rapid.Map(rapid.String(), Str),
		).Draw(t, "value")
		got, err := ParseValue(v.String())
		if err != nil || got != v {
			t.Fatalf("ParseValue(%s) = %v, %v", v, got, err)
		}
	})
}
