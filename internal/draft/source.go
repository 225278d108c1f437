package draft

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/internal/naming"
	"github.com/evotune/evotune/internal/sources"
	"github.com/evotune/evotune/kernels"
)

// A source is a file as people write it. It is read without a C++ parser: only the
// extent of functions, their parameters, and comments.
type source struct {
	file, text string
	included   map[string]string // the files that it includes
	original   map[string]string // the same as they are in its folder
	lent       map[string]bool   // which of them the new folder shares
	cuda       bool
	python     bool   // a function of Triton
	bare       string // text without comments, strings and preprocessor lines; as long
	functions  []function
	entry      function
	arguments  []argument
	templates  []tuned // the entry's template parameters, in order
	params     []tuned // what is to be tuned
	edits      []edit
	// declarations are the statements that end with a semicolon outside of braces.
	declarations [][2]int
	taken        []kernels.Finding
	bounds       string // of __launch_bounds__
	launch       string // the launch that the source has
	launched     int    // and its line
	given        *Given // what the source does not say; nil leaves it to fill in
	actions      bool   // the source is a template itself
	defines      string // macros to put before the source
	declared     map[string]declaredType
	result       *argument // what the entry returns, as an output; nil: nothing
}

// A declaredType is the type that a comment gives the elements of an argument.
type declaredType struct {
	text string
	at   int // the offset of the comment
}

// A function is a definition; its fields are offsets.
type function struct {
	id                                  string
	head, name, open, close, body, stop int
}

// An argument is a parameter of the entry. Its name is the definition's; the source has
// another one where that cannot be a name in a definition.
type argument struct {
	name, ctype string
	source      string // its name in the source
	dtype       kernels.DType
	cast        bool // the source's pointer type is another one than the definition's
	each        int  // the elements in one of the source's, such as 2 for float2
	pointer     bool
	input       bool
	restrict    bool
	axes        []string // as declared, in C; nil if they are not dimensions
	nested      bool     // an array of arrays
	changed     int      // the line that changes what an output holds; 0: none
	flag        bool     // bool
}

// A tuned is a parameter with values; base is the baseline's. at is the offset of its
// comment.
type tuned struct {
	name   string
	values []any
	base   any
	at     int
	fixed  string // the text of one that is not tuned
}

type edit struct {
	from, to int
	text     string
}

// at notes something at an offset of the source.
func (s *source) at(offset int, format string, args ...any) kernels.Finding {
	return kernels.Finding{File: s.file, Line: s.line(offset), Msg: fmt.Sprintf(format, args...)}
}

func (s *source) line(offset int) int { return strings.Count(s.text[:offset], "\n") + 1 }

// fault makes the error for an offset; -1 is the file itself.
func (s *source) fault(offset int, format string, args ...any) error {
	e := &kernels.Error{File: s.file, Msg: fmt.Sprintf(format, args...), Err: kernels.ErrDefinition}
	if offset >= 0 {
		e.Line = s.line(offset)
	}
	return e
}

func (s *source) read(entry string) error {
	text := s.text
	if s.given != nil {
		if s.actions = s.given.template(text); s.actions {
			text = action.ReplaceAllStringFunc(text, func(a string) string { return strings.Repeat(" ", len(a)) })
		}
	}
	s.bare = sources.Bare(text)
	if err := s.findFunctions(); err != nil {
		return err
	}
	if err := s.choose(entry); err != nil {
		return err
	}
	if err := s.tunedParameters(); err != nil {
		return err
	}
	if err := s.signature(); err != nil {
		return err
	}
	s.adapt()
	if s.cuda {
		re := regexp.MustCompile(`\b` + s.entry.id + `\s*(<[^;]*?>\s*)?<<<`)
		if at := re.FindStringIndex(s.bare); at != nil {
			if end := strings.Index(s.bare[at[1]:], ">>>"); end >= 0 {
				s.launch, s.launched = "<<<"+strings.Join(strings.Fields(s.text[at[1]:at[1]+end]), " ")+">>>", s.line(at[0])
				for _, d := range extents.FindAllString(s.bare[:at[0]], -1) {
					s.launch += " with " + strings.Join(strings.Fields(d), " ")
				}
			}
		}
	}
	return nil
}

var lastWord = regexp.MustCompile(`([A-Za-z_]\w*)\s*$`)

