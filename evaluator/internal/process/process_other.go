//go:build !linux

package process
