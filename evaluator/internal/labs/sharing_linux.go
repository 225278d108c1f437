package labs

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/evaluator/share"
)

// A Sharing keeps compiled code in a cache, and shares that of candidates with other machines
// where the context has a shelf. What comes from there does not get into the cache: it holds what
// this machine has compiled and nothing else.
type Sharing struct {
	Launcher *process.Launcher
	Cache    *cache.Cache
	// Find finds what decides the code besides the keys in the cache, which say nothing of
	// files. An error says why that is not known: then nothing is shared.
	Find func(ctx context.Context) (Installation, error)

	mu     sync.Mutex
	looked bool
	place  string // what Find has found, as a hash
}

// Get looks for compiled code. Own says that it is none of a candidate, or that
// what it was made from is not all known: then no other machine is asked.
func (s *Sharing) Get(ctx context.Context, kind, key string, own bool, meta any) (code []byte, ok bool) {
	shelf, anew := share.From(ctx)
	if anew && !own {
		return nil, false
	}
	if code, ok = s.Cache.Get(kind, key, meta); ok || own || shelf == nil {
		return code, ok
	}
	// With a share of the host, nothing is timed on the CPU meanwhile.
	ctx, leave, err := process.ShareHost(ctx)
	if err != nil {
		return nil, false
	}
	defer leave()
	place := s.where(ctx)
	if place == "" {
		return nil, false
	}
	key = sharedKey(key, place)
	entry := shelf.Get(ctx, kind, key)
	if entry == nil {
		return nil, false
	}
	code, err = share.Open(kind, key, entry, meta)
	return code, err == nil
}

// Put keeps compiled code, and shares it as Get says. A full disk costs the next run some time, and
// this one nothing.
func (s *Sharing) Put(ctx context.Context, kind, key string, own bool, code []byte, meta any) {
	_ = s.Cache.Put(kind, key, code, meta)
	shelf, _ := share.From(ctx)
	if own || shelf == nil {
		return
	}
	ctx, leave, err := process.ShareHost(ctx)
	if err != nil {
		return
	}
	defer leave()
	place := s.where(ctx)
	if place == "" {
		return
	}
	key = sharedKey(key, place)
	if entry, err := share.Seal(kind, key, code, meta); err == nil && len(entry) <= share.MaxEntry {
		shelf.Put(ctx, kind, key, entry)
	}
}

// Look finds out at once, where the context has a shelf, what takes seconds for the first time. It is
// for when a lab is opened: no candidate waits for it then.
func (s *Sharing) Look(ctx context.Context) {
	if shelf, _ := share.From(ctx); shelf == nil {
		return
	}
	ctx, leave, err := process.ShareHost(ctx)
	if err == nil {
		defer leave()
		s.where(ctx)
	}
}

// Own says whether sources or flags name files, libraries or tools that belong to no installation, or may
// do so in a macro.
func Own(files map[string]string, flags []string) bool {
	for _, text := range files {
		if plain.Outside(text) != "" {
			return true
		}
	}
	return len(process.FlagPaths(flags)) > 0 || slices.ContainsFunc(flags, func(f string) bool {
		return strings.HasPrefix(f, "-l") && !slices.Contains(commonFlags, f) || ownFlag.MatchString(f) && !slices.Contains(commonFlags, f) ||
			strings.HasPrefix(f, "-D") && strings.Contains(f, "=/")
	})
}

// commonFlags are those of every installation and of the candidate's own folder; ownFlag matches what
// may name others.
var (
	commonFlags = []string{"-lm", "-lpthread", "-lgomp", "-lineinfo", "-I."}
	ownFlag     = regexp.MustCompile(`^(@|-[BIL]|-(isystem|idirafter|iquote|imacros|isysroot|iprefix|specs|wrapper|fplugin|fprofile-use|fbranch-probabilities|fauto-profile|fuse-ld|ccbin|optf|Xlinker)|` +
		`--(specs|sysroot|gcc-toolchain|config|compiler-bindir|options-file|include-path|system-include|pre-include|library|library-path)|-Wl,(-T|-L|-l|-plugin|@)|-Wa,-I)`)
)

func sharedKey(key, place string) string { return cache.Key("shared 1", key, place) }

// where is the hash of all that decides the code besides the keys in the cache, "" when it is not
// known.
func (s *Sharing) where(ctx context.Context) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looked {
		return s.place
	}
	i, err := s.Find(ctx)
	if err == nil {
		s.place, err = i.hash(ctx, s.Launcher, s.Cache)
	}
	if ctx.Err() != nil {
		return "" // it says nothing of the installation
	}
	s.looked = true
	if err != nil {
		s.place = ""
		slog.Warn("compiled code is not shared with other machines", "reason", err)
	}
	return s.place
}

// An Installation is what decides what a compiler makes of a source, besides its flags.
type Installation struct {
	// Facts are texts, such as what -march=native stands for.
	Facts []string
	// Programs are files that run, or libraries that are loaded. What these load in turn
	// belongs to them.
	Programs []string
	// Files are others that are read, or folders of them. One that is not there is one fact of
	// the installation.
	Files []string
}

// With is what two installations have together.
func (i Installation) With(o Installation) Installation {
	return Installation{slices.Concat(i.Facts, o.Facts), slices.Concat(i.Programs, o.Programs), slices.Concat(i.Files, o.Files)}
}

// mostFiles bounds how many files and folders of an installation are looked at.
const mostFiles = 200_000

