// Convertstore makes a store of today's format from one that an evotune from before the first release wrote
// (formats 1 to 6), with its archives:
//
//	go run ./scripts/convertstore OLD.db NEW.db
//
// Events keep their numbers, times and payloads; jobs get today's form. The old store is only read. A folder
// NEW.db.archive has archives with the campaigns that were in archives before. Damage ends the conversion:
// repair the store first, with the evotune that wrote it.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/evotune/evotune/store"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "convertstore: usage: convertstore OLD.db NEW.db")
		os.Exit(2)
	}
	rep, err := convert(context.Background(), os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "convertstore:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: format %d, %d events, %d campaigns, %d archives\n", rep.Path, rep.Format, rep.Events, rep.Campaigns, len(rep.Archives))
}

// batch is how many events one transaction has.
const batch = 500

// convert returns the report of a check of the new store. If it fails, nothing is left of that.
func convert(ctx context.Context, from, to string) (rep store.Report, err error) {
	if _, err := os.Lstat(to); err == nil {
		return rep, fmt.Errorf("%s exists: name a new file", to)
	}
	old, err := openLog(from)
	if err != nil {
		return rep, err
	}
	defer old.close()
	s, err := store.Open(to, store.Options{})
	if err != nil {
		return rep, err
	}
	defer func() {
		if err = errors.Join(err, s.Close()); err != nil {
			err = errors.Join(err, os.Remove(to), os.RemoveAll(to+".archive"))
		}
	}()
	if err := appendAll(s, old); err != nil {
		return rep, err
	}
	for _, name := range slices.Sorted(maps.Keys(old.archived)) {
		if _, err := s.Archive(ctx, old.archived[name]...); err != nil {
			return rep, err
		}
	}
	if rep, err = s.Check(); err != nil {
		return rep, err
	}
	return rep, rep.Err()
}

// appendAll appends the events of a log, each with the number that it had.
func appendAll(s *store.Store, old *log) error {
	var events []store.Event
	next := uint64(1)
	flush := func() error {
		if len(events) == 0 {
			return nil
		}
		_, err := s.Append(events...)
		events = events[:0]
		return err
	}
	for e, err := range old.events() {
		if err != nil {
			return err
		}
		if e.Seq != next {
			return fmt.Errorf("%s: event %d follows event %d: repair the store with the evotune that wrote it", filepath.Base(old.path), e.Seq, next-1)
		}
		next++
		if e.Started != nil {
			if e.Started.Config, err = upgrade(e.Started.Config); err != nil {
				return fmt.Errorf("campaign %s: its configuration cannot be read: %w", e.Campaign, err)
			}
		}
		if events = append(events, e); len(events) == batch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
