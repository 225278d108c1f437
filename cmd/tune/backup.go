package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
beside FILE, checked, and takes its place in one step: there is a complete copy or
none, also after Ctrl-C or on a full disk. Archives already there are not copied again.

With --server, the store of that service is downloaded to FILE on this machine. The
token must be an admin's.

FILE must not exist. With --replace it may be a store, which the copy replaces.
` + exitHelp(exitOK, exitFailure, exitBadInput) + interruptedHelp,
		Example: `  tune backup /mnt/backup/evotune.db --replace
  tune backup evotune-copy.db --server https://tuner:8787 --token-file admin.token`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := a.backup(cmd.Context(), args[0], replace)
			if err != nil {
				return err
			}
			if a.JSON {
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
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

// backup copies the store to a file.
func (a *app) backup(ctx context.Context, file string, replace bool) (b store.Backup, err error) {
	c, err := a.client()
	if err != nil {
		return b, err
	}
	if c != nil {
		defer c.Close()
		err := a.interruptible(ctx, 1, func(ctx context.Context, _ func()) error {
			all, err := c.DownloadBackup(ctx)
			if err != nil {
				return remoteError(err)
			}
			defer all.Close()
			if b, err = store.ReadBackup(ctx, all, file, replace); errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("%w: %s sent a part of it alone: nothing is kept, try again", err, c.Address())
			}
			return err
		})
		return b, backupError(err, replace)
	}
	s, err := store.Open(a.Store, store.Options{ReadOnly: true, MustExist: true})
	if errors.Is(err, store.ErrLocked) {
		whole, absErr := filepath.Abs(file)
		if absErr != nil {
			return b, badInput(absErr)
		}
		return askHolder[store.Backup](ctx, a, err, func(c *api.Client) (api.Operation, error) {
			return c.Backup(ctx, api.Backup{Path: whole, Replace: replace})
		})
	}
	if err != nil {
		return b, storeError(err)
	}
	defer s.Close()
	err = a.interruptible(ctx, 1, func(ctx context.Context, _ func()) (err error) {
		b, err = s.Backup(ctx, file, replace)
		return err
	})
	return b, backupError(err, replace)
}

// backupError says what to do when the file exists.
func backupError(err error, replace bool) error {
	if errors.Is(err, store.ErrExists) {
		if !replace {
			err = fmt.Errorf("%w: --replace replaces a store", err)
		}
		return badInput(err)
	}
	return storeError(err)
}

// askHolder has the service that holds the store do something, over its socket, and returns the
// result. Any other process that holds the store must end first.
func askHolder[T any](ctx context.Context, a *app, held error, begin func(*api.Client) (api.Operation, error)) (out T, err error) {
	path := a.Store
	c, who, err := server.Dial(ctx, path)
	if err != nil {
		return out, held //nolint:nilerr // nobody answers: that it is held is all that is known
	}
	defer c.Close()
	if !who.Service {
		return out, fmt.Errorf("store %s: %w: one `tune run` writes it: end it (Ctrl-C there, `tune resume` goes on) and try again", path, store.ErrLocked)
	}
	op, err := begin(c)
	if err == nil {
		op, err = c.Wait(ctx, op.ID, nil)
	}
	switch {
	case err != nil:
		return out, storeError(fmt.Errorf("the service that holds %s: %w", path, err))
	case op.State != api.Finished:
		return out, fmt.Errorf("the service that holds %s: the %s is %s: %s", path, op.Kind, op.State, op.Error)
	}
	return out, json.Unmarshal(op.Result, &out)
}
