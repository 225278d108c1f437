package kernels_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/kernels"
)

// What the operator of PyTorch has besides is read, and counts as a part of the kernel.
func TestTorch(t *testing.T) {
	const python = "import torch\n\ndef forward(A, B):\n    return A @ B\n\ndef backward (grad_C, A, B):\n    pass\n"
	load := func(text string) (*kernels.Definition, error) {
		fsys := folder(base + "\n" + text)
		f := *fsys["k/kernel.toml"]
		f.Data = []byte(python)
		fsys["k/torch.py"] = &f
		return kernels.Load(fsys, "k")
	}
	d, err := load("[torch]\nsource = \"torch.py\"\nforward = \"forward\"\nbackward = \"backward\"\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&kernels.Torch{File: "torch.py", Text: python, Forward: "forward", Backward: "backward"}, d.Torch); diff != "" {
		t.Error(diff)
	}
	if d.Files()["torch.py"] != python || d.Hash == mustLoad(t, folder(base)).Hash {
		t.Error("the file is not part of the kernel")
	}
	for text, want := range map[string]string{
		"[torch]\nforward = \"forward\"":                           `[torch] lacks source: add source = "torch.py"`,
		"[torch]\nsource = \"torch.py\"":                           `[torch] names no function: add forward = "NAME", what PyTorch computes the kernel with, or backward = "NAME", its derivatives`,
		"[torch]\nsource = \"torch.py\"\nforward = \"product\"":    "torch.py does not define the function product: correct the name",
		"[torch]\nsource = \"torch.py\"\nbackward = \"a-b\"":       `function "a-b" cannot be a name in C: use letters, digits and _, not a digit first`,
		"[torch]\nsource = \"torch.p\"\nforward = \"forward\"":     `"torch.p": no such file in the folder: did you mean torch.py?`,
		"[torch]\nsource = \"torch.py\"\nderivative = \"forward\"": `[torch] has no key "derivative": there are source, forward, backward`,
	} {
		var e *kernels.Error
		if _, err := load(text); !errors.As(err, &e) || e.Msg != want || e.Line <= strings.Count(base, "\n") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
