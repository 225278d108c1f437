package kernels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evotune/evotune/internal/backend"
)

// HeaderFile is the file name under which backends include the result of Header.
const HeaderFile = "evotune_kernel.h"

// Header returns the C header with the prototype of the entry. Backends include
// it before a candidate's source, which makes a wrong signature a compile
// error. It is C11 and C++11, tested with gcc and clang.
//
// For CUDA the prototype is that of a kernel, f16 is __half, bf16 __nv_bfloat16,
// e4m3 __nv_fp8_e4m3 and e5m2 __nv_fp8_e5m2. After the scalars come the tensor maps, and an entry whose launch
// has a workspace gets it as its last argument, a void pointer. All kernels of a
// sequence are declared, with the same parameters. The header needs nothing from the host's
// library, so it compiles with NVRTC and with nvcc.
//
// The entry gets the dimensions, the buffers and the scalars, in the order of
// the definition. Elements of f16 and bf16 are the bits of the number in a
// uint16_t: compilers that are still in use lack _Float16 and __bf16 (gcc 12 has no
// __bf16), and a signature must not depend on the compiler.
// The header has functions that convert them.
func Header(p *Problem, im *Implementation) string { return header(p, im, im.Entry) }

// ReferenceHeader returns the C header with the prototype of the reference,
// which gets every buffer and scalar as double.
func ReferenceHeader(p *Problem) string {
	return guard("EVOTUNE_REFERENCE_H", prototype(p.Reference.Entry, ReferenceParams(p)))
}

// ReferencePrototype declares the reference in C, with a semicolon.
func ReferencePrototype(p *Problem) string {
	return strings.TrimSpace(prototype(p.Reference.Entry, ReferenceParams(p)))
}

// Conversions returns the part of a header that converts elements of a type to float
// and back: functions in C for F16, BF16, E4M3 and E5M2, with the type's own name; ""
// for types that C has.
func Conversions(t DType) string {
	switch t {
	case F16:
		return halfHelpers
	case BF16:
		return brainHelpers
	case E4M3:
		return fmt.Sprintf(byteHelpers, t, "4 of exponent, 3 of fraction, no infinity", 3, 120, "size == 0x7fu", "0x3c800000u", "0x43e00000u", "0x7eu", "512.0f")
	case E5M2:
		infinite := strings.Replace(byteHelpers, "0x7fc00000u;", "size == 0x7cu ? 0x7f800000u : 0x7fc00000u;", 1)
		return fmt.Sprintf(infinite, t, "5 of exponent, 2 of fraction", 2, 112, "size >= 0x7cu", "0x38800000u", "0x47600000u", "0x7bu", "65536.0f")
	}
	return ""
}

// DeviceReferenceHeader is ReferenceHeader for the reference in CUDA.
func DeviceReferenceHeader(p *Problem) string {
	return deviceGuard(backend.Of(backend.CUDA).Dialect, "EVOTUNE_REFERENCE_H", "", "__global__ "+prototype(p.DeviceReference.Entry, ReferenceParams(p)))
}

// Params declares what an implementation in C takes: the dimensions, the buffers and
// the scalars.
func Params(p *Problem) []string { return paramsAs(p, DType.C) }

// ReferenceParams declares what the reference takes: all except the dimensions as
// double.
func ReferenceParams(p *Problem) []string {
	return paramsAs(p, func(DType) string { return "double" })
}

func paramsAs(p *Problem, ctype func(DType) string) []string {
	var params []string
	for _, d := range p.Dims {
		params = append(params, "int64_t "+d)
	}
	for _, b := range p.Buffers {
		params = append(params, pointer(b, ctype(b.DType)))
	}
	for _, s := range p.Scalars {
		params = append(params, ctype(s.DType)+" "+s.Name)
	}
	return params
}

func header(p *Problem, im *Implementation, entry string) string {
	if d := im.on().Dialect; d != nil {
		return deviceHeader(p, im, entry, d)
	}
	body := ""
	for _, t := range []DType{F16, BF16, E4M3, E5M2} {
		if slices.ContainsFunc(p.Buffers, func(b Buffer) bool { return b.DType == t }) {
			body += Conversions(t)
		}
	}
	return guard("EVOTUNE_KERNEL_H", body+prototype(entry, Params(p)))
}

func deviceHeader(p *Problem, im *Implementation, entry string, dialect *backend.Dialect) string {
	includes := ""
	types := func(t DType) string {
		own, ok := dialect.Types[string(t)]
		if !ok {
			return t.C()
		}
		if line := "#include <" + own.Header + ">\n"; !strings.Contains(includes, line) {
			includes += line
		}
		return own.Name
	}
	params := paramsAs(p, types)
	for _, m := range im.TensorMaps {
		params = append(params, "const __grid_constant__ evotune_tensor_map "+m.Name)
	}
	if im.TensorMaps != nil {
		includes += tensorMapType
	}
	if im.Launch != nil && im.Launch.Workspace != "" {
		params = append(params, "void *"+workspaceName)
	}
	body := "__global__ " + prototype(entry, params)
	if im.Launch != nil {
		said := []string{entry}
		for _, next := range im.Launch.Then {
			if !slices.Contains(said, next.Entry) {
				said = append(said, next.Entry)
				body += "__global__ " + prototype(next.Entry, params)
			}
		}
	}
	return deviceGuard(dialect, "EVOTUNE_KERNEL_H", includes, body)
}

// workspaceName is the name of the entry's last argument in the header.
const workspaceName = "workspace"

// tensorMapType replaces CUtensorMap, which NVRTC and CUDA before 12 do not have.
const tensorMapType = "typedef struct __align__(64) evotune_tensor_map { unsigned long long opaque[16]; } evotune_tensor_map;\n"

