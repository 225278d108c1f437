package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/internal/server"
)

// olderCall is how versions before the service asked the process that held a store.
func olderCall[In, Out any](ctx context.Context, socket, name string, in In) (out Out, err error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	defer client.CloseIdleConnections()
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://store/v1/"+name, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("the campaign does not know the query %q: is it an older evotune? (%s)", name, resp.Status)
	}
	var ans struct {
		Value json.RawMessage `json:"value,omitempty"`
		Error string          `json:"error,omitempty"`
		Kind  string          `json:"kind,omitempty"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&ans); err != nil {
		return out, fmt.Errorf("the campaign's answer cannot be read: %w", err)
	}
	if ans.Error != "" {
		return out, errors.New(ans.Error)
	}
	return out, json.Unmarshal(ans.Value, &out)
}

// TestOlderClient: a `tune` of before the service is told in one line what to do.
func TestOlderClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	stop, err := server.Serve(held(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	socket := server.Socket(path)
	ask := map[string]func() error{
		"campaigns": func() error {
			_, err := olderCall[struct{}, []any](t.Context(), socket, "campaigns", struct{}{})
			return err
		},
		"campaign":  func() error { _, err := olderCall[string, any](t.Context(), socket, "campaign", "k"); return err },
		"candidate": func() error { _, err := olderCall[string, any](t.Context(), socket, "candidate", "aa"); return err },
		"lineage":   func() error { _, err := olderCall[string, any](t.Context(), socket, "lineage", "aa"); return err },
		"best": func() error {
			_, err := olderCall[map[string]any, any](t.Context(), socket, "best", map[string]any{"Limit": 1})
			return err
		},
		"candidates": func() error {
			_, err := olderCall[map[string]any, any](t.Context(), socket, "candidates", map[string]any{"from": 0})
			return err
		},
	}
	for name, f := range ask {
		err := f()
		if err == nil || !strings.HasPrefix(err.Error(), "the process that holds this store is evotune ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOlderService: and who asks a `tune run` of before the service is told as well.
func TestOlderService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	held(t, path)
	l, err := server.ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	defer func() { srv.Close(); <-done }()
	_, err = server.OpenReader(t.Context(), path)
	if err == nil || !strings.HasSuffix(err.Error(), "of another version of evotune, which does not know what is asked: use that version to ask it") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
