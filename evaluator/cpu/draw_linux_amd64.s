#include "textflag.h"

// Constants of one element for all lanes. The polynomials are minimax ones: of -2 ln(1+m)/m, the relative error is
// 1.7e-7 for 1+m from sqrt(1/2) to sqrt(2), and those of sine and cosine are below 1e-8 up to an eighth of a turn.
DATA drawn<>+0(SB)/4, $0x00000001
DATA drawn<>+4(SB)/4, $0x3f3504f3  // sqrt(1/2)
DATA drawn<>+8(SB)/4, $31
DATA drawn<>+12(SB)/4, $0x007fffff // a mantissa
DATA drawn<>+16(SB)/4, $0x3f800000 // 1
DATA drawn<>+20(SB)/4, $0xbfb17218 // -2 ln 2
DATA drawn<>+24(SB)/4, $0x2fc90fdb // an eighth of a turn, by 2^-31
DATA drawn<>+28(SB)/4, $0x80000000 // a sign
DATA drawn<>+32(SB)/4, $0xbfffffff // logarithm
DATA drawn<>+36(SB)/4, $0x3f80003d
DATA drawn<>+40(SB)/4, $0xbf2aacee
DATA drawn<>+44(SB)/4, $0x3effb11e
DATA drawn<>+48(SB)/4, $0xbecbc717
DATA drawn<>+52(SB)/4, $0x3eb0a605
DATA drawn<>+56(SB)/4, $0xbea61e82
DATA drawn<>+60(SB)/4, $0x3e4efd2e
DATA drawn<>+64(SB)/4, $0xbe2aaaa3 // sine
DATA drawn<>+68(SB)/4, $0x3c0883b0
DATA drawn<>+72(SB)/4, $0xb94ca75a
DATA drawn<>+76(SB)/4, $0xbf000000 // cosine
DATA drawn<>+80(SB)/4, $0x3d2aaa9f
DATA drawn<>+84(SB)/4, $0xbab6043f
DATA drawn<>+88(SB)/4, $0x37cc9a18
GLOBL drawn<>(SB), RODATA|NOPTR, $92

// The numbers that a counter is increased by: for the first lanes, and for the next ones.
DATA weyl<>+0(SB)/8, $0x9e3779b97f4a7c15
DATA weyl<>+8(SB)/8, $0x3c6ef372fe94f82a
DATA weyl<>+16(SB)/8, $0xdaa66d2c7ddf743f
DATA weyl<>+24(SB)/8, $0x78dde6e5fd29f054
GLOBL weyl<>(SB), RODATA|NOPTR, $32

// NEXT gives four numbers of a secret in z; Y0 counts, by Y1, and Y2 and Y3 are the multipliers.
#define NEXT(z) \
	VPSRLQ  $30, Y0, z \
	VPXOR   Y0, z, z \
	VPADDQ  Y1, Y0, Y0 \
	VPMULLQ Y2, z, z \
	VPSRLQ  $27, z, Y15 \
	VPXOR   Y15, z, z \
	VPMULLQ Y3, z, z \
	VPSRLQ  $31, z, Y15 \
	VPXOR   Y15, z, z

// BEGIN loads what NEXT needs from a secret's fields.
#define BEGIN \
	VPBROADCASTQ at+24(FP), Y0 \
	VPADDQ       weyl<>(SB), Y0, Y0 \
	VPBROADCASTQ weyl<>+24(SB), Y1 \
	VPBROADCASTQ first+32(FP), Y2 \
	VPBROADCASTQ second+40(FP), Y3

// func drawNormals(out []float32, at, first, second uint64, middle, spread float32)
//
// Box and Muller, 1958. Of each 64 bits of two numbers, the halves are two lanes: of the first one's, 31 bits give the
// radius and one a sign; of the second one's, 30 the angle within a quarter of a turn, and two the quarter.
TEXT ·drawNormals(SB), NOSPLIT, $0-56
	MOVQ         out_base+0(FP), DI
	MOVQ         out_len+8(FP), CX
	BEGIN
	VBROADCASTSS middle+48(FP), Y12
	VBROADCASTSS spread+52(FP), Y13
	VPBROADCASTD drawn<>+0(SB), Y14
	VPBROADCASTD drawn<>+4(SB), Y16
	VPBROADCASTD drawn<>+8(SB), Y17
	VPBROADCASTD drawn<>+12(SB), Y18
	VBROADCASTSS drawn<>+16(SB), Y19
	VBROADCASTSS drawn<>+20(SB), Y20
	VBROADCASTSS drawn<>+24(SB), Y21
	VPBROADCASTD drawn<>+28(SB), Y22
	VBROADCASTSS drawn<>+36(SB), Y23
	VBROADCASTSS drawn<>+44(SB), Y24
	VBROADCASTSS drawn<>+52(SB), Y25
	VBROADCASTSS drawn<>+60(SB), Y26
	VBROADCASTSS drawn<>+64(SB), Y27
	VBROADCASTSS drawn<>+68(SB), Y28
	VBROADCASTSS drawn<>+80(SB), Y29
	VBROADCASTSS drawn<>+84(SB), Y30
	VBROADCASTSS drawn<>+76(SB), Y31