// findFunctions finds the definitions at the outermost level.
func (s *source) findFunctions() error {
	var open []bool // of braces; true is an extern "C", which is not a level
	depth, start := 0, 0
	var f *function
	for i := range len(s.bare) {
		switch s.bare[i] {
		case ';':
			if depth == 0 {
				s.declarations = append(s.declarations, [2]int{start, i})
				start = i + 1
			}
		case '{':
			head := strings.TrimSpace(s.bare[start:i])
			transparent := depth == 0 && head == "extern"
			open = append(open, transparent)
			if transparent {
				start = i + 1
				continue
			}
			if depth++; depth == 1 {
				f = s.function(start, i)
			}
		case '}':
			if len(open) == 0 {
				return s.fault(i, "this brace closes nothing that is open: give a source whose braces match without its #if")
			}
			if !open[len(open)-1] {
				if depth--; depth == 0 && f != nil {
					f.stop = i + 1
					s.functions = append(s.functions, *f)
					start = i + 1
				}
			} else {
				start = i + 1
			}
			if depth == 0 {
				f = nil
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return s.fault(len(s.bare), "the file ends within braces: give a source whose braces match without its #if")
	}
	return nil
}

// function reads a head that ends before a brace; nil if it is not a function's.
func (s *source) function(start, brace int) *function {
	head := strings.TrimRight(s.bare[start:brace], " \t\r\n")
	if !strings.HasSuffix(head, ")") {
		return nil
	}
	f := &function{head: start, body: brace, close: start + len(head) - 1}
	for s.bare[f.head] == ' ' || s.bare[f.head] == '\n' || s.bare[f.head] == '\t' || s.bare[f.head] == '\r' {
		f.head++
	}
	depth := 0
	for i := f.close; i >= start; i-- {
		switch s.bare[i] {
		case ')':
			if depth++; depth == 1 {
				f.close = i
			}
		case '(':
			if depth--; depth > 0 {
				continue
			}
			at := lastWord.FindStringSubmatchIndex(s.bare[start:i])
			if at == nil {
				return nil
			}
			f.open, f.name, f.id = i, start+at[2], s.bare[start+at[2]:start+at[3]]
			if f.id != "__attribute__" {
				return f
			}
			i = f.name // and what comes before it
		}
	}
	return nil
}

func (s *source) has(f function, word string) bool {
	return regexp.MustCompile(`\b` + word + `\b`).MatchString(s.bare[f.head:f.name])
}

// choose determines which function is the entry.
func (s *source) choose(entry string) error {
	var all, likely []string
	for _, f := range s.functions {
		if f.id == "main" || s.cuda && !s.has(f, "__global__") {
			continue
		}
		all = append(all, f.id)
		if !s.has(f, "static") || s.cuda {
			likely = append(likely, f.id)
		}
	}
	what := "function"
	if s.cuda {
		what = "__global__ function"
	}
	switch {
	case len(all) == 0:
		return s.fault(-1, "it defines no %s outside of classes and namespaces: name a file that has the kernel itself", what)
	case entry == "" && len(likely) == 0 && len(all) == 1: // static, in C
		entry = all[0]
	case entry == "" && len(likely) != 1:
		return s.fault(-1, "it defines several functions: choose one with --entry: %s", strings.Join(all, ", "))
	case entry == "":
		entry = likely[0]
	}
	for _, f := range s.functions {
		if f.id == entry && slices.Contains(all, entry) {
			if s.entry.id != "" {
				return s.fault(f.name, "%s is defined here and on line %d: give a source that has it once", entry, s.line(s.entry.name))
			}
			s.entry = f
		}
	}
	if s.entry.id == "" {
		return s.fault(-1, "it defines no %s %q: %s", what, entry, naming.Suggest(entry, all))
	}
	return s.returns()
}

// returns reads what the entry returns.
func (s *source) returns() error {
	if s.has(s.entry, "void") || s.cuda {
		return nil
	}
	text := strings.Join(strings.Fields(notReturned.ReplaceAllString(s.bare[s.entry.head:s.entry.name], " ")), " ")
	e, ok := elements[text]
	if ok && e.each == 1 && (e.dtype == kernels.F32 || e.dtype == kernels.F64 || !e.dtype.Float()) {
		s.result = &argument{name: "result", ctype: text, dtype: e.dtype, each: 1, pointer: true, axes: []string{"1"}}
		return nil
	}
	if s.given != nil { // what it returns may be a status, which nothing reads
		return nil
	}
	return s.fault(s.entry.name, "%s returns %s: let it return a number, or write that through a pointer", s.entry.id, text)
}

// notReturned are words before a function's name that say nothing about what it returns.
var notReturned = regexp.MustCompile(`\b(static|inline|__inline__|__inline|extern|const|__attribute__\s*\(\(.*?\)\))`)

var (
	tuneComment   = regexp.MustCompile(`(?://|/\*)[ \t]*tune:([^\n]*?)(?:\*/|\r?\n|$)`)
	macro         = regexp.MustCompile(`^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+(.*?)[ \t]*$`)
	constant      = regexp.MustCompile(`\bconstexpr\b[^;=(){}]*?\b([A-Za-z_]\w*)\s*=\s*([^;]*?)\s*;\s*$`)
	named         = regexp.MustCompile(`^\s*([A-Za-z_]\w*)\s*=([^=].*)$`)
	wholeNumber   = regexp.MustCompile(`^-?(0[xX][0-9a-fA-F]+|[0-9]+)$`)
	templateStart = regexp.MustCompile(`\btemplate\s*<`)
)

// tuneComments finds the comments that say what to tune: not the same words in a string, or
// within a longer comment that explains them.
func (s *source) tuneComments() (list [][]int) {
	spans := sources.NotCode.FindAllStringIndex(s.text, -1)
	for _, m := range tuneComment.FindAllStringSubmatchIndex(s.text, -1) {
		for len(spans) > 0 && spans[0][1] <= m[0] {
			spans = spans[1:]
		}
		if len(spans) > 0 && spans[0][0] <= m[0] && (spans[0][0] == m[0] || strings.HasPrefix(s.text[spans[0][0]:], "//")) {
			list = append(list, m)
		}
	}
	return list
}

// tunedParameters reads what the comments say.
func (s *source) tunedParameters() error {
	spans, err := s.templateParameters()
	if err != nil {
		return err
	}
	comments := s.tuneComments()
	if s.given != nil && len(s.given.Parameters) > 0 {
		if err := s.givenParameters(); err != nil {
			return err
		}
		comments = nil
	}
	for _, m := range comments {
		begin := strings.LastIndexByte(s.text[:m[0]], '\n') + 1
		before, list := sources.Comment.ReplaceAllStringFunc(s.text[begin:m[0]], func(c string) string { return strings.Repeat(" ", len(c)) }), s.text[m[2]:m[3]]
		template := func(i int) error {
			t := &s.templates[i]
			if t.values != nil {
				return s.fault(m[0], "%s has its values on line %d already: keep one of the two", t.name, s.line(t.at))
			}
			var err error
			t.at = m[0]
			t.values, err = s.list(m[0], t.name, list)
			return err
		}
		switch d, c := macro.FindStringSubmatchIndex(before), constant.FindStringSubmatchIndex(before); {
		case d != nil || c != nil:
			if d == nil {
				d = c
			}
			t := tuned{name: before[d[2]:d[3]], at: begin + d[2]}
			if t.values, err = s.list(m[0], t.name, list); err != nil {
				return err
			}
			text := before[d[4]:d[5]]
			t.base = value(text)
			switch {
			case len(t.values) < 2:
				return s.fault(m[0], "%s has one value: give several, or remove the comment", t.name)
			case !slices.Contains(t.values, t.base):
				return s.fault(m[0], "%s is %s, which is not among its values: add it, since it is what speedups are measured against", t.name, text)
			case slices.ContainsFunc(s.params, func(p tuned) bool { return p.name == t.name }):
				return s.fault(m[0], "%s is marked twice: keep one of the two", t.name)
			}
			s.params = append(s.params, t)
			with := "{{." + t.name + "}}"
			if _, word := t.base.(string); !word && text[0] == '(' {
				with = "(" + with + ")"
			}
			s.edits = append(s.edits, edit{begin + d[4], begin + d[5], with})
		default:
			i := -1
			for k, at := range spans { // the last one before the comment, on its line
				if at >= begin && at < m[0] {
					i = k
				}
			}
			if n := named.FindStringSubmatch(list); n != nil {
				i = slices.IndexFunc(s.templates, func(t tuned) bool { return t.name == n[1] })
				list = n[2]
				if i < 0 { // signature looks whether it is an argument
					s.declare(n[1], list, m[0])
					continue
				}
			}
			if i < 0 {
				return s.fault(m[0], "this comment says what to tune of nothing: put it behind a #define, a constexpr or a template parameter of %s", s.entry.id)
			}
			if err := template(i); err != nil {
				return err
			}
		}
	}
	for i := range s.templates {
		t := &s.templates[i]
		switch {
		case t.values == nil && t.fixed == "":
			return s.fault(t.at, "the template parameter %s has no values: add a comment // tune: %s = 16, 32 (one value fixes it)", t.name, t.name)
		case t.values == nil:
			s.taken = append(s.taken, s.at(t.at, "%s stays %s", t.name, t.fixed))
		case len(t.values) == 1 && s.given != nil && slices.ContainsFunc(s.params, func(p tuned) bool { return p.name == t.name }): // expressions may read it
		case len(t.values) == 1:
			t.fixed = fmt.Sprint(t.values[0])
			s.taken = append(s.taken, s.at(t.at, "%s is %s", t.name, t.fixed))
		case slices.ContainsFunc(s.params, func(p tuned) bool { return p.name == t.name }):
		default:
			if t.base = t.values[0]; t.fixed != "" {
				if t.base = value(t.fixed); !slices.Contains(t.values, t.base) {
					return s.fault(t.at, "the default of %s is %s, which is not among its values: add it, since it is what speedups are measured against", t.name, t.fixed)
				}
			}
			t.fixed = ""
			s.params = append(s.params, *t)
		}
	}
	if len(s.params) == 0 {
		return s.fault(s.entry.name, "nothing says what to tune: write the values to try behind a macro, as #define TILE 32 // tune: 16, 32, 64")
	}
	for _, p := range s.params {
		base := fmt.Sprintf("; baseline %v", p.base)
		if s.given != nil { // the baseline is then its first valid genome
			base = ""
		}
		s.taken = append(s.taken, s.at(p.at, "parameter %s of %s%s", p.name, texts(p.values), base))
	}
	return nil
}

// declare notes the type that a comment gives the elements of an argument.
func (s *source) declare(name, text string, at int) {
	if s.declared == nil {
		s.declared = map[string]declaredType{}
	}
	s.declared[name] = declaredType{strings.Join(strings.Fields(text), " "), at}
}

func texts(values []any) string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = fmt.Sprint(v)
	}
	return strings.Join(list, ", ")
}

