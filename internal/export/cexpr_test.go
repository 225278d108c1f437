package export

import (
	"fmt"
	"math/rand"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evotune/evotune/internal/expr"
)

// What tuning refuses to compute of an integer.
const noInteger = "none"

// What C may say of what tuning refuses to compute.
const anything = "anything"

// TestExpressionsInC holds expressions in C against the evaluator that tuning uses, at
// shapes that are small, large and zero.
func TestExpressionsInC(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: no translation was run")
	}
	constants := map[string]any{"A": int64(3), "B": int64(-4), "F": 2.5, "YES": true, "MODE": "fast"}
	tr := &translator{dims: []string{"M", "N"}, constants: constants}
	sure := &translator{dims: tr.dims, constants: constants, saturating: true}
	integers := []string{
		"M / 2", "M / N", "N / 4 * 4", "ceil(M / A)", "int(M / 7) * 7", "int(-M / 7)", "(M - N) % 5", "(M - N) % B", "-M % 3", "M % N", "M % (N - 5)",
		"M ** 2", "2 ** (N % 5)", "-(M - 2) ** 2", "M - N - A", "M - (N - A)", "M * (N + A) - B", "MODE == 'fast' ? M : N", "M > N ? M : N > 3 ? 3 : 0.5",
		"(M > N ? 1 : 2.5) * 2", "min(M, N, A)", "max(M, N, 4.0, B)", "min(max(M, 8), N) + 1", "min(M, N, A, 5)", "max(M, N, B, 7, 3)",
		"min(M + 24, " + many("N + ", 24) + ")", "max(" + many("M / ", 24) + ", N, 3)", "abs(M - N)", "abs(B * M)", "round(M / 2)", "floor(M / -3)",
		"bitand(M, N - 1)", "bitor(M, 1)", "bitxor(M, N)", "bitnand(M, 6)", "bitnot(M)", "bitshl(M, 3)", "bitshr(B * M, 1)", "bitushr(M, A)", "bitshl(1, N)", "bitshr(-M, N)",
		"+M", "M*1.0", "M * F", "float(M) * 2", "YES ? M : 0",
		// what the tree of terms does not cover, over constants alone
		"MODE matches 'f.*' ? M : N", "MODE + 'x' == 'fastx' ? M : N", "M + len(MODE)", "M + sum([1, 2, A])", "min([1, 2, A]) * M", "YES ? M : len([1, N])",
	}
	conditions := []string{
		"M % 4 == 0", "M % N == 0", "N == 0 or M % N == 0", "not (M > N)", "M > N and N > 3 or M == 7", "M > N and (N > 3 or M == 7)", "!(M == N) && !YES == false",
		"M in [1, 8, A]", "M not in [1, 8, A]", "M / 2 in [1, 2.5]", "M in 1..8", "M / 2 in 1..8", "M not in A..N", "M in []", "(M > 3) == (N > 3)", "(M > 3) != YES",
		"M / N > 1.5", "M > N ? N > 2 : YES", "MODE in ['fast'] and M > 2", "1 < M and M < 9", "M <= 2**3 and M >= F",
		"len(MODE) > 3 and M > 4", "upper(MODE) == 'FAST' and M > 4", "hasPrefix(MODE, 'n') or M > 1", "all([1, 2], # < A) and M % A == 0", "not YES and len([M]) > 0 or M > 2",
	}
	rng := rand.New(rand.NewSource(1))
	shapes := [][2]int64{{0, 0}, {7, 0}, {0, 5}, {8, 8}, {70, 5}, {1, 63}, {3, 64}, {5, 200}}
	for range 8 {
		shapes = append(shapes, [2]int64{rng.Int63n(10), rng.Int63n(5000)})
	}
	const drawn = 60 // of each, random, for small shapes
	for range drawn {
		integers = append(integers, fill(rng, "x", 3))
		conditions = append(conditions, fill(rng, "c", 3))
	}
	random := func(i int) bool {
		return i >= len(integers)-drawn && i < len(integers) || i >= len(integers)+len(conditions)-drawn
	}
	var body strings.Builder
	var want, about []string
	for i, src := range append(integers, conditions...) {
		var text, again string
		if i < len(integers) {
			if text, err = tr.integer(src); err == nil {
				again, err = sure.integer(src)
			}
		} else if text, err = tr.condition(src); err == nil {
			again, err = sure.condition(src)
		}
		if err != nil {
			t.Fatal(err)
		}
		if random(i) { // which compares a name with itself
			body.WriteString("#pragma GCC diagnostic ignored \"-Wtautological-compare\"\n#pragma GCC diagnostic ignored \"-Wint-in-bool-context\"\n")
		} else {
			body.WriteString("#pragma GCC diagnostic error \"-Wtautological-compare\"\n#pragma GCC diagnostic error \"-Wint-in-bool-context\"\n")
		}
		fmt.Fprintf(&body, "static void f%d(int64_t M, int64_t N)\n{\n\t(void)M, (void)N;\n\tprintf(\"%%lld %%lld\\n\", (long long)(%s), (long long)(%s));\n}\n", i, text, again)
	}
	body.WriteString("int main(void)\n{\n")
	for i, src := range append(integers, conditions...) {
		env := map[string]any{"M": int64(0), "N": int64(0)}
		for k, v := range constants {
			env[k] = v
		}
		x, err := expr.Compile(src, env)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range shapes {
			if random(i) && max(s[0], s[1]) > 10 {
				continue // numbers would overflow, which is another matter in C
			}
			env["M"], env["N"] = s[0], s[1]
			said := noInteger
			if i < len(integers) {
				if n, err := x.Int(env); err == nil {
					said = strconv.FormatInt(n, 10)
				}
			} else if ok, err := x.Bool(env); err == nil {
				said = map[bool]string{true: "1", false: "0"}[ok]
			} else {
				said = "0" // what cannot be said of a shape does not hold
			}
			if _, err := x.Any(env); err != nil && random(i) {
				said = anything // within an expression, C goes on after a remainder by 0
			}
			want, about = append(want, said), append(about, fmt.Sprintf("%s at %d", src, s))
			fmt.Fprintf(&body, "\tf%d(%d, %d);\n", i, s[0], s[1])
		}
	}
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{"p.c": []byte("#include <math.h>\n#include <stdio.h>\n#include \"dispatch.h\"\n" + body.String() + "\treturn 0;\n}\n")})
	run(t, dir, cc, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-bool-operation", "-fsanitize=undefined", "-fno-sanitize-recover", "-I", mustAbs(t, "files/common"), "-o", "p", "p.c", "-lm")
	got := strings.Split(strings.TrimSpace(run(t, dir, filepath.Join(dir, "p"))), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i, line := range got {
		one, other, _ := strings.Cut(line, " ")
		if one != other || want[i] != anything && one != want[i] && (want[i] != noInteger || !strings.HasPrefix(one, "-")) {
			t.Errorf("%s: C says %s, tuning %s", about[i], line, want[i])
		}
	}
}

// many are arguments with the numbers from 1.
func many(before string, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = before + strconv.Itoa(i+1)
	}
	return strings.Join(list, ", ")
}

