// Package option reads options from the structs that declare them. The tags of a field are all there is to say of an
// option, and everything else reads them: flags, the environment, config.toml, bodies of requests, the arguments of the
// Python package, reference pages and the commands that reports suggest.
//
//	Patience int `json:"patience,omitempty" flag:"patience" minimum:"0" maximum:"100000000" doc:"stop after <N> candidates without a new best (0: no limit)"`
//
//	json      its name in the log and in bodies
//	flag      its name as a flag; after a comma its default, if that is not the zero value
//	doc       what it does, as part of a sentence; the value may have a name in it: <N>
//	minimum, maximum, maxItems, enum   what it may be
//
// A field with doc and without a flag is for bodies alone. The zero value of a field means what it says: where zero is a
// value of its own and not the default, the field is a pointer, and nil is the default. The default [Auto] is nil as well:
// what it stands for depends on other options.
package option

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Auto is the text of a nil pointer where the default is not a number, and off that of zero there.
const (
	Auto = "auto"
	off  = "off"
)

// A Field is one option.
type Field struct {
	// Name is that of the flag; empty without one.
	Name string
	// Key is its place in JSON, such as "budget.patience".
	Key string
	// Default is the text of the default; empty means the zero value.
	Default string
	Doc     string
	// Section is the doc of the innermost struct that has the field and is a field itself.
	Section string
	Type    reflect.Type
	Tag     reflect.StructTag

	index []int
}

var durationType = reflect.TypeFor[time.Duration]()

// Of lists the options that a struct declares, and those of the structs in it.
func Of(v any) []Field {
	return fields(reflect.Indirect(reflect.ValueOf(v)).Type(), Field{})
}

func fields(t reflect.Type, in Field) (list []Field) {
	for i := range t.NumField() {
		sf := t.Field(i)
		key, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		f := Field{Doc: sf.Tag.Get("doc"), Section: in.Section, Type: sf.Type, Tag: sf.Tag, index: append(slices.Clone(in.index), i), Key: in.Key}
		if !sf.Anonymous {
			f.Key = strings.TrimPrefix(in.Key+"."+key, ".")
		}
		name, tagged := sf.Tag.Lookup("flag")
		switch {
		case sf.Type.Kind() == reflect.Struct && (sf.Anonymous || sf.IsExported()):
			f.Section = cmp.Or(f.Doc, in.Section)
			list = append(list, fields(sf.Type, f)...)
			continue
		case !tagged && f.Doc == "":
			continue
		}
		f.Name, f.Default, _ = strings.Cut(name, ",")
		list = append(list, f)
	}
	return list
}

// Named picks options by their names, in the order of the list.
func Named(list []Field, names ...string) []Field {
	return slices.DeleteFunc(slices.Clone(list), func(f Field) bool { return f.Name == "" || !slices.Contains(names, f.Name) })
}

// Without leaves options out.
func Without(list []Field, names ...string) []Field {
	return slices.DeleteFunc(slices.Clone(list), func(f Field) bool { return slices.Contains(names, f.Name) })
}

// Names are those of the options that have one.
func Names(list []Field) (names []string) {
	for _, f := range list {
		if f.Name != "" {
			names = append(names, f.Name)
		}
	}
	return names
}

// Kind is what the values of an option are; a pointer has that of what it points to.
func (f Field) Kind() reflect.Type {
	if f.Type.Kind() == reflect.Pointer {
		return f.Type.Elem()
	}
	return f.Type
}

// List says whether the option has several values.
func (f Field) List() bool { return f.Type.Kind() == reflect.Slice }

// optional says whether the texts auto and off are values.
func (f Field) optional() bool { return f.Type.Kind() == reflect.Pointer && f.Default == Auto }

// Parse reads one value. The error says what to give.
func (f Field) Parse(text string) (reflect.Value, error) {
	v := reflect.New(f.Type).Elem()
	at := v
	if f.Type.Kind() == reflect.Pointer {
		if f.optional() && text == Auto {
			return v, nil
		}
		if f.optional() && text == off {
			text = "0"
		}
		v.Set(reflect.New(f.Type.Elem()))
		at = v.Elem()
	}
	if err := parse(at, text); err != nil {
		if f.optional() {
			err = errors.New("give auto, off or a whole number")
		}
		return v, err
	}
	if why := f.wrong(v); why != "" {
		return v, errors.New(why)
	}
	return v, nil
}

func parse(at reflect.Value, text string) error {
	switch {
	case at.Type() == durationType:
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("give a duration, such as 90s or 1h30m")
		}
		at.SetInt(int64(d))
	case at.CanInt():
		n, err := strconv.ParseInt(text, 0, at.Type().Bits())
		if err != nil {
			return errors.New("give a whole number")
		}
		at.SetInt(n)
	case at.CanFloat():
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("give a number")
		}
		at.SetFloat(x)
	case at.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("give true or false")
		}
		at.SetBool(b)
	case at.Kind() == reflect.String:
		at.SetString(text)
	default:
		panic(fmt.Sprintf("option: a field of the type %s", at.Type()))
	}
	return nil
}

