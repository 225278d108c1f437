package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

// The page is the dashboard: plain HTML, style and modules, which ask the API for all else.
//
//go:embed page
var pageFiles embed.FS

// assets is where its files are. Between it and a file's name is the hash of all files, so
// that they may be kept forever, and a page never mixes those of two versions.
const assets = "/assets/"

// A pageFile is a file of the page, as it is sent.
type pageFile struct {
	kind, tag   string
	plain, gzip []byte
}

// pageByPath prepares the files, by their paths in the address: once, as they are the same for
// every service.
var pageByPath = sync.OnceValue(func() map[string]pageFile {
	names, err := fs.Glob(pageFiles, "page/*")
	if err != nil {
		panic(err)
	}
	contents, sum := map[string][]byte{}, sha256.New()
	for _, name := range names {
		b, err := pageFiles.ReadFile(name)
		if err != nil {
			panic(err)
		}
		contents[path.Base(name)] = b
		fmt.Fprintf(sum, "%s %d\n%s", name, len(b), b)
	}
	home := assets + hex.EncodeToString(sum.Sum(nil)[:8]) + "/"
	kinds := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	out := map[string]pageFile{}
	for name, b := range contents {
		at := home + name
		if name == "index.html" {
			// All modules are fetched at once, and not one after the other that names it.
			preload := ""
			for _, n := range names {
				if n = path.Base(n); path.Ext(n) == ".js" {
					preload += fmt.Sprintf("<link rel=\"modulepreload\" href=%q>\n", assets+n)
				}
			}
			text := strings.Replace(string(b), "</head>", preload+"</head>", 1)
			at, b = "/", []byte(strings.ReplaceAll(text, assets, home))
		}
		f := pageFile{kind: kinds[path.Ext(name)], plain: b}
		hash := sha256.Sum256(b)
		f.tag = fmt.Sprintf("%q", hex.EncodeToString(hash[:8]))
		var z bytes.Buffer
		w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
		if err != nil {
			panic(err)
		}
		w.Write(b) //nolint:errcheck // a buffer takes everything
		w.Close()
		f.gzip = z.Bytes()
		out[at] = f
	}
	return out
})

// servePage answers for the page's files, which tell nothing of campaigns and need no token.
func servePage(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	// Nothing runs or is shown but what this service sent; nobody frames the page.
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	f, ok := pageByPath()[r.URL.Path]
	if !ok {
		h.Set("Cache-Control", "no-store")
		http.Error(w, "there is no such file: reload the page", http.StatusNotFound)
		return
	}
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.URL.Path == "/" {
		h.Set("Cache-Control", "no-cache")
	}
	h.Set("Content-Type", f.kind)
	h.Set("Vary", "Accept-Encoding")
	b, tag := f.plain, f.tag
	if accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		b, tag = f.gzip, strings.TrimSuffix(f.tag, `"`)+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	for _, known := range strings.Split(r.Header.Get("If-None-Match"), ",") {
		if known = strings.TrimPrefix(strings.TrimSpace(known), "W/"); known == tag || known == "*" {
			h.Del("Content-Encoding")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Length", fmt.Sprint(len(b)))
	if r.Method != http.MethodHead {
		w.Write(b) //nolint:errcheck // the client is gone
	}
}

// accepts says whether a client takes a coding.
func accepts(header, coding string) bool {
	for _, part := range strings.Split(header, ",") {
		name, weight, _ := strings.Cut(part, ";")
		if strings.TrimSpace(name) == coding {
			weight = strings.ReplaceAll(weight, " ", "")
			return !strings.HasPrefix(weight, "q=0") || strings.Trim(weight, "q=0.") != ""
		}
	}
	return false
}
