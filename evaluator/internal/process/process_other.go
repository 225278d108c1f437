//go:build !linux

package process

// AdoptOrphans does nothing where the system has no such notion.
func AdoptOrphans() {}
