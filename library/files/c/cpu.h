/* Instruction sets: what a file was compiled for, and what this processor has. */
#ifndef EVOTUNE_CPU_H
#define EVOTUNE_CPU_H

#include <stdint.h>

/* The instruction sets that are told apart, by the macro of the compiler and its name for
 * the processor. Others come with one of these. */
enum {
{{- range $i, $f := .Features}}
	EVO_CPU_{{$f.ID}} = {{$i}},
{{- end}}
};

/* What the file that includes this is compiled for. */
#define EVO_CPU_NEEDS (UINT64_C(0) \
{{- range .Features}}
	| EVO_CPU_IF_{{.ID}} \
{{- end}}
	)
{{range .Features}}
#ifdef {{.Macro}}
#define EVO_CPU_IF_{{.ID}} (UINT64_C(1) << EVO_CPU_{{.ID}})
#else
#define EVO_CPU_IF_{{.ID}} UINT64_C(0)
#endif
{{- end}}

#endif