// value is a number or a boolean if the text is one, else the text.
func value(text string) any {
	text = strings.TrimSpace(text)
	inner := text
	if strings.HasPrefix(text, "(") && strings.HasSuffix(text, ")") {
		inner = text[1 : len(text)-1]
	}
	switch {
	case wholeNumber.MatchString(inner):
		if n, err := strconv.ParseInt(inner, 0, 64); err == nil {
			return n
		}
	case inner == "true" || inner == "false":
		return inner == "true"
	}
	return text
}

// list reads the values of a comment.
func (s *source) list(at int, name, text string) ([]any, error) {
	var out []any
	for item := range strings.SplitSeq(text, ",") {
		v := value(item)
		switch {
		case wholeNumber.MatchString(fmt.Sprint(v)) && fmt.Sprintf("%T", v) == "string":
			return nil, s.fault(at, "the value %v of %s does not fit into 64 bits: give a smaller number", v, name)
		case v == "":
			return nil, s.fault(at, "%s has an empty value: write them as // tune: 16, 32, 64", name)
		case slices.Contains(out, v):
			return nil, s.fault(at, "%s has the value %v twice: remove one", name, v)
		case len(out) > 0 && fmt.Sprintf("%T", v) != fmt.Sprintf("%T", out[0]):
			return nil, s.fault(at, "the values %v and %v of %s are of two kinds: write integers, words, or true and false", out[0], v, name)
		}
		out = append(out, v)
	}
	return out, nil
}

