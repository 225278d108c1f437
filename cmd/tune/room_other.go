//go:build !unix

package main

// noRoom cannot tell here.
func noRoom(string) string { return "" }
