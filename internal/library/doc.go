// Package library is for kernels that have won: it finds the stored winner that is
// nearest to a problem, and lets winners leave as files.
//
// [Distance] and the rule of nearness are pure functions of shapes and devices;
// docs/ask.md has them in words. Nothing here runs a kernel or writes to the
// store.
package library
