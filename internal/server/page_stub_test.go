package server

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/evotune/evotune/api"
)

func (s *site) stub() {
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	h := s.service.handler
	s.service.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/devices":
			answer(w, 200, []api.Device{{Backend: "cpu"}})
		case strings.HasSuffix(r.URL.Path, "/importance"):
			answer(w, 200, map[string]any{"evaluations": 200, "correct": 180, "r2": 0.9, "reliable": true, "genes": []any{
				map[string]any{"gene": "block_x", "share": map[string]any{"value": 0.5, "error": 0.03}, "clear": true},
				map[string]any{"gene": "tile_x", "share": map[string]any{"value": 0.2, "error": 0.03}, "clear": true},
				map[string]any{"gene": "order", "share": map[string]any{"value": 0.01, "error": 0.03}, "clear": false},
			}})
		default:
			h.ServeHTTP(w, r)
		}
	})
}
