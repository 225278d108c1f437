package evotune

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/evotune/evotune/internal/longtest"
)

// Examples cannot skip themselves: the one that tunes for 20 seconds runs with the
// long tests.
func TestMain(m *testing.M) {
	if os.Getenv(helloVariable) != "" {
		sayHello()
		return
	}
	flag.Parse()
	why := ""
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOOS != "linux" {
		why = "there is no C compiler on Linux"
	}
	if os.Getenv(longtest.Variable) == "" {
		why = "it takes 20 s: " + longtest.Variable + "=all runs it"
	}
	if skip := flag.Lookup("test.skip"); why != "" && skip.Value.String() == "" {
		if testing.Verbose() {
			fmt.Printf("Example is left out: %s\n", why)
		}
		if err := skip.Value.Set("^Example$"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
