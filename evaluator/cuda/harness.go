package cuda

import _ "embed"

// HarnessSource is the CUDA source of the worker's own kernels. The backend
// compiles it for the device once and hands the cubin to every worker.
//
//go:embed harness.cu
var HarnessSource string
