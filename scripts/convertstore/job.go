package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// upgrade gives a recorded job the form of today.
//
// Campaigns recorded a map of strings, "extra", for what opens the same evaluator
// again, before it became the fields "backend", "definitions", "table",
// "implementations", "limits", "hash" and "sweep". What has no such map is returned as
// it is.
func upgrade(config json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(config, []byte(`"extra"`)) {
		return config, nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(config, &fields); err != nil {
		return nil, err
	}
	if fields["extra"] == nil { // it is a name somewhere
		return config, nil
	}
	var extra map[string]string
	if err := json.Unmarshal(fields["extra"], &extra); err != nil {
		return nil, fmt.Errorf("extra: %w", err)
	}
	delete(fields, "extra")
	put := func(key string, value any) {
		fields[key], _ = json.Marshal(value) // strings always encode
	}
	for key, value := range extra {
		switch {
		case value == "":
		case key == "backend", key == "hash":
			put(key, value)
		case key == "kernels":
			put("definitions", filepath.SplitList(value))
		case key == "kernel" && extra["backend"] == "replay":
			put("table", value)
		case key == "implementations":
			put(key, strings.Split(value, ","))
		case key == "limits":
			if !json.Valid([]byte(value)) {
				return nil, fmt.Errorf("limits: %q is not JSON", value)
			}
			fields[key] = json.RawMessage(value)
		case key == "sweep":
			put(key, true)
		}
	}
	return json.Marshal(fields)
}
