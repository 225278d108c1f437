//go:build unix && !linux

package server

import "net"

// outside lets all in: only Linux tells who connected.
func outside(l net.Listener) net.Listener { return l }