// templateParameters reads the names and defaults of the entry's, and their positions.
func (s *source) templateParameters() (spans []int, err error) {
	head := s.bare[s.entry.head:s.entry.name]
	at := templateStart.FindStringIndex(head)
	if at == nil {
		return nil, nil
	}
	begin := s.entry.head + at[1]
	depth, from := 0, begin
	for i := begin; i < s.entry.name; i++ {
		switch c := s.bare[i]; {
		case c == '<' || c == '(':
			depth++
		case c == ')' || c == '>' && depth > 0:
			depth--
		case c == ',' && depth == 0 || c == '>':
			words, fixed, _ := strings.Cut(s.bare[from:i], "=")
			m := lastWord.FindStringSubmatchIndex(words)
			if m == nil || strings.TrimSpace(words[:m[2]]) == "" {
				return nil, s.fault(from, "this template parameter of %s has no name, or is none of a type or a number", s.entry.id)
			}
			s.templates = append(s.templates, tuned{name: words[m[2]:m[3]], at: from + m[2], fixed: strings.TrimSpace(fixed)})
			spans = append(spans, from+m[2])
			if from = i + 1; c == '>' {
				return spans, nil
			}
		}
	}
	return nil, s.fault(begin, "the template parameters of %s do not end", s.entry.id)
}

// An element is how elements of a type that C or CUDA has are held: by each numbers of a
// type. cast says that pointers to it are pointers to another type there.
type element struct {
	dtype kernels.DType
	each  int
	cast  bool
}

// unsigned says that the type holds numbers that the definition's type does not.
func (e element) unsigned(ctype string) bool {
	return e.dtype == kernels.I64 && (strings.HasPrefix(ctype, "u") || ctype == "size_t")
}

// elements are the types of elements, as they are written.
var elements = func() map[string]element {
	all := map[string]element{}
	for dtype, names := range map[kernels.DType]string{
		kernels.F32: "float", kernels.F64: "double", kernels.F16: "__half half", kernels.BF16: "__nv_bfloat16 nv_bfloat16", kernels.E4M3: "__nv_fp8_e4m3", kernels.E5M2: "__nv_fp8_e5m2",
		kernels.I64: "int64_t", kernels.I32: "int32_t int signed", kernels.I8: "int8_t", kernels.U8: "uint8_t",
	} {
		for _, name := range strings.Fields(names) {
			all[name] = element{dtype, 1, false}
		}
	}
	all["signed int"], all["signed char"], all["unsigned char"] = all["int"], all["int8_t"], all["uint8_t"]
	all["_Float16"], all["__bf16"] = element{kernels.F16, 1, true}, element{kernels.BF16, 1, true}
	// Where pointers are cast, the definition may give another type of the same size, such as bf16 for its bits.
	for dtype, names := range map[kernels.DType][]string{
		kernels.I64: {"long", "long int", "long long", "long long int", "size_t", "uint64_t", "unsigned long", "unsigned long int", "unsigned long long", "unsigned long long int"},
		kernels.U32: {"uint32_t", "unsigned", "unsigned int", "uint"},
		kernels.I16: {"int16_t", "short", "short int", "signed short", "signed short int"},
		kernels.U16: {"uint16_t", "unsigned short", "unsigned short int", "ushort"},
		kernels.I8:  {"char"}, kernels.U8: {"bool", "_Bool"},
	} {
		for _, name := range names {
			all[name] = element{dtype, 1, true}
		}
	}
	all["__half2"], all["half2"] = element{kernels.F16, 2, true}, element{kernels.F16, 2, true}
	all["__nv_bfloat162"], all["nv_bfloat162"] = element{kernels.BF16, 2, true}, element{kernels.BF16, 2, true}
	for name, dtype := range map[string]kernels.DType{"float": kernels.F32, "double": kernels.F64, "int": kernels.I32, "uint": kernels.U32, "short": kernels.I16, "ushort": kernels.U16, "long": kernels.I64, "longlong": kernels.I64, "char": kernels.I8, "uchar": kernels.U8} {
		for n := 2; n <= 4; n++ {
			all[name+strconv.Itoa(n)] = element{dtype, n, true}
		}
	}
	return all
}()

var sizes = strings.Fields(`int long short unsigned signed size_t ptrdiff_t ssize_t bool _Bool int8_t int16_t int32_t int64_t uint8_t uint16_t
	uint32_t uint64_t uint`)

var qualifiers = regexp.MustCompile(`\b(const|volatile|restrict|__restrict__|__restrict|register)\b`)

