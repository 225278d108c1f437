// Package labs is what the labs of all kinds of devices have in common: their life
// and their description, the sizes of a plan's shapes, the peaks that they remember,
// and how a compiler is run on what a candidate consists of.
package labs
