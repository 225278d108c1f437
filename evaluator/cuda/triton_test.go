package cuda

import (
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator/cuda/ptx"
	"github.com/evotune/evotune/kernels"
)

// A kernel of Triton gets evotune's parameters, in their order, and reads them where it read
// its own.
func TestAdopt(t *testing.T) {
	call := &kernels.TritonCall{
		Entry: "rows", Params: []string{".u64", ".u64", ".u64", ".u64", ".f32"}, // M, N, x, y, scale
		Arguments: []kernels.TritonArgument{
			{Name: "y", Type: "*fp16", Of: 3},
			{Name: "x", Type: "*fp16", Of: 2},
			{Name: "scale", Type: "fp32", Of: 4},
			{Name: "stride", Type: "i32", Of: 1},
			{Name: "N", Type: "i32", Of: 1},
			{Name: "BLOCK", Type: "constexpr", Of: -1},
		},
	}
	params := []string{
		".param .u64 .ptr .global .align 1 k_param_0", ".param .u64 .ptr .global .align 16 k_param_1", ".param .f32 k_param_2", ".param .u32 k_param_3",
		".param .u32 k_param_4", ".param .u64 .ptr .global .align 1 k_param_5", ".param .u64 .ptr .global .align 1 k_param_6",
	}
	body := ")\n.reqntid 128\n{\n\tld.param.b64 %rd1, [k_param_1];\n\tld.param.b64 %rd2, [k_param_0];\n\tld.param.b32 %r1, [k_param_3];\n" +
		"\tld.param.b32 %r2, [k_param_4];\n\tld.param.b32 %r3, [k_param_2];\n\tld.param.b64 %rd3, [k_param_5];\n\tld.param.b32 %r4, [ok_param_1];\n\tret;\n}\n"
	head := ".target sm_90a\n\t// .globl k\n.visible .entry k(\n\t"
	const want = ".target sm_90a\n\t// .globl k\n.visible .entry evotune_kernel(\n\t.param .u64 evotune_kernel_param_0,\n\t.param .u64 evotune_kernel_param_1,\n" +
		"\t.param .u64 .ptr .global .align 16 evotune_kernel_param_2,\n\t.param .u64 .ptr .global .align 1 evotune_kernel_param_3,\n\t.param .f32 evotune_kernel_param_4\n)\n.reqntid 128\n{\n" +
		"\tld.param.b64 %rd1, [evotune_kernel_param_2];\n\tld.param.b64 %rd2, [evotune_kernel_param_3];\n\tld.param.b32 %r1, [evotune_kernel_param_1];\n\tld.param.b32 %r2, [evotune_kernel_param_1];\n" +
		"\tld.param.b32 %r3, [evotune_kernel_param_4];\n\tld.param.b64 %rd3, [evotune_kernel_param_0];\n\tld.param.b32 %r4, [ok_param_1];\n\tret;\n}\n"
	for n := 5; n <= 7; n++ { // releases of Triton have none to two parameters more
		text := head + strings.Join(params[:n], ",\n\t") + "\n" + body
		got, err := adopt(text, call)
		expected := want
		if n < 6 {
			expected = strings.Replace(want, "[evotune_kernel_param_0]", "[k_param_5]", 1) // which is not there
		}
		if err != nil || got != expected {
			t.Errorf("%d parameters: %v\n%s", n, err, got)
		}
	}
	for what, text := range map[string]string{
		"too few":       head + strings.Join(params[:4], ",\n\t") + "\n" + body,
		"too many":      head + strings.Join(append(params, ".param .u64 k_param_7"), ",\n\t") + "\n" + body,
		"no kernel":     ".target sm_90a\n",
		"two kernels":   head + strings.Join(params, ",\n\t") + "\n" + body + head + strings.Join(params, ",\n\t") + "\n" + body,
		"another name":  head + strings.Replace(strings.Join(params, ",\n\t"), "k_param_3", "p_3", 1) + "\n" + body,
		"an array":      head + strings.Replace(strings.Join(params, ",\n\t"), ".u32 k_param_3", ".align 64 .b8 k_param_3[128]", 1) + "\n" + body,
		"not a pointer": head + strings.Replace(strings.Join(params, ",\n\t"), ".u64 .ptr .global .align 1 k_param_0", ".u32 k_param_0", 1) + "\n" + body,
	} {
		if got, err := adopt(text, call); err == nil {
			t.Errorf("%s is taken:\n%s", what, got)
		}
	}
}

// What tells of the source is left out, and nothing else: comments and strings may hold the like.
func TestUnlined(t *testing.T) {
	const head = ".version 8.4\n.target sm_90a\n.address_size 64\n"
	const hidden = "/*\n.loc 1 2 3 // */ bra OUT;\n/* */\n\t.pragma \"\n.loc 1 2 3 // \"; bar.sync 0;\n// \";\n\t.pragma \"\n.file 1 \"; bar.sync 1; .pragma \"\n\";\n" +
		"/*\n\t.section\t.debug_a\n\t{\n*/ bar.sync 2; // }\n\tbra $L__tmp1;\n$L__tmp1:\nOUT: ret;\n}\n"
	const text = head + "\t.file\t1 \"/k.py\"\n.visible .entry k()\n{\n\t.loc\t1 3 0 // k.py:3:0\n$L__func_begin0:\n$L__tmp0:\n.loc 1 4 0 bar.sync 3;\n" +
		"\t.loc\t1 5 0, function_name $L__info_string0, inlined_at 1 3 0\n" + hidden +
		"\t.section\t.debug_abbrev\n\t{\n.b8 1 // (\n\t}\n\t.section\t.debug_macinfo\t{\t}\n// $L__tmp\n"
	const body = ".visible .entry k()\n{\n\t // k.py:3:0\n$L__func_begin0:\n"
	for what, c := range map[string]struct{ got, want string }{
		"unlined":    {ptx.Unlined(text), head + "\t\n" + body + "\n bar.sync 3;\n\t\n" + hidden + "\t\n\t\n// $L__tmp\n"},
		"unnumbered": {ptx.Unnumbered(text), head + "\t.file\t1 \"/k.py\"\n" + body + "$L__tmp0:\n bar.sync 3;\n\t\n" + hidden + text[strings.LastIndex(text, "\t.section\t.debug_abb"):]},
		"unreadable": {ptx.Unlined(text + "#"), text + "#"},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n%s\nexpected\n%s", what, c.got, c.want)
		}
	}
}
