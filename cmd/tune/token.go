package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens of a service",
		Long: `Make, list and revoke the tokens of the service that holds --store. The commands use
the socket beside the store, so only the user who runs the service can do this.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return cmd
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var scope string
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and print it, once",
		Long: `Make a token and print it. The service keeps only its hash: it cannot be shown again.
NAME says who or what uses it; the audit log names callers by it. The scopes
are viewer, runner, author, admin and worker: "tune serve --help" says what each may do.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: `  tune token create ci --scope runner --expires 720h`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := api.NewToken{Name: args[0], Scope: api.Scope(scope)}
			if expires < 0 {
				return badInputf("--expires %s is in the past: give a duration from now, such as 720h", expires)
			}
			if expires > 0 {
				in.Expires = time.Now().Add(expires).UTC()
			}
			var made api.Token
			if err := a.askService(cmd.Context(), http.MethodPost, "/v1/tokens", in, &made); err != nil {
				return err
			}
			// The one answer that has a token in it.
			if a.JSON {
				return writeJSON(a.out.To, made)
			}
			_, err := fmt.Fprintln(a.out.To, made.Secret)
			return err
		},
	}
	cmd.Flags().StringVar(&scope, "scope", string(api.Viewer), "what it may do: viewer, runner, author, admin or worker")
	cmd.Flags().DurationVar(&expires, "expires", 0, "how long it is valid, such as 720h (default: until it is revoked)")
	return cmd
}

func (a *app) tokenListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Long:  "List the tokens, without their secrets.\n" + exitHelp(exitOK, exitFailure, exitBadInput),
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var page api.Page[api.Token]
			if err := a.askService(cmd.Context(), http.MethodGet, "/v1/tokens", nil, &page); err != nil {
				return err
			}
			if a.JSON {
				return a.printJSON(page.Items)
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tSCOPE\tVALID\tLAST USED")
			when := func(t time.Time, none string) string {
				if t.IsZero() {
					return none
				}
				return t.UTC().Format(time.RFC3339)
			}
			for _, t := range page.Items {
				valid := "until revoked"
				switch {
				case !t.Revoked.IsZero():
					valid = "revoked " + when(t.Revoked, "")
				case !t.Expires.IsZero() && time.Now().After(t.Expires):
					valid = "expired " + when(t.Expires, "")
				case !t.Expires.IsZero():
					valid = "until " + when(t.Expires, "")
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.ID, words.OneLine(t.Name), t.Scope, valid, when(t.Used, "never"))
			}
			return w.Flush()
		},
	}
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Make a token invalid, at once and for good",
		Long:  "Make a token invalid, at once and for good. Requests that run with it end.\n" + exitHelp(exitOK, exitFailure, exitBadInput),
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var gone api.Token
			if err := a.askService(cmd.Context(), http.MethodDelete, "/v1/tokens/"+url.PathEscape(args[0]), nil, &gone); err != nil {
				return err
			}
			if a.JSON {
				return a.printJSON(gone)
			}
			fmt.Fprintf(a.out, "revoked %s (%s)\n", gone.ID, gone.Name)
			return nil
		},
	}
}

// askService asks the service that holds --store, over its socket.
func (a *app) askService(ctx context.Context, method, path string, in, out any) error {
	socket := server.Socket(a.Store)
	if err := server.Trusted(a.Store); err != nil {
		return err
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	var b bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&b).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://service"+path, &b)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return badInputf("no service holds %s: start `tune serve --store %s`", a.Store, a.Store)
	}
	if err != nil {
		return fmt.Errorf("ask the service on %s: %w", socket, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		var p api.Problem
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || p.Detail == "" {
			return fmt.Errorf("what answers on %s is not a service (%s): is it a `tune run`, or another version of evotune?", socket, resp.Status)
		}
		p.Detail = details(&p)
		if resp.StatusCode < 500 {
			return badInput(&p)
		}
		return &p
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
