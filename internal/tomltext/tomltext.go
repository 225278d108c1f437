// Package tomltext writes values in TOML on one line, as people write them: with double quotes where it can.
package tomltext

import (
	"encoding/json"
	"strings"
	"unicode"
)

// List writes texts as an array of strings of TOML.
func List(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = Quote(t)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Table writes keys with values in TOML as an inline table.
func Table(keys [][2]string) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k[0] + " = " + k[1]
	}
	return "{ " + strings.Join(all, ", ") + " }"
}

// Quote writes a text as a string of TOML, on one line.
func Quote(s string) string {
	switch printable := !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }); {
	case printable && !strings.ContainsAny(s, `"\`):
		return `"` + s + `"`
	case printable && !strings.Contains(s, "'"):
		return "'" + s + "'"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}
