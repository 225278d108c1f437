// Package ask answers questions about stored candidates: which winner is nearest to a
// problem, and which candidates meet a condition.
//
// [Distance] and the rule of nearness are pure functions of shapes and devices;
// docs/ask.md has them in words. Nothing here runs a kernel or writes to the
// store.
package ask
