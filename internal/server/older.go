package server

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"

	"github.com/evotune/evotune/internal/build"
)

// older answers the `tune` of versions before the service, which asked over the socket beside
// a store: it sent POST /v1/QUERY without a Content-Type, and read the answer's field "error".
func older(next http.Handler) http.Handler {
	queries := []string{"/v1/campaigns", "/v1/campaign", "/v1/candidate", "/v1/best", "/v1/candidates", "/v1/lineage"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		private, _ := r.Context().Value(privateKey{}).(bool)
		if !private || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "" || !slices.Contains(queries, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		text := "the process that holds this store is " + build.Program() + ", which answers no older one: use the same version to ask it"
		if err := json.NewEncoder(w).Encode(map[string]string{"error": text}); err != nil {
			slog.Debug("a query was not answered", "error", err)
		}
	})
}