// listArguments reads the entry's arguments one by one.
func (s *source) listArguments() error {
	text := s.bare[s.entry.open+1 : s.entry.close]
	offset := s.entry.open + 1
	depth, from := 0, 0
	var list [][2]int
	for i := range len(text) {
		switch text[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				list = append(list, [2]int{from, i})
				from = i + 1
			}
		}
	}
	list = append(list, [2]int{from, len(text)})
	if t := strings.TrimSpace(text); t == "" || t == "void" {
		return s.fault(s.entry.name, "%s takes no arguments: it needs its buffers and sizes as arguments", s.entry.id)
	}
	for _, span := range list {
		if err := s.argument(offset+span[0], text[span[0]:span[1]]); err != nil {
			return err
		}
	}
	return nil
}

// signature reads the entry's arguments and derives what they imply.
func (s *source) signature() error {
	if err := s.listArguments(); err != nil {
		return err
	}
	for name, d := range s.declared {
		if !slices.ContainsFunc(s.arguments, func(a argument) bool { return a.source == name && a.pointer }) {
			return s.fault(d.at, "%s has no template parameter %q: a macro has its comment on its own line, as #define TILE 32 // tune: 16, 32", s.entry.id, name)
		}
	}
	s.rename()
	var ints []string
	for _, a := range s.arguments {
		if !a.pointer && !a.dtype.Float() {
			ints = append(ints, a.name)
		}
	}
	if s.given != nil {
		return s.match()
	}
	if len(ints) == 0 {
		return s.fault(s.entry.name, "%s has no integer argument: evotune calls kernels with their sizes, so make one of what is fixed in the source", s.entry.id)
	}
	for i := range s.arguments {
		a := &s.arguments[i]
		if slices.ContainsFunc(a.axes, func(x string) bool { return !slices.Contains(ints, x) && !wholeNumber.MatchString(x) }) {
			a.axes = nil
		}
	}
	return nil
}

// rename gives arguments the names that they have in the definition.
func (s *source) rename() {
	taken := map[string]bool{}
	for _, a := range s.arguments {
		taken[a.name] = true
	}
	renamed := map[string]string{}
	for i := range s.arguments {
		a := &s.arguments[i]
		if s.given != nil {
			if name, ok := s.given.Aliases[a.name]; ok {
				a.name, renamed[a.name] = name, name
			}
			continue
		}
		for !kernels.Nameable(a.name, !a.pointer && !a.dtype.Float()) {
			for a.name += "_"; taken[a.name]; {
				a.name += "_"
			}
			renamed[a.source] = a.name
		}
		taken[a.name] = true
	}
	for i := range s.arguments {
		for k, x := range s.arguments[i].axes {
			if name, ok := renamed[x]; ok {
				s.arguments[i].axes[k] = name
			}
		}
		if a := s.arguments[i]; a.name != a.source && s.given == nil {
			s.taken = append(s.taken, s.at(s.entry.name, "assumed: %s is named %s in the definition, where %s means something else", a.source, a.name, a.source))
		}
	}
	for s.result != nil && taken[s.result.name] {
		s.result.name += "_"
	}
	if s.result != nil && s.given == nil {
		s.taken = append(s.taken, s.at(s.entry.name, "%s is an output of one element: what %s returns", s.result.name, s.entry.id))
	}
}

