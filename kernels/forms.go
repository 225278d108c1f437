package kernels

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/evotune/evotune/internal/naming"
)

// This file reads one of several kernels from a folder: an operator in several types, or with several epilogues. Each
// [[form]] is a kernel, with words that stand for what differs ($TYPE); a table with forms = ["NAME"] belongs to those alone.
// What is left of the tables is decoded as if the folder had this kernel only.

var (
	formWord = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	aWord    = regexp.MustCompile(`\$[A-Z][A-Z0-9_]*`)
)

// choose reduces kernel.toml to one of its forms: the one that its name says, or the one that is asked for, or the one with the
// folder's name.
func (l *loader) choose() {
	root := l.d.root
	list := root.children["form"]
	if l.formed = list != nil; !l.formed {
		return
	}
	if !list.tables {
		l.d.fail(list.at, "form is %s: write tables [[form]], one for each kernel of the folder", list.kind)
	}
	var all []*formTable
	var names []string
	for _, item := range list.items {
		t := &formTable{}
		l.d.decode(item, t)
		if slices.Contains(names, t.Name.str) {
			l.d.fail(t.Name.at, "form %s: the name is already taken: choose another", t.Name.str)
		}
		all, names = append(all, t), append(names, t.Name.str)
	}
	name, own := l.form, root.children["name"]
	named := own != nil
	if named {
		name = own.str
	} else if name == "" {
		name = path.Base(strings.ReplaceAll(l.display, "\\", "/"))
	}
	i := slices.Index(names, name)
	if i < 0 {
		l.d.fail(list.items[0].key, "the folder has the kernels %s, and none has the name %s: write name = %q at the top, or rename the folder", strings.Join(names, ", "), name, names[0])
	}
	form := all[i]
	for _, other := range all {
		for _, word := range other.words() {
			if !formWord.MatchString(word) {
				l.d.fail(other.Words.children[word].key, "the word %q has other characters than A-Z, 0-9 and _: correct it", word)
			}
			if !slices.Contains(form.words(), word) {
				l.d.fail(form.Table.key, "form %s lacks the word %s, which form %s has: add it to words", name, word, other.Name.str)
			}
		}
	}
	root.remove("form")
	for _, key := range []struct {
		name string
		to   *node
	}{{"name", form.Name}, {"description", form.Description}} {
		if root.children[key.name] == nil {
			root.set(key.name, key.to)
		}
	}
	c := chooser{l: l, form: name, names: names, words: form.Words, used: map[string]bool{}}
	c.table(root)
	for _, word := range form.words() {
		if !c.used[word] {
			l.d.fail(form.Words.children[word].key, "nothing that form %s has says $%s: use the word, or remove it", name, word)
		}
	}
	if !named {
		l.texts[DefinitionFile] = "name = \"" + name + "\"\n" + l.texts[DefinitionFile] // a folder with these files has this kernel alone
	}
}

func (f *formTable) words() []string {
	if f.Words == nil {
		return nil
	}
	return f.Words.names
}

// A chooser keeps what belongs to one form.
type chooser struct {
	l     *loader
	form  string
	names []string
	words *node // of the form; nil if it has none
	used  map[string]bool
}

// belongs says whether a table is part of the form, and removes the key that says so.
func (c *chooser) belongs(n *node) bool {
	only := n.children["forms"]
	if n.kind != tableNode || only == nil {
		return true
	}
	c.l.d.expect("forms", only, arrayNode)
	for _, item := range only.items {
		if !slices.Contains(c.names, item.str) {
			c.l.d.fail(item.at, "the folder has no form %q: %s", item.str, naming.Suggest(item.str, c.names))
		}
	}
	n.remove("forms")
	return slices.ContainsFunc(only.items, func(item *node) bool { return item.str == c.form })
}

func (c *chooser) table(n *node) {
	for _, name := range slices.Clone(n.names) {
		child := n.children[name]
		if !c.belongs(child) {
			n.remove(name)
			continue
		}
		if child.tables {
			child.items = slices.DeleteFunc(child.items, func(item *node) bool { return !c.belongs(item) })
			if len(child.items) == 0 {
				n.remove(name)
				continue
			}
		}
		if key := c.say(name, child); key != name {
			n.names[slices.Index(n.names, name)] = key
			delete(n.children, name)
			n.children[key] = child
		}
		c.value(child)
	}
}

func (c *chooser) value(n *node) {
	switch n.kind {
	case tableNode:
		c.table(n)
	case arrayNode:
		for _, item := range n.items {
			c.value(item)
		}
	case stringNode:
		if word := strings.TrimPrefix(n.str, "$"); c.words != nil && word != n.str && c.words.children[word] != nil {
			at, key := n.at, n.key
			*n = *c.words.children[word] // of any kind
			n.at, n.key = at, key
			c.used[word] = true
			return
		}
		n.str = c.say(n.str, n)
		n.value = n.str
	}
}

// say replaces the words in a text.
func (c *chooser) say(text string, at *node) string {
	return aWord.ReplaceAllStringFunc(text, func(s string) string {
		w := c.words.child(s[1:])
		if w == nil || w.kind != stringNode {
			c.l.d.fail(at.at, "form %s has no text %s: add it to words", c.form, s[1:])
		}
		c.used[s[1:]] = true
		return w.str
	})
}

// remove takes a key out of a table.
func (n *node) remove(name string) {
	delete(n.children, name)
	n.names = slices.DeleteFunc(n.names, func(s string) bool { return s == name })
}
