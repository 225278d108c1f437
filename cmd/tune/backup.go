package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

func (a *app) backupCommand() *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy a store with its archives",
		Long: `Copy a store to FILE, and its archives to FILE.archive beside it. The copy is written
beside FILE, checked, and takes its place in one step: there is a whole copy or none,
also after Ctrl-C or on a full disk. Archives that are there are not copied again.

FILE must not exist. With --replace it may be a store, which the copy replaces.
` + exitHelp(exitOK, exitFailure, exitBadInput) + interruptedHelp,
		Example: "  tune backup /mnt/backup/evotune.db --replace",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := a.backup(cmd.Context(), args[0], replace)
			if err != nil {
				return err
			}
			if a.v.GetBool("json") {
				return a.printJSON(b)
			}
			archives := ""
			if n := len(b.Archives); n > 0 {
				archives = fmt.Sprintf(" with %s", words.Plural(n, "archive"))
			}
			fmt.Fprintf(a.out, "%s%s: %s, %d bytes: no fault found\n", b.Path, archives, words.Plural(b.Report.Campaigns, "campaign"), b.Report.Bytes)
			return nil
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "replace FILE if it is a store")
	return cmd
}

// backup copies the store to a file.
func (a *app) backup(ctx context.Context, file string, replace bool) (b store.Backup, err error) {
	s, err := store.Open(a.v.GetString("store"), store.Options{ReadOnly: true, MustExist: true})
	if errors.Is(err, store.ErrLocked) {
		whole, absErr := filepath.Abs(file)
		if absErr != nil {
			return b, badInput(absErr)
		}
		return b, a.heldError(ctx, err, "/v1/backup", api.Backup{Path: whole, Replace: replace})
	}
	if err != nil {
		return b, storeError(err)
	}
	defer s.Close()
	err = a.interruptible(ctx, 1, func(ctx context.Context, _ func()) (err error) {
		b, err = s.Backup(ctx, file, replace)
		return err
	})
	if errors.Is(err, store.ErrExists) {
		if !replace {
			err = fmt.Errorf("%w: --replace replaces a store", err)
		}
		return b, badInput(err)
	}
	return b, storeError(err)
}

// heldError says what can be done where the store is held: a service does it itself when it is
// asked to, over its socket without a token; the body is what it is to be sent. Any other
// process has to end.
func (a *app) heldError(ctx context.Context, held error, route string, body any) error {
	path := a.v.GetString("store")
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	c, who, err := server.Dial(ctx, path)
	if err != nil {
		return held //nolint:nilerr // nobody answers, and that it is held is what is known
	}
	defer c.Close()
	if !who.Service {
		return fmt.Errorf("store %s: %w: one `tune run` writes it: end it (Ctrl-C there, `tune resume` goes on) and try again", path, store.ErrLocked)
	}
	return fmt.Errorf("store %s: %w: a service holds it and does this itself: curl --unix-socket %s -H 'Content-Type: application/json' -d %s http://service%s",
		path, store.ErrLocked, shellWord(server.Socket(path)), shellWord(string(text)), route)
}