func (s *source) argument(at int, text string) error {
	at += len(text) - len(strings.TrimLeft(text, " \t\r\n"))
	text = strings.TrimSpace(text)
	shown := strings.Join(strings.Fields(text), " ")
	a := argument{restrict: strings.Contains(text, "restrict")}
	declared, brackets, array := strings.Cut(text, "[")
	stars := strings.Count(declared, "*")
	m := lastWord.FindStringSubmatchIndex(declared)
	if m == nil || strings.ContainsAny(declared, "&()=<>") || stars > 1 || stars == 1 && array {
		return s.fault(at, "the argument %q of %s is neither a number nor a pointer to numbers: give the kernel such arguments", shown, s.entry.id)
	}
	a.name, a.pointer = declared[m[2]:m[3]], stars == 1 || array
	a.source = a.name
	typed := declared[:m[2]]
	if stars == 1 {
		typed, _, _ = strings.Cut(typed, "*")
	}
	a.input = regexp.MustCompile(`\bconst\b`).MatchString(typed)
	a.ctype = strings.Join(strings.Fields(qualifiers.ReplaceAllString(typed, " ")), " ")
	for _, t := range s.templates {
		if t.name == a.ctype {
			a.ctype = t.fixed
			if a.ctype == "" && len(t.values) == 1 {
				a.ctype = fmt.Sprint(t.values[0])
			}
			if a.ctype == "" {
				return s.fault(at, "%s is of the type %s, of which there are several: fix it with // tune: %s = float, since a definition has one type of element", a.name, t.name, t.name)
			}
		}
	}
	if array {
		for _, x := range strings.Split(brackets, "[") {
			x = strings.TrimSuffix(strings.TrimSpace(x), "]")
			x = strings.TrimSpace(strings.ReplaceAll(qualifiers.ReplaceAllString(x, " "), "static", " "))
			a.axes = append(a.axes, x)
		}
	}
	if a.nested = len(a.axes) > 1; a.nested && s.cuda {
		return s.fault(at, "%s is an array of arrays, whose size a caller in CUDA cannot give: make it a pointer", a.name)
	}
	e, ok := elements[a.ctype]
	if said, has := s.declared[a.name]; has && a.pointer {
		held := e.dtype.Size() * int64(e.each) // 0 for what is not known
		if e, ok = elements[said.text]; !ok {
			return s.fault(said.at, "%s cannot be declared as %s: %s", a.name, said.text, known)
		}
		size := e.dtype.Size() * int64(e.each)
		if held > 1 && held%size != 0 { // of single bytes are buffers of anything
			return s.fault(said.at, "%s points to %s, which has %d bytes, and is declared as %s, which has %d: correct one of the two", a.name, a.ctype, held, said.text, size)
		}
		e.each, e.cast = e.each*int(max(held/size, 1)), true
	}
	dtype := e.dtype
	words := strings.Fields(a.ctype)
	switch {
	case a.ctype == "":
		return s.fault(at, "the argument %q of %s has no name: name it", shown, s.entry.id)
	case a.pointer && !ok && s.given != nil: // a type that the source names itself
	case a.pointer && !s.cuda && dtype.FP8():
		return s.fault(at, "%s holds elements of the type %s, which GPUs alone have: give a source whose name ends in .cu", a.name, cmp.Or(s.declared[a.name].text, a.ctype))
	case a.pointer && !s.cuda && !e.cast && (dtype == kernels.F16 || dtype == kernels.BF16):
		return s.fault(at, "%s holds elements of the type %s, which C does not have: take uint16_t, and say what its bits are, as // tune: %s = %s", a.name, a.ctype, a.name, deviceType(dtype))
	case a.pointer && !ok:
		return s.fault(at, "%s points to elements of the type %s, which evotune does not know: write what it holds, as // tune: %s = float; %s", a.name, a.ctype, a.name, known)
	case a.pointer:
		a.dtype, a.each, a.cast = dtype, e.each, e.cast
		if a.each > 1 { // the definition counts numbers
			a.axes = nil
		}
	case dtype == kernels.F32 || dtype == kernels.F64:
		a.dtype = dtype
	case !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(sizes, w) }):
		a.dtype, a.flag = kernels.I64, a.ctype == "bool" || a.ctype == "_Bool"
	default:
		return s.fault(at, "%s is of the type %s, which evotune cannot pass: give the kernel integers, float or double", a.name, a.ctype)
	}
	_, said := s.declared[a.name]
	if a.pointer && !said && s.given == nil && dtype == kernels.U16 && e.each == 1 {
		s.taken = append(s.taken, s.at(at, "assumed: the elements of %s are whole numbers; if they are the bits of halves, say so, as // tune: %s = __half", a.name, a.name))
	}
	if a.pointer && !said && s.given == nil && e.unsigned(a.ctype) {
		s.taken = append(s.taken, s.at(at, "assumed: the elements of %s stay below 2^%d: the definition has no %s and holds them as %s", a.name, 8*dtype.Size()-1, a.ctype, dtype))
	}
	assumed, role := "", "a scalar"
	if s.given != nil {
		s.arguments = append(s.arguments, a)
		return nil
	}
	switch {
	case a.pointer && a.input:
		role = "an input: const"
	case a.pointer:
		if a.changed = s.changes(a.source); a.changed == 0 {
			role = "an output: not const"
		} else {
			role = "an output or both: not const"
		}
	case a.dtype == kernels.I64:
		role = "a dimension: every integer becomes one; a flag or a stride too"
		assumed = "assumed: "
	}
	s.taken = append(s.taken, s.at(at, "%s%s is %s", assumed, a.name, role))
	s.arguments = append(s.arguments, a)
	return nil
}

// known are the types of elements, for messages.
const known = "there are float, double, int64_t, int32_t, int16_t, int8_t, uint32_t, uint16_t and uint8_t, in CUDA __half, __nv_bfloat16, __nv_fp8_e4m3 and __nv_fp8_e5m2 too"

// changes finds the line of the entry that adds to elements of a buffer, or otherwise
// updates them: 0 for none.
func (s *source) changes(name string) int { return s.follows(name, changing) }

// assigns finds the line of the entry that writes elements of a buffer: 0 for none.
func (s *source) assigns(name string) int { return s.follows(name, assigning) }

// follows finds the line of the entry where a pattern matches after an element of a
// buffer, or an atomic operation changes it: 0 for none.
func (s *source) follows(name string, after *regexp.Regexp) int {
	body := s.bare[s.entry.body:s.entry.stop]
	if at := regexp.MustCompile(`\batomic\w+\s*\(\s*&?\s*` + name + `\b`).FindStringIndex(body); at != nil {
		return s.line(s.entry.body + at[0])
	}
	for _, at := range regexp.MustCompile(`\*\s*`+name+`\b[\s)]*`).FindAllStringIndex(body, -1) {
		if after.MatchString(body[at[1]:]) {
			return s.line(s.entry.body + at[0])
		}
	}
	for _, at := range regexp.MustCompile(`\b`+name+`\s*\[`).FindAllStringIndex(body, -1) {
		depth := 0
		for i := at[1] - 1; i < len(body); i++ {
			switch body[i] {
			case '[':
				depth++
				continue
			case ']':
				if depth--; depth > 0 {
					continue
				}
			default:
				continue
			}
			rest := strings.TrimLeft(body[i+1:], " \t\r\n")
			if strings.HasPrefix(rest, "[") {
				continue
			}
			if after.MatchString(rest) {
				return s.line(s.entry.body + at[0])
			}
			break
		}
	}
	return 0
}

var (
	changing  = regexp.MustCompile(`^(([-+*/%&|^]|<<|>>)=|\+\+|--)`)
	assigning = regexp.MustCompile(`^(\.\w+\s*)?(([-+*/%&|^]|<<|>>)?=([^=]|$)|\+\+|--)`)
)

