package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

// TestDocument: docs/openapi.json is what the service serves.
func TestDocument(t *testing.T) {
	g := protect(t, Limits{})
	_, _, text := g.send("GET", "/openapi.json", "", "")
	var served bytes.Buffer
	if err := json.Indent(&served, []byte(text), "", " "); err != nil {
		t.Fatal(err)
	}
	served.WriteString("\n")
	path := "../../docs/openapi.json"
	if *update {
		if err := os.WriteFile(path, served.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(kept), bytes.TrimSpace(served.Bytes())) {
		t.Errorf("%s is not what the service serves: run `go test ./internal/server -run TestDocument -update` and read the difference", path)
	}
	var doc struct {
		OpenAPI string `json:"openapi"`
	}
	if err := json.Unmarshal(kept, &doc); err != nil || doc.OpenAPI[:4] != "3.1." {
		t.Errorf("OpenAPI %q %v", doc.OpenAPI, err)
	}
}