normals:
	SUBQ $16, CX
	JB   drewNormals
	NEXT(Y4)
	NEXT(Y5)

	// -2 ln of the radius's bits, by 2^-31
	VPSRLD       $1, Y4, Y6
	VPOR         Y14, Y6, Y6
	VCVTDQ2PS    Y6, Y6
	VPSUBD       Y16, Y6, Y6
	VPSRAD       $23, Y6, Y7
	VPSUBD       Y17, Y7, Y7
	VCVTDQ2PS    Y7, Y7
	VPANDD       Y18, Y6, Y6
	VPADDD       Y16, Y6, Y6
	VSUBPS       Y19, Y6, Y6
	VMULPS       Y6, Y6, Y8                 // m^2
	VMOVAPS      Y23, Y9
	VFMADD213PS.BCST drawn<>+32(SB), Y6, Y9 // p1 m + p0
	VMOVAPS      Y24, Y10
	VFMADD213PS.BCST drawn<>+40(SB), Y6, Y10
	VMOVAPS      Y25, Y11
	VFMADD213PS.BCST drawn<>+48(SB), Y6, Y11
	VMOVAPS      Y26, Y15
	VFMADD213PS.BCST drawn<>+56(SB), Y6, Y15
	VFMADD231PS  Y10, Y8, Y9
	VFMADD231PS  Y15, Y8, Y11
	VMULPS       Y8, Y8, Y8
	VFMADD231PS  Y11, Y8, Y9
	VMULPS       Y20, Y7, Y7
	VFMADD231PS  Y9, Y6, Y7
	VSQRTPS      Y7, Y7
	VMULPS       Y13, Y7, Y7

	// sine and cosine of the angle
	VPSLLD       $2, Y5, Y6
	VCVTDQ2PS    Y6, Y6
	VMULPS       Y21, Y6, Y6
	VMULPS       Y6, Y6, Y8
	VMOVAPS      Y28, Y9
	VFMADD231PS.BCST drawn<>+72(SB), Y8, Y9
	VFMADD213PS  Y27, Y8, Y9
	VMULPS       Y8, Y9, Y9
	VFMADD213PS  Y6, Y6, Y9                 // sine
	VMOVAPS      Y30, Y10
	VFMADD231PS.BCST drawn<>+88(SB), Y8, Y10
	VFMADD213PS  Y29, Y8, Y10
	VFMADD213PS  Y31, Y8, Y10
	VFMADD213PS  Y19, Y8, Y10               // cosine

	// the quarter
	VPMOVD2M     Y5, K1
	VBLENDMPS    Y10, Y9, K1, Y6
	VBLENDMPS    Y9, Y10, K1, Y8
	VPSLLD       $31, Y4, Y4
	VPXOR        Y4, Y6, Y6
	VPSLLD       $1, Y5, Y5
	VPTERNLOGD   $0x78, Y22, Y5, Y8
	VFMADD213PS  Y12, Y7, Y6
	VFMADD213PS  Y12, Y7, Y8
	VMOVUPS      Y6, (DI)
	VMOVUPS      Y8, 32(DI)
	ADDQ         $64, DI
	JMP          normals

drewNormals:
	VZEROUPPER
	RET

// func drawUniforms(out []float32, at, first, second uint64, middle, step float64, low, high, instead float32)
TEXT ·drawUniforms(SB), NOSPLIT, $0-76
	MOVQ         out_base+0(FP), DI
	MOVQ         out_len+8(FP), CX
	BEGIN
	VBROADCASTSD middle+48(FP), Y12
	VBROADCASTSD step+56(FP), Y13
	VBROADCASTSS low+64(FP), Y14
	VBROADCASTSS high+68(FP), Y11
	VBROADCASTSS instead+72(FP), Y10

uniforms:
	SUBQ         $8, CX
	JB           drewUniforms
	NEXT(Y4)
	VEXTRACTI128 $1, Y4, X5
	VCVTDQ2PD    X4, Y4
	VCVTDQ2PD    X5, Y5
	VMULPD       Y13, Y4, Y4
	VMULPD       Y13, Y5, Y5
	VADDPD       Y12, Y4, Y4
	VADDPD       Y12, Y5, Y5
	VCVTPD2PSY   Y4, X4
	VCVTPD2PSY   Y5, X5
	VINSERTF128  $1, X5, Y4, Y4
	VCMPPS       $1, Y14, Y4, K1            // below the low end
	VCMPPS       $14, Y11, Y4, K2           // above the high one
	KORB         K1, K2, K1
	VBLENDMPS    Y10, Y4, K1, Y4
	VMOVUPS      Y4, (DI)
	ADDQ         $32, DI
	JMP          uniforms

drewUniforms:
	VZEROUPPER
	RET
