//go:build !linux

// Package peer tells who connects to a Unix socket.
package peer

import "net"

// Outsiders gives the listener as it is: only Linux tells who connected.
func Outsiders(l net.Listener) net.Listener { return l }
