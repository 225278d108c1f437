package evaluator

import "strings"

// A Feature is an instruction set that a compiler uses only when told to.
type Feature struct {
	// Name is the one that gcc's __builtin_cpu_supports takes.
	Name string
	// Macro is defined by compilers that may use it; Flag allows it.
	Macro, Flag string
}

// Features lists the instruction sets of x86-64 that change the code that compilers
// generate for kernels. F16C, LZCNT and MOVBE come with every processor that has AVX2,
// and not every compiler can test for them.
func Features() []Feature {
	names := []string{
		"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2",
		"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi", "avx512vbmi2",
		"avx512vnni", "avx512bitalg", "avx512vpopcntdq", "avx512bf16",
	}
	list := make([]Feature, len(names))
	for i, n := range names {
		macro := "__" + strings.ToUpper(strings.ReplaceAll(n, ".", "_")) + "__"
		list[i] = Feature{Name: n, Macro: macro, Flag: "-m" + n}
	}
	return list
}
