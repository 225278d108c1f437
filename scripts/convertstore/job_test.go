package main

import (
	"encoding/json"
	"testing"
)

func TestUpgrade(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"today's", `{"kernel":"softmax","backend":"cpu"}`, `{"kernel":"softmax","backend":"cpu"}`},
		{
			"a search", `{"id":"k-1","kernel":"k","window":8,"extra":{"backend":"cpu","hash":"ab","kernel":"k","kernels":"/a:/b","implementations":"x,y","limits":"{\"device_cores\":2}"}}`,
			`{"backend":"cpu","definitions":["/a","/b"],"hash":"ab","id":"k-1","implementations":["x","y"],"kernel":"k","limits":{"device_cores":2},"window":8}`,
		},
		{"a sweep", `{"kernel":"k","extra":{"sweep":"sample"}}`, `{"kernel":"k","sweep":true}`},
		{"a table", `{"kernel":"k","extra":{"backend":"replay","kernel":"/a/t.json"}}`, `{"backend":"replay","kernel":"k","table":"/a/t.json"}`},
		{"a shape of that name", `{"kernel":"extra","shapes":["extra"]}`, `{"kernel":"extra","shapes":["extra"]}`},
		{"nothing in it", `{"kernel":"k","extra":null}`, `{"kernel":"k"}`},
	} {
		got, err := upgrade(json.RawMessage(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, got, err, c.want)
		}
	}
	for _, bad := range []string{`{"extra":3}`, `{"extra"`, `{"extra":{"limits":"{"}}`} {
		if got, err := upgrade(json.RawMessage(bad)); err == nil {
			t.Errorf("%s was read as %s", bad, got)
		}
	}
}