// fill replaces the letters in a form by random expressions: x is an integer, f a number, c a
// condition.
func fill(rng *rand.Rand, form string, depth int) string {
	forms := map[rune][]string{
		'x': {"(x + x)", "(x - x)", "(x * x)", "(x % x)", "int(x / 4)", "int(f)", "min(x, x, x)", "max(x, x)", "abs(x)", "(-x)", "bitand(x, x)", "bitor(x, x)", "bitxor(x, x)", "bitnand(x, x)", "bitnot(x)", "bitshl(bitand(x, 7), bitand(x, 7))", "(c ? x : x)"},
		'f': {"(x / 8)", "(f + x)", "(f - f)", "(f * f)", "ceil(f)", "floor(f)", "round(f)", "float(x)", "abs(f)", "min(f, x)", "max(f, f)", "(c ? x : f)", "(x ** 2)"},
		'c': {"(x < x)", "(f <= x)", "(f > f)", "(x >= x)", "(x == x)", "(f != x)", "(c and c)", "(c or c)", "(not c)", "(x in [x, 3, x])", "(f in 1..4)", "(x in x..x)", "(c == c)", "(c ? c : c)"},
	}
	leaves := map[rune][]string{'x': {"M", "N", "A", "B", "2", "5"}, 'f': {"F", "M", "0.25", "1.5"}, 'c': {"(M > 3)", "(N == 0)", "YES", "(M < N)"}}
	if depth < 0 {
		return form
	}
	if depth == 0 {
		forms = leaves
	}
	words := regexp.MustCompile(`[a-z]+|[A-Z]+`)
	return words.ReplaceAllStringFunc(form, func(w string) string {
		list := forms[rune(w[0])]
		if len(w) > 1 || list == nil {
			return w
		}
		return fill(rng, list[rng.Intn(len(list))], depth-1)
	})
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// What has no translation is refused in one line that says which.
func TestExpressionsNotInC(t *testing.T) {
	tr := &translator{dims: []string{"M"}, constants: map[string]any{"A": int64(3)}}
	for src, want := range map[string]string{
		"sum([M, A])":                    `"sum([M, A])" cannot be written in C`,
		"string(M) == '3'":               `"string(M) == '3'" cannot be written in C`,
		"M > 2 ? 'a' : 'b'":              `"M > 2 ? 'a' : 'b'" cannot be written in C`,
		"all([M], # % 2 == 0)":           `cannot be written in C`,
		"Q + M":                          `unknown name Q`,
		"min(" + many("M * ", 200) + ")": `cannot be written in C: it would take more than 64 KB, write it shorter`,
		strings.Repeat("abs(", 40) + "M" + strings.Repeat(")", 40):                                           `cannot be written in C: it would take more than 64 KB, write it shorter`,
		strings.Repeat("min(M, ", 40) + "M" + strings.Repeat(")", 40):                                        `cannot be written in C: it would take more than 64 KB, write it shorter`,
		strings.Repeat("abs(", 8) + "M" + strings.Repeat(")", 8) + " in [" + many("M + ", 200) + "] ? 1 : 0": `cannot be written in C: it would take more than 64 KB, write it shorter`,
	} {
		if _, err := tr.integer(src); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", src, err, want)
		}
	}
	// One that is too long spoils no other, and one with many arguments is not.
	if text, err := tr.integer("min(" + many("M + ", 24) + ")"); err != nil || len(text) > 16<<10 {
		t.Errorf("%d bytes of C: %v", len(text), err)
	}
}
