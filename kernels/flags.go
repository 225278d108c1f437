package kernels

import (
	"fmt"
	"regexp"
)

// UploadedFile is the name of a file that marks a kernel's folder as one that was uploaded
// to a service. No upload can contain it, and it goes wherever the folder is copied.
const UploadedFile = ".uploaded"

var (
	cFlag = regexp.MustCompile(`^-(O([0-3sgz]|fast)?|std=[a-z0-9+:]+|pthread|lm|W[a-z0-9=+-]+|m[A-Za-z0-9.=+_-]+|f[a-z0-9-]+(=[a-z0-9-]+)?|` +
		`[DU][A-Za-z_]\w*(=[^\x00-\x1f\x7f]*)?)$`)
	// These read or write files, run programs, hide code from a sanitizer, change the
	// format of diagnostics, compile nothing, or name what evotune adds.
	refusedFlag = regexp.MustCompile(`^-(mllvm|[DU]evotune|f(no-)?(diagnostics|syntax-only|preprocessed|directives-only|plugin|pass-plugin|dump|profile|auto-profile|sanitize|opt-info|` +
		`save-optimization|disable-|enable-|dbg-cnt|help|target-help|self-test|wpa|ltrans|resolution|cs-profile|memory-profile|stack-usage|callgraph-info|test-coverage|coverage|compare-debug|use-ld|report-bug|integrated-as|lto|module|prebuilt-module|offload|openmp-targets|embed|deps|proc-stat|time-trace).*)`)
	// nvcc gives its command lines to a shell, within double quotes: no macro may have $ or `.
	cudaFlag = regexp.MustCompile(`^(-O[0-3]?|--?(std|maxrregcount|ftz|fmad|prec-div|prec-sqrt)=[a-z0-9+]+|` +
		`--?(use_fast_math|restrict|lineinfo|extra-device-vectorization|extended-lambda|expt-extended-lambda|expt-relaxed-constexpr)|` +
		"(-Xptxas|--ptxas-options)=-(O[0-4]|v|d[ls]cm=[a-z]+)|-[DU][A-Za-z_]\\w*(=[^\\x00-\\x1f\\x7f\"$`\\\\]*)?)$")
)

// CheckFlag says why a file to judge, or an uploaded kernel, may not give a flag to its
// compiler; nil if it may. It takes the flag as the compiler would, after rendering. A
// definition of one's own may use any flag.
func CheckFlag(backend, flag string) error {
	if backend == "cuda" && cudaFlag.MatchString(flag) || backend != "cuda" && cFlag.MatchString(flag) && !refusedFlag.MatchString(flag) {
		return nil
	}
	return fmt.Errorf("flag %q: a file to judge, or an uploaded kernel, may ask for optimization, a language standard, macros of one line, warnings and machine features, "+
		"and for nothing that reads or writes other files, reaches another tool or switches a check off: remove it", flag)
}

// checkFlag checks a rendered flag of an uploaded kernel, at its place in kernel.toml.
func (im *Implementation) checkFlag(u *unit, flag string) error {
	if !im.definition.Uploaded {
		return nil
	}
	err := CheckFlag(im.Backend, flag)
	switch {
	case err == nil:
		return nil
	case u.at != nil:
		return im.fail(u.at, "%v", err)
	}
	return &Error{File: u.file, Line: 1, Msg: err.Error(), Err: ErrRender}
}

// OwnFlags lists the flags, as templates, whose files compilers may read: those of a
// definition of one's own. Those of an uploaded one name none.
func (im *Implementation) OwnFlags() []string {
	if im.definition.Uploaded {
		return nil
	}
	return im.Flags
}