// hostFile matches headers of the host, which NVRTC lacks and code for a GPU does not need: those of C
// and C++, CUDA's for the host and its libraries, and those of PyTorch. A header that is not
// known may declare what the kernel calls, and the compiler says whether it has it.
var (
	hostInclude = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>[^\n]*$`)
	hostFile    = regexp.MustCompile(`^([a-z_]+|(assert|complex|ctype|errno|fenv|float|getopt|inttypes|iso646|libgen|limits|locale|malloc|math|memory|mpi|omp|pthread|` +
		`setjmp|signal|std(arg|bool|def|int|io|lib)|strings?|time|uchar|unistd|wchar|wctype|values|windows|` +
		`cuda|cuda_runtime(_api)?|cuda_profiler_api|cudaProfiler|curand|driver_types|device_launch_parameters|helper_\w+|nccl|nvml|nvToolsExt|cu(blas|dnn|fft|solver|sparse)\w*)\.h(pp)?|` +
		`(sys|nvtx3|torch|ATen|c10|pybind11)/.*|Python\.h)$`)
	extents = regexp.MustCompile(`\bdim3\b[^;]*`)
	openMP  = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*pragma[ \t]+omp\b`)
)

// leaves says whether a function is left out: one that runs on the host.
func (s *source) leaves(f function) bool {
	return f.id != s.entry.id && (f.id == "main" || s.cuda && !s.has(f, "__device__") && !s.has(f, "__global__") && !s.has(f, "constexpr"))
}

// adapt notes what else changes between the source and the template.
func (s *source) adapt() {
	why := ""
	if s.cuda {
		why = ", which runs on the host,"
	}
	drop := func(f function) {
		s.edits = append(s.edits, edit{f.head, f.stop, "/* " + f.id + why + " is left out. */"})
		s.taken = append(s.taken, s.at(f.name, "%s%s is left out", f.id, why))
		for _, d := range s.prototypes(f.id) {
			s.edits = append(s.edits, edit{d[0] + len(s.bare[d[0]:d[1]]) - len(strings.TrimLeft(s.bare[d[0]:d[1]], " \t\r\n")), d[1] + 1, ""})
		}
	}
	for _, f := range s.functions {
		if s.leaves(f) {
			drop(f)
		}
	}
	if at := openMP.FindStringIndex(s.text); at != nil && !s.cuda {
		s.taken = append(s.taken, s.at(at[0], "OpenMP is not used: the compiler gets no -fopenmp"))
	}
	s.original = maps.Clone(s.included)
	maps.DeleteFunc(s.original, func(file, _ string) bool { return s.lent[file] })
	if !s.cuda {
		s.hide()
		return
	}
	s.edits = append(s.edits, guardHost(s.text)...)
	for name, text := range s.included {
		if !s.lent[name] {
			s.included[name] = apply(text, guardHost(text))
		}
	}
	// A kernel cannot call another: the source's becomes a device function, also where it is
	// only declared.
	s.bounds = s.ofDevice(s.entry.head, s.entry.name)
	for _, d := range s.prototypes(s.entry.id) {
		s.ofDevice(d[0], d[1])
	}
}

// ofDevice makes a kernel's head that of a device function, and returns its __launch_bounds__.
func (s *source) ofDevice(from, to int) (bounds string) {
	head := s.bare[from:to]
	for _, at := range regexp.MustCompile(`\b__global__\b`).FindAllStringIndex(head, -1) {
		s.edits = append(s.edits, edit{from + at[0], from + at[1], "__device__ __forceinline__"})
	}
	if at := regexp.MustCompile(`\bextern\s+`).FindStringIndex(head); at != nil {
		s.edits = append(s.edits, edit{from + at[0], from + at[1], ""}) // with its "C", which is blank here
	}
	at := strings.Index(head, "__launch_bounds__")
	if at < 0 {
		return ""
	}
	depth := 0
	for i := at; i < len(head); i++ {
		if head[i] == '(' {
			depth++
		} else if head[i] == ')' {
			if depth--; depth == 0 {
				end := from + i + 1
				bounds = s.text[from+at : end]
				end += len(s.bare[end:to]) - len(strings.TrimLeft(s.bare[end:to], " \n"))
				s.edits = append(s.edits, edit{from + at, end, ""})
				break
			}
		}
	}
	return bounds
}

// prototypes finds the declarations of a function without its body.
func (s *source) prototypes(id string) (list [][2]int) {
	prototype := regexp.MustCompile(`^(\s*template\s*<[^;]*?>)?[^=(]*\b(__launch_bounds__\s*\([^;]*\)[^=(]*\b)?` + id + `\s*\(`)
	for _, d := range s.declarations {
		if prototype.MatchString(s.bare[d[0]:d[1]]) {
			list = append(list, d)
		}
	}
	return list
}

// guardHost hides from NVRTC the includes of headers of the host.
func guardHost(text string) (list []edit) {
	after := -1 // the end of the include before
	for _, m := range hostInclude.FindAllStringSubmatchIndex(text, -1) {
		switch {
		case !hostFile.MatchString(text[m[2]:m[3]]):
			continue
		case len(list) > 0 && after == m[0]-1: // between the same two lines
			list[len(list)-1] = edit{m[1], m[1], list[len(list)-1].text}
		default:
			list = append(list, edit{m[0], m[0], "#ifndef __CUDACC_RTC__\n"}, edit{m[1], m[1], "\n#endif"})
		}
		after = m[1]
	}
	return list
}