// deviceGuard is guard for kernels on a device.
func deviceGuard(dialect *backend.Dialect, name, includes, body string) string {
	return "/* Generated by evotune. */\n#ifndef " + name + "\n#define " + name + "\n" + dialect.Prelude + includes + "extern \"C\" {\n" + body + "}\n#endif\n"
}

func pointer(b Buffer, ctype string) string {
	if b.Role == In {
		ctype = "const " + ctype
	}
	return ctype + " *" + b.Name
}

func prototype(entry string, params []string) string {
	return fmt.Sprintf("void %s(%s);\n", entry, strings.Join(params, ", "))
}

func guard(name, body string) string {
	return "/* Generated by evotune. */\n#ifndef " + name + "\n#define " + name + "\n#include <stdint.h>\n" +
		"#ifdef __cplusplus\nextern \"C\" {\n#endif\n" + body + "#ifdef __cplusplus\n}\n#endif\n#endif\n"
}

// The conversions round to nearest, ties to even, and keep infinities and NaN.
const halfHelpers = `typedef uint16_t evotune_f16; /* the bits of an IEEE 754 binary16 */
static inline __attribute__((unused)) float evotune_f16_to_float(evotune_f16 h)
{
	const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1fu, fraction = h & 0x3ffu;
	uint32_t bits;
	float f;
	if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 is exact */
		f = (float)fraction * 5.9604644775390625e-8f;
		__builtin_memcpy(&bits, &f, sizeof bits);
		bits |= sign;
	} else
		bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23) | fraction << 13;
	__builtin_memcpy(&f, &bits, sizeof f);
	return f;
}
static inline __attribute__((unused)) evotune_f16 evotune_f16_from_float(float f)
{
	uint32_t bits;
	__builtin_memcpy(&bits, &f, sizeof bits);
	const uint32_t sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
	if (size > 0x7f800000u)
		return (evotune_f16)(sign | 0x7e00u);
	if (size >= 0x477ff000u) /* 65520 and above round to infinity */
		return (evotune_f16)(sign | 0x7c00u);
	if (size < 0x38800000u) { /* below 2^-14: subnormal, in units of 2^-24 */
		const float units = (size < 0x33000000u) ? 0.0f : (bits >> 31 ? -f : f) * 16777216.0f;
		uint32_t whole = (uint32_t)units;
		const float rest = units - (float)whole;
		whole += rest > 0.5f || (rest == 0.5f && (whole & 1u));
		return (evotune_f16)(sign | whole);
	}
	const uint32_t rounded = size - 0x38000000u + 0xfffu + ((size >> 13) & 1u);
	return (evotune_f16)(sign | rounded >> 13);
}
`

const brainHelpers = `typedef uint16_t evotune_bf16; /* the upper half of an IEEE 754 binary32 */
static inline __attribute__((unused)) float evotune_bf16_to_float(evotune_bf16 h)
{
	const uint32_t bits = (uint32_t)h << 16;
	float f;
	__builtin_memcpy(&f, &bits, sizeof f);
	return f;
}
static inline __attribute__((unused)) evotune_bf16 evotune_bf16_from_float(float f)
{
	uint32_t bits;
	__builtin_memcpy(&bits, &f, sizeof bits);
	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return (evotune_bf16)(bits >> 16 | 0x40u);
	return (evotune_bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
`

// byteHelpers are the conversions of an 8-bit type. The arguments are its name, its
// description, the bits of its fraction, how much larger the exponent of single precision
// is, a test for values that are not finite, the bits of its smallest normal and its
// largest number in single precision, that number, and one over its smallest number.
// Larger values become the largest number, as in CUDA's own conversions.
const byteHelpers = `typedef uint8_t evotune_%[1]s; /* the bits of an 8-bit number of OCP: %[2]s */
static inline __attribute__((unused)) float evotune_%[1]s_to_float(evotune_%[1]s h)
{
	const uint32_t size = h & 0x7fu, exponent = size >> %[3]d, fraction = size & ((1u << %[3]d) - 1);
	uint32_t bits;
	float f = (float)fraction / %[9]s; /* zero or subnormal: exact */
	__builtin_memcpy(&bits, &f, sizeof bits);
	if (%[5]s)
		bits = 0x7fc00000u;
	else if (exponent)
		bits = (exponent + %[4]du) << 23 | fraction << (23 - %[3]d);
	bits |= (uint32_t)(h & 0x80u) << 24;
	__builtin_memcpy(&f, &bits, sizeof f);
	return f;
}
static inline __attribute__((unused)) evotune_%[1]s evotune_%[1]s_from_float(float f)
{
	uint32_t bits;
	__builtin_memcpy(&bits, &f, sizeof bits);
	const uint32_t sign = (bits >> 24) & 0x80u, size = bits & 0x7fffffffu;
	if (size > 0x7f800000u)
		return (evotune_%[1]s)(sign | 0x7fu);
	if (size >= %[7]s)
		return (evotune_%[1]s)(sign | %[8]s);
	if (size < %[6]s) { /* subnormal, in units of the smallest number */
		const float units = (bits >> 31 ? -f : f) * %[9]s;
		uint32_t whole = (uint32_t)units;
		const float rest = units - (float)whole;
		whole += rest > 0.5f || (rest == 0.5f && (whole & 1u));
		return (evotune_%[1]s)(sign | whole);
	}
	const uint32_t rounded = size - (%[4]du << 23) + (1u << (22 - %[3]d)) - 1 + ((size >> (23 - %[3]d)) & 1u);
	return (evotune_%[1]s)(sign | rounded >> (23 - %[3]d));
}
`
