package labs

import (
	"strings"
	"testing"
)

// What compilers, assemblers and linkers say of other files than the candidate's does not get
// into its log; what they say of its own stays as it is.
func TestOwnDiagnostics(t *testing.T) {
	files := map[string]string{"kernel.c": "#line 1 \"softmax.c\"\n#line 5 \"/etc/shadow\"\n", "inc/a.h": ""}
	const foreign = `In file included from kernel.c:2:
/etc/shadow: At top level:
/etc/shadow:1:5: error: expected '=' before ':' token
    1 | root:secret:1:0:99999:7:::
      |     ^
../token:1:1: error: 'secret' undeclared here (not in a function)
/usr/include/../../token:1:1: warning: secret [-Wunused]
/etc/shadow: Assembler messages:
/etc/shadow:1: Error: no such instruction: ` + "`" + `secret'
/usr/bin/ld:/etc/shadow: file format not recognized; treating as linker script
/usr/bin/ld:/etc/shadow:1: syntax error at secret
/etc/shadow: In function 'secret':
/etc/shadow(1): error: identifier "secret" is undefined
Warning: /etc/shadow(1): Warning: secret
warning: /etc/shadow(2): Warning: secret
  secret
  ^

../x.ld:(.text+0x5): undefined reference to secret
In file included from /etc/hosts:3,
                 from /etc/secret:4:
In function 'f',
    inlined from 'g' at kernel.c:3:1:
`
	got := OwnDiagnostics(foreign, "/scratch/1", files, headersOf("/usr/bin/gcc")...)
	if strings.Contains(got, "secret") || strings.Contains(got, "shadow") {
		t.Errorf("%s", got)
	}
	for _, want := range []string{"In file included from kernel.c:2:\n", "error: in another file\n", "warning: in another file [-Wunused]\n", "    inlined from 'g' at kernel.c:3:1:"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	const own = `kernel.c: In function 'f':
kernel.c:2:1: warning: AVX512F vector return [-Wpsabi]
    2 | __m512 f(__m512 a){ return a;}
      | ^~~~~~
softmax.c:3:1: error: x
./inc/a.h:3:1: note: x
In file included from inc/a.h:1,
                 from kernel.c:1:
/usr/lib/gcc/x86_64-linux-gnu/12/include/avx512fintrin.h:12:1: error: inlining failed in call to 'always_inline'
   12 | _mm512_add_ps (__m512 __A, __m512 __B)
/scratch/1/cck0hUG1.s: Assembler messages:
/scratch/1/cck0hUG1.s:5: Error: no such instruction: ` + "`" + `foo %rax'
/usr/bin/ld: /scratch/1/ccGgl1EI.o: in function ` + "`" + `f':
kernel.c:(.text+0x5): undefined reference to ` + "`" + `g'
/scratch/1/kernel.c:1: undefined reference to ` + "`" + `g'
<artificial>:(.text+0x5): undefined reference to ` + "`" + `g'
/usr/bin/ld: /scratch/1/ccX.o:kernel.c:(.text+0x0): multiple definition of ` + "`" + `g'
collect2: error: ld returned 1 exit status
cc1: all warnings being treated as errors
ptxas info    : Used 8 registers, 360 bytes cmem[0]
ptxas info    : 0 bytes gmem
ptxas /scratch/1/tmpxft_1_2.ptx, line 12; error   : Unknown symbol
kernel.c(3): error: identifier "x" is undefined
      x

1 error detected in the compilation of "kernel.cu".
nvcc fatal   : Unknown option '-x'
Warning: /usr/local/cuda-12.4/include/crt/mma.hpp(91): Warning: cannot perform wmma load or store on local memory
warning: /usr/local/cuda/include/crt/mma.hpp(91): Warning: cannot perform wmma load or store on local memory
/opt/cuda/include/crt/mma.hpp(91): Warning: cannot perform wmma load or store on local memory
`
	if got := OwnDiagnostics(own, "/scratch/1", files, headersOf("/opt/cuda/bin/nvcc")...); got != strings.ReplaceAll(own, "/scratch/1/", "") {
		t.Errorf("%s", got)
	}
}
