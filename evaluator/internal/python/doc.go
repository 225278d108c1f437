// Package python runs what a kernel's definition has in Python: the reference, and
// functions that make inputs. It does so in a process of its own, in a jail, which stands
// still while nobody asks it for anything.
package python