// Read makes a value of what a configuration holds: a text, a number, true or false, or a list. Several values in one
// text are separated as paths are. The error says what to give.
func (f Field) Read(raw any) (reflect.Value, error) {
	if !f.List() {
		if _, text := raw.(string); !text && f.Kind().Kind() == reflect.String {
			return reflect.Zero(f.Type), errors.New("give a string")
		}
		return f.Parse(fmt.Sprint(raw))
	}
	var list []string
	switch raw := raw.(type) {
	case string:
		if raw != "" {
			list = filepath.SplitList(raw)
		}
	case []string:
		list = slices.Clone(raw)
	case []any:
		for _, v := range raw {
			list = append(list, fmt.Sprint(v))
		}
	default:
		return reflect.Zero(f.Type), errors.New("give a list of strings")
	}
	if len(list) == 0 {
		list = nil
	}
	v := reflect.ValueOf(list)
	if why := f.wrong(v); why != "" {
		return v, errors.New(why)
	}
	return v, nil
}

// DefaultValue is the default; nil for a pointer whose default is Auto.
func (f Field) DefaultValue() reflect.Value {
	if f.Default == "" {
		return reflect.Zero(f.Type)
	}
	v, err := f.Parse(f.Default)
	if err != nil {
		panic(fmt.Sprintf("option %s: the default %s: %v", f.Name, f.Default, err))
	}
	return v
}

// Value is the field in a struct like the one given to Of.
func (f Field) Value(v any) reflect.Value {
	return reflect.Indirect(reflect.ValueOf(v)).FieldByIndex(f.index)
}

// Text writes a value as Parse reads it: that of a flag. A list gives several.
func (f Field) Text(v reflect.Value) (texts []string) {
	if f.List() {
		for i := range v.Len() {
			texts = append(texts, v.Index(i).String())
		}
		return texts
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return []string{cmp.Or(f.Default, Auto)}
		}
		v = v.Elem()
	}
	return []string{text(v)}
}

func text(v reflect.Value) string {
	if v.CanFloat() {
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// Fill sets the fields of a struct that have no value to their defaults.
func Fill(v any) {
	for _, f := range Of(v) {
		if at := f.Value(v); at.IsZero() {
			at.Set(f.DefaultValue())
		}
	}
}

// A Wrong option has a value that it must not have.
type Wrong struct {
	Field
	// Why is what it is and what to give, such as "is -1: give 0 to 1024".
	Why string
}

// Check lists the options of a struct that are wrong.
func Check(v any) (list []Wrong) {
	for _, f := range Of(v) {
		at := f.Value(v)
		why := f.wrong(at)
		switch {
		case why == "":
			continue
		case f.List():
			why = fmt.Sprintf("is there %d times: %s", at.Len(), why)
		case f.Kind().Kind() == reflect.String:
			why = fmt.Sprintf("is %q: %s", at.String(), why)
		default:
			why = fmt.Sprintf("is %v: %s", text(reflect.Indirect(at)), why)
		}
		list = append(list, Wrong{f, why})
	}
	return list
}

// wrong says what to give instead of a value; empty where it is right. The zero value of a field that is not a
// pointer is its default.
func (f Field) wrong(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	} else if v.IsZero() {
		return ""
	}
	switch {
	case f.List():
		if most, err := strconv.Atoi(f.Tag.Get("maxItems")); err == nil && v.Len() > most {
			return fmt.Sprintf("give at most %d", most)
		}
	case v.Kind() == reflect.String:
		if values := f.Values(); len(values) > 0 && !slices.Contains(values, v.String()) {
			return "give " + strings.Join(values[:len(values)-1], ", ") + " or " + values[len(values)-1]
		}
	case v.CanInt() || v.CanFloat():
		x := func(v reflect.Value) float64 {
			if v.CanInt() {
				return float64(v.Int())
			}
			return v.Float()
		}
		least, most := f.bound("minimum"), f.bound("maximum")
		low, high := least.IsValid() && !(x(v) >= x(least)), most.IsValid() && !(x(v) <= x(most)) // not a number, too
		switch {
		case !low && !high:
		case low && !high && least.IsZero():
			return "it must not be negative"
		case least.IsValid() && most.IsValid():
			return fmt.Sprintf("give %s to %s", text(least), text(most))
		case low:
			return "give at least " + text(least)
		default:
			return "give at most " + text(most)
		}
	}
	return ""
}

// Values are all that a text may be; nil where it may be any.
func (f Field) Values() []string {
	if values := f.Tag.Get("enum"); values != "" {
		return strings.Split(values, ",")
	}
	return nil
}

// Bounds are the texts of the least and the largest value; empty without one.
func (f Field) Bounds() (least, most string) {
	if v := f.bound("minimum"); v.IsValid() {
		least = text(v)
	}
	if v := f.bound("maximum"); v.IsValid() {
		most = text(v)
	}
	return least, most
}

// bound is the limit of a tag as a value of the option; invalid without one.
func (f Field) bound(tag string) (v reflect.Value) {
	limit := f.Tag.Get(tag)
	if limit == "" {
		return v
	}
	x, err := strconv.ParseFloat(limit, 64)
	if err != nil {
		panic(fmt.Sprintf("option %s: the limit %q: %v", f.Name, limit, err))
	}
	return reflect.ValueOf(x).Convert(f.Kind())
}

var named = regexp.MustCompile(`<(\w+)>`)

// Usage is the doc of a flag, with the value's name between backquotes.
func (f Field) Usage() string {
	doc := named.ReplaceAllString(f.Doc, "`$1`")
	if before, after, found := strings.Cut(doc, "(default:"); f.List() && found {
		return before + "(repeatable; default:" + after
	} else if f.List() {
		return doc + " (repeatable)"
	}
	return doc
}

// Sentence is a doc as a sentence.
func Sentence(doc string) string {
	doc = named.ReplaceAllString(doc, "$1")
	for i, r := range doc {
		return string(unicode.ToUpper(r)) + doc[i+len(string(r)):] + "."
	}
	return ""
}
