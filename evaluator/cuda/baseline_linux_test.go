package cuda

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/evotune/evotune/kernels"
)

func TestRoutineName(t *testing.T) {
	for _, c := range []struct{ library, symbol, want string }{
		{"libcublas.so", "gemm", "cublas:gemm"},
		{"libcublas.so.12", "gemm", "cublas:gemm"},
		{"libcublasLt.so", "matmul_nt_bias_gelu", "cublasLt:matmul_nt_bias_gelu"},
		{"/opt/lib/libcublasLt.so.13", "matmul_nn", "cublasLt:matmul_nn"},
	} {
		if got := routineName(&kernels.Baseline{Library: c.library, Symbol: c.symbol}); got != c.want {
			t.Errorf("%s:%s is %s, want %s", c.library, c.symbol, got, c.want)
		}
	}
}

func TestVendorLibrary(t *testing.T) {
	dir := t.TempDir()
	lt := filepath.Join(dir, "libevotunetestLt.so.12")
	if err := os.WriteFile(lt, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tools := &toolkit{libraries: []string{filepath.Join(dir, "libnvrtc.so.12")}}
	if got := vendorLibrary(tools, "evotunetestLt"); got != lt {
		t.Errorf("found %q, want %q", got, lt)
	}
	if got := vendorLibrary(tools, "evotunetest"); got != "" {
		t.Errorf("%q was taken for another library", got)
	}
}
