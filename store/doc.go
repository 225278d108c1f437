// Package store records campaigns: an append-only log of events in one
// bbolt file, and indexes that answer queries without reading the log.
//
// # Model
//
// The log is the truth. [Store.Append] adds events in one transaction and
// returns when they are durable. Events never change. Each has the version of the
// format and a checksum. Bulky payloads (the Detail, Config and Description fields) are kept apart
// from the events, compressed, so that queries do not read them.
//
// Indexes are written in the same transaction as the events they index: the
// campaigns, the candidates by id, the correct ones of each campaign by fitness, the
// results by content key, and the children of each candidate. They hold
// nothing that is not in the log. [Store.Check] derives them again from the log and
// compares; [Repair] rewrites them. A query reads the events that its answer consists
// of, so a damaged index gives [ErrCorrupt], not a wrong figure.
//
// Append refuses, with [ErrInvalid], events that would make the log inconsistent:
// a result of a candidate that was never asked for, a second result, a parent
// that does not exist, a gap in a campaign's proposals.
//
// [Store.Archive] moves finished campaigns to files of their own beside the store,
// and every query finds them there, with the same Seq. [Store.Backup] copies a
// store that is in use. Seq is unique over a store with its archives.
//
// Only one process may write. Any number may read when none writes
// ([Options.ReadOnly]); a process that cannot open the file gets [ErrLocked] within
// [Options.Timeout]. Within the process a Store is safe for concurrent use, and
// concurrent calls of Append share a transaction.
//
// # Caveats
//
// A store must not be on a file system without working locks or shared memory
// maps (some network file systems). The file does not shrink; Repair writes it
// compactly. A store and the folder of its archives belong together. Checksums detect damage, they
// do not repair it: a damaged event is lost, all others stay readable. The state "running" means
// that no end was logged: the campaign runs, or its process was killed. Event times are kept to the
// nanosecond, in UTC, without their monotonic part.
package store