// hash reads all files of an installation, unless the cache says what it was when they were as they are.
func (i Installation) hash(ctx context.Context, l *process.Launcher, c *cache.Cache) (string, error) {
	found := map[string]fs.FileInfo{}
	for _, p := range slices.Concat(i.Programs, i.Files) {
		if err := collect(p, found); err != nil {
			return "", err
		}
	}
	for _, p := range i.Programs {
		libraries, err := loaded(ctx, l, p)
		if err != nil {
			return "", err
		}
		for _, p := range libraries {
			if err := collect(p, found); err != nil {
				return "", err
			}
		}
	}
	paths := slices.Sorted(maps.Keys(found))
	looks := append([]string{"installation 1"}, i.Facts...)
	for _, p := range paths {
		looks = append(looks, p, stamp(found[p]))
	}
	known := cache.Key(looks...)
	var sum string
	if _, ok := c.Get("installations", known, &sum); ok && sum != "" {
		return sum, nil
	}
	all := append([]string{fmt.Sprint(len(i.Facts))}, i.Facts...)
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		sum, err := contents(p, found[p])
		if err != nil {
			return "", fmt.Errorf("what belongs to the compiler cannot be read: %w", err)
		}
		all = append(all, p, sum)
	}
	sum = cache.Key(all...)
	_ = c.Put("installations", known, nil, sum)
	return sum, nil
}

// collect finds a file, or all below a folder, also behind links. What is not there is nothing.
func collect(path string, found map[string]fs.FileInfo) error {
	if found[path] != nil {
		return nil
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	} else if err != nil {
		return err
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	if len(found) >= mostFiles {
		return fmt.Errorf("the compiler's folders have more than %d files", mostFiles)
	}
	found[path] = info
	if !info.IsDir() {
		return nil
	}
	if real != path { // a link may lead to a folder above it: its files count where they are
		return collect(real, found)
	}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		err = errors.Join(err, collect(filepath.Join(path, e.Name()), found))
	}
	return err
}

// stamp tells whether a file has changed.
func stamp(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.IsDir() {
		return info.Mode().String() // all that is in a folder has a stamp of its own
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano(), s.Dev, s.Ino, s.Ctim)
}

// contents is the hash of a file, and for a folder where it is.
func contents(path string, info fs.FileInfo) (string, error) {
	switch {
	case info.IsDir():
		return filepath.EvalSymlinks(path)
	case !info.Mode().IsRegular():
		return info.Mode().String(), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// loaded lists the libraries that a program or a library loads when it starts. A script has
// none: what it starts is for whoever names it.
func loaded(ctx context.Context, l *process.Launcher, path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, nil //nolint:nilerr // it is a script, or not there
	}
	defer f.Close() //nolint:errcheck // it was only read
	if needs, err := f.ImportedLibraries(); err != nil || len(needs) == 0 {
		return nil, nil //nolint:nilerr // without a table of them it has none
	}
	text, err := l.Run(ctx, process.Command{Path: "ldd", Args: []string{path}, Dir: "/", Timeout: 30 * time.Second, Output: 64 << 10})
	if err != nil {
		return nil, fmt.Errorf("the libraries of %s are not known: ldd: %w", path, err)
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		for word := range strings.FieldsSeq(line) {
			if filepath.IsAbs(word) {
				list = append(list, word)
			}
		}
	}
	return list, nil
}

// Asked is what a compiler answers to a question such as -print-file-name=libm.so: the paths that it
// knows of.
func Asked(ctx context.Context, l *process.Launcher, compiler, question string, names ...string) (paths []string) {
	for _, n := range names {
		out, err := l.Run(ctx, process.Command{Path: compiler, Args: []string{question + n}, Dir: "/", Timeout: 30 * time.Second, Output: 4 << 10})
		if path := strings.TrimSpace(string(out)); err == nil && filepath.IsAbs(path) {
			paths = append(paths, filepath.Clean(path))
		}
	}
	return paths
}

// HostCompiler is the installation of a C compiler, or of the C++ compiler that belongs to it: its
// programs, the headers that it finds, and what it links.
func HostCompiler(ctx context.Context, l *process.Launcher, path, language string) (i Installation, err error) {
	cc := map[string]string{"c": "cc1", "c++": "cc1plus"}[language]
	i.Programs = append([]string{path}, Asked(ctx, l, path, "-print-prog-name=", cc, "collect2", "lto1", "lto-wrapper", "as", "ld")...)
	for _, p := range []string{"as", "ld"} { // which some compilers name without a folder
		if found := Find(p); found != "" {
			i.Programs = append(i.Programs, found)
		}
	}
	i.Programs = append(i.Programs, Asked(ctx, l, path, "-print-file-name=", "liblto_plugin.so")...)
	i.Files = Asked(ctx, l, path, "-print-file-name=", linked...)
	folders := process.IncludeFolders(ctx, l, path, language)
	if len(folders) == 0 {
		return i, fmt.Errorf("%s does not tell where its headers are", path)
	}
	i.Files = slices.Concat(i.Files, folders, Asked(ctx, l, path, "-print-resource-dir", "")) // clang's own
	return i, nil
}

// linked are the files that a linker may put into a shared object, or take names and versions of
// functions from.
var linked = []string{
	"specs", "crti.o", "crtn.o", "crtbeginS.o", "crtendS.o", "libgcc.a", "libgcc_s.so", "libgcc_s.so.1", "libc.so", "libc.so.6", "libc_nonshared.a",
	"libm.so", "libm.so.6", "libmvec.so", "libmvec.so.1", "libpthread.so", "libpthread.so.0", "libpthread.a", "libgomp.spec", "libgomp.so",
	"libsanitizer.spec", "libasan.so", "libasan_preinit.o", "libubsan.so", "libtsan.so", "libtsan_preinit.o",
}
