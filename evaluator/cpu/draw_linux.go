//go:build !amd64

package cpu

func canDrawWide() bool { return false }

func (d distribution) wideSingles([]float32, secret) secret { panic("there are no vectors to draw in") }
