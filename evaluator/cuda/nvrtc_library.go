//go:build linux && (amd64 || arm64) && !nonvrtc

package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/ebitengine/purego"
)

// nvrtcLibrary is libnvrtc.so in this process. The signatures are those of
// nvrtc.h.
type nvrtcLibrary struct {
	hello serverHello

	version       func(major, minor *int32) int32
	errorString   func(code int32) string
	archCount     func(n *int32) int32
	archs         func(list *int32) int32
	createProgram func(prog *uintptr, src, name *byte, headers int32, texts, names **byte) int32
	compileIt     func(prog uintptr, n int32, options **byte) int32
	logSize       func(prog uintptr, n *uint64) int32
	log           func(prog uintptr, to *byte) int32
	cubinSize     func(prog uintptr, n *uint64) int32
	cubin         func(prog uintptr, to *byte) int32
	ptxSize       func(prog uintptr, n *uint64) int32
	ptx           func(prog uintptr, to *byte) int32
	destroy       func(prog *uintptr) int32
}

func loadNVRTC(path string) (*nvrtcLibrary, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	l := &nvrtcLibrary{}
	for name, to := range map[string]any{
		"nvrtcVersion": &l.version, "nvrtcGetErrorString": &l.errorString,
		"nvrtcGetNumSupportedArchs": &l.archCount, "nvrtcGetSupportedArchs": &l.archs,
		"nvrtcCreateProgram": &l.createProgram, "nvrtcCompileProgram": &l.compileIt,
		"nvrtcGetProgramLogSize": &l.logSize, "nvrtcGetProgramLog": &l.log,
		"nvrtcGetCUBINSize": &l.cubinSize, "nvrtcGetCUBIN": &l.cubin,
		"nvrtcGetPTXSize": &l.ptxSize, "nvrtcGetPTX": &l.ptx, "nvrtcDestroyProgram": &l.destroy,
	} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("it lacks %s, which CUDA 11.2 has: %w", name, err)
		}
		purego.RegisterFunc(to, symbol)
	}
	var major, minor, n int32
	if code := l.version(&major, &minor); code != 0 {
		return nil, errors.New(l.errorString(code))
	}
	l.hello.Major, l.hello.Minor = int(major), int(minor)
	if l.archCount(&n) == 0 && n > 0 {
		list := make([]int32, n)
		if l.archs(&list[0]) == 0 {
			for _, a := range list {
				l.hello.Architectures = append(l.hello.Architectures, int(a))
			}
		}
	}
	return l, nil
}

// cString gives the bytes of a string as C has them.
func cString(s string) *byte {
	b := append([]byte(s), 0)
	return &b[0]
}

func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

func (l *nvrtcLibrary) compile(r serverRequest) (a serverAnswer) {
	var names, texts, options []*byte
	for name, text := range r.Headers {
		names, texts = append(names, cString(name)), append(texts, cString(text))
	}
	for _, o := range r.Options {
		options = append(options, cString(o))
	}
	// The library gets arrays of pointers to Go's memory; they stay where they
	// are, since Go moves nothing that is on the heap.
	var pin runtime.Pinner
	defer pin.Unpin()
	for _, list := range [][]*byte{names, texts, options} {
		for _, p := range list {
			pin.Pin(p)
		}
	}
	var prog uintptr
	if code := l.createProgram(&prog, cString(r.Source), cString(sourceFile), int32(len(names)), first(texts), first(names)); code != 0 {
		a.Error = l.errorString(code)
		return a
	}
	defer l.destroy(&prog)
	if code := l.compileIt(prog, int32(len(options)), first(options)); code != 0 {
		a.Error = l.errorString(code)
	}
	var n uint64
	if l.logSize(prog, &n) == 0 && n > 1 {
		text := make([]byte, n)
		if l.log(prog, &text[0]) == 0 {
			a.Log = strings.TrimRight(string(text), "\x00")
		}
	}
	if a.Error != "" {
		return a
	}
	ptx, code := l.product(prog, l.ptxSize, l.ptx)
	a.PTX = string(bytes.TrimRight(ptx, "\x00"))
	what, missing := "PTX", a.PTX == ""
	if !r.PTX { // PTX may be missing then
		a.Cubin, code = l.product(prog, l.cubinSize, l.cubin)
		what, missing = "cubin", len(a.Cubin) == 0
	}
	if missing {
		a.Error = "no " + what + " came out: " + l.errorString(code)
	}
	return a
}

// product gives one of the things that a compilation made: nothing, and the library's code, where there is none.
func (l *nvrtcLibrary) product(prog uintptr, size func(uintptr, *uint64) int32, get func(uintptr, *byte) int32) ([]byte, int32) {
	var n uint64
	if code := size(prog, &n); code != 0 || n == 0 {
		return nil, code
	}
	made := make([]byte, n)
	if code := get(prog, &made[0]); code != 0 {
		return nil, code
	}
	return made, 0
}