// apply makes edits, which are in order, in a text.
func apply(text string, edits []edit) string {
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(text[at:e.from] + e.text)
		at = e.to
	}
	return b.String() + text[at:]
}

var linkage = regexp.MustCompile(`^extern\s*"C"`)

// hide makes functions static, because a library holds several candidates of a kernel.
func (s *source) hide() {
	static := func(from, to int) {
		head := s.bare[from:to]
		switch at := regexp.MustCompile(`\bextern\b`).FindStringIndex(head); {
		case regexp.MustCompile(`\bstatic\b`).MatchString(head):
		case at != nil:
			begin, end := from+at[0], from+at[1]
			if c := linkage.FindString(s.text[begin:]); c != "" { // as for a C++ compiler
				end = begin + len(c)
			}
			s.edits = append(s.edits, edit{begin, end, "static"})
		default:
			from += len(head) - len(strings.TrimLeft(head, " \t\r\n"))
			s.edits = append(s.edits, edit{from, from, "static "})
		}
	}
	for _, f := range s.functions {
		if f.id == "main" {
			continue
		}
		static(f.head, f.name)
		for _, d := range s.prototypes(f.id) {
			static(d[0], d[1])
		}
	}
}

var opening = strings.NewReplacer("{{", `{{"{{"}}`)

// template returns the source with its edits, and the function that evotune calls. Marked says that the lines have marks
// of where they come from: what evotune adds comes from where it belongs in the source.
func (s *source) template(entry string, marked bool) string {
	slices.SortStableFunc(s.edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	literal := opening.Replace
	var within [][]int // actions
	if s.actions {
		literal = func(text string) string { return text }
		within = action.FindAllStringIndex(s.text, -1)
	}
	own := func(from, to int) {
		text := literal(s.text[from:to])
		if marked {
			first := s.line(from)
			text = mark(text, 0, func(ends, offset int) int {
				if slices.ContainsFunc(within, func(a []int) bool { return a[0] < from+offset && from+offset < a[1] }) {
					return 0
				}
				return first + ends
			})
		}
		b.WriteString(text)
	}
	added := func(text string, at int) {
		if marked {
			text = mark(text, 0, func(_, _ int) int { return s.line(at) })
		}
		b.WriteString(text)
	}
	added(s.defines, s.entry.name)
	at := 0
	for _, e := range s.edits {
		if e.from < at { // inside a removed part
			continue
		}
		own(at, e.from)
		added(e.text, e.from)
		at = e.to
	}
	own(at, len(s.text))
	if !strings.HasSuffix(s.text, "\n") {
		added("\n", len(s.text))
	}
	added(s.caller(entry), s.entry.name)
	return b.String()
}

// caller is the function that evotune calls.
func (s *source) caller(entry string) string {
	var b strings.Builder
	b.WriteString("\n/* What evotune calls. */\n")
	if s.cuda {
		b.WriteString("extern \"C\" __global__ ")
	}
	b.WriteString("void ")
	if s.bounds != "" {
		b.WriteString(s.instance(s.bounds) + " ")
	}
	var params, call []string
	for _, a := range s.ordered() {
		switch {
		case !a.pointer && a.dtype == kernels.I64:
			params = append(params, "int64_t "+a.name)
		case !a.pointer:
			params = append(params, a.ctype+" "+a.name)
		default:
			star := " *"
			if a.restrict && s.cuda {
				star = " *__restrict__ "
			}
			ctype := a.dtype.C()
			if s.cuda {
				ctype = deviceType(a.dtype)
			}
			if a.input {
				ctype = "const " + ctype
			}
			params = append(params, ctype+star+a.name)
		}
	}
	for _, a := range s.arguments {
		switch {
		case a.nested: // whatever the array's sizes
			call = append(call, "(void *)"+a.name)
		case a.cast:
			call = append(call, "("+s.instance(a.ctype)+" *)"+a.name)
		default:
			call = append(call, a.name)
		}
	}
	if s.given != nil {
		params, call = s.passed()
	}
	name := s.entry.id
	if len(s.templates) > 0 {
		var values []string
		for _, t := range s.templates {
			values = append(values, s.instance(t.name))
		}
		name += "<" + strings.Join(values, ", ") + ">"
	}
	if s.result != nil {
		name = s.result.name + "[0] = " + name
	}
	fmt.Fprintf(&b, "%s(%s)\n{\n\t%s(%s);\n}\n", entry, strings.Join(params, ", "), name, strings.Join(call, ", "))
	return b.String()
}

var anyWord = regexp.MustCompile(`[A-Za-z_]\w*`)

// instance replaces template parameters by their values.
func (s *source) instance(text string) string {
	return anyWord.ReplaceAllStringFunc(text, func(word string) string {
		for _, t := range s.templates {
			if t.name == word {
				if t.fixed != "" {
					return t.fixed
				}
				return "{{." + word + "}}"
			}
		}
		return word
	})
}

// ordered lists the arguments as evotune passes them: dimensions, buffers, scalars.
func (s *source) ordered() []argument {
	rank := func(a argument) int {
		switch {
		case a.pointer:
			return 1
		case a.dtype.Float():
			return 2
		}
		return 0
	}
	list := slices.Clone(s.arguments)
	if s.result != nil {
		list = append(list, *s.result)
	}
	slices.SortStableFunc(list, func(a, b argument) int { return rank(a) - rank(b) })
	return list
}
