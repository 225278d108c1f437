// Package export writes winners as a library that other programs build and call: in C
// for processors, in CUDA for NVIDIA's GPUs, and for PyTorch.
//
// The files depend on the winners and the options alone, and a manifest among them
// says what is known of each winner. docs/export.md and docs/export.md walk
// through them. They come from the folder files: common has what libraries in both
// languages share. Nothing here runs a kernel or reads the store.
package export
