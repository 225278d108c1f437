package evotune

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(helloVariable) != "" {
		sayHello()
		return
	}
	os.Exit(m.Run())
}
