package backend

import (
	"regexp"
	"time"
)

// GPUWindow is the window for a GPU: compilers and sanitizers work ahead of it.
const GPUWindow = 32

var cuda = Facts{
	Name: CUDA, Accelerator: true, Device: "a GPU", Language: "CUDA", Source: ".cu", Library: "cuda",
	Window:  GPUWindow,
	Keys:    []string{Launch, TensorMap, Target, Profile, Sanitize, MaxRegisters, MaxSpill, Repeat, Unwritten, FP8, Triton},
	Flag:    func(flag string) bool { return cudaFlag.MatchString(flag) },
	Sandbox: []string{"landlock", "worker jail"},
	Dialect: &Dialect{
		// NVRTC has no C library headers; int64_t is long long, as in CUDA's own headers
		// there, which define it too: cuda/std, cuda/pipeline, curand_kernel.h.
		Prelude: "#ifdef __CUDACC_RTC__\n" +
			"typedef signed char int8_t;\ntypedef unsigned char uint8_t;\ntypedef short int16_t;\ntypedef unsigned short uint16_t;\n" +
			"typedef int int32_t;\ntypedef unsigned int uint32_t;\ntypedef long long int64_t;\ntypedef unsigned long long uint64_t;\n" +
			"#else\n#include <stdint.h>\n#endif\n",
		Types: map[string]Type{
			"f16": {"__half", "cuda_fp16.h"}, "bf16": {"__nv_bfloat16", "cuda_bf16.h"},
			"e4m3": {"__nv_fp8_e4m3", "cuda_fp8.h"}, "e5m2": {"__nv_fp8_e5m2", "cuda_fp8.h"},
		},
	},
	Rules: &Rules{
		Batch: 500 * time.Microsecond, Ask: 3,
		Least: 6, LeastSlow: 3, SlowPair: 300 * time.Millisecond,
		Samples: 20, SampleTime: 50 * time.Millisecond, Finals: 30, Processes: 3, LeastSet: 5 * time.Second,
		ClockShare: 0.05, ClockSlack: 40 * time.Microsecond, LaunchSlack: 20 * time.Nanosecond,
		ComputeHeadroom: 1.10, MemoryHeadroom: 1.15,
		Hangs:      10 * time.Second,
		Sanitizers: []string{"memcheck", "racecheck", "synccheck", "initcheck", Schedules, Guards},
		Finalists:  []string{Guards},
		// nvcc compiles WMMA on a local array to a trap, with this diagnostic.
		Blocking: []string{"cannot perform wmma load or store on local memory"},
		// ptxas compiles what it cannot do as requested (C7508 and others of setmaxnreg;
		// C7510, C7514, C7515 and others of wgmma): without registers for the warps that
		// multiply, or with a wait after every product. Such code is not what its genome
		// says.
		Optimized: []string{"'setmaxnreg' ignored", "wgmma.mma_async instructions are serialized"},
		Unseen: []Unseen{
			{Check: "races in global memory", Detail: "racecheck looks at shared memory alone"},
			{Check: "shared memory within a block", Detail: "initcheck does not look at it, and memcheck at its end alone: an array may run into another"},
			{Check: "sanitizers at other shapes", Detail: "what only larger shapes make the code do is looked at by parity, after timing and, of finalists, by guards alone"},
		},
	},
}

// nvcc gives its command lines to a shell, within double quotes: no macro may have $ or `.
var cudaFlag = regexp.MustCompile(`^(-O[0-3]?|--?(std|maxrregcount|ftz|fmad|prec-div|prec-sqrt)=[a-z0-9+]+|` +
	`--?(use_fast_math|restrict|lineinfo|extra-device-vectorization|extended-lambda|expt-extended-lambda|expt-relaxed-constexpr)|` +
	"(-Xptxas|--ptxas-options)=-(O[0-4]|v|d[ls]cm=[a-z]+)|-[DU][A-Za-z_]\\w*(=[^\\x00-\\x1f\\x7f\"$`\\\\]*)?)$")
