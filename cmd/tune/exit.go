package main

import (
	"errors"
	"fmt"

	"github.com/evotune/evotune"
)

// Exit statuses. They are printed by every command's help.
const (
	exitOK          = 0
	exitFailure     = 1
	exitBadInput    = 2
	exitNoCandidate = 3
	exitFindings    = 4
	exitSlower      = 5
	exitDisturbed   = 6
	exitCompile     = 10
	exitInspect     = 11
	exitLaunch      = 12
	exitTimeout     = 13
	exitParity      = 14
	exitSanitizer   = 15
	exitImplausible = 16
	exitInterrupted = 130
)

// exitHelp explains the statuses that a command can end with.
func exitHelp(codes ...int) string {
	meaning := map[int]string{
		exitOK:          "success",
		exitFailure:     "evotune or the machine failed",
		exitBadInput:    "bad input: flags, configuration, a kernel, a name that does not exist",
		exitNoCandidate: "no valid candidate",
		exitFindings:    "the command worked and found something wrong",
		exitSlower:      "a candidate has become slower, or is no longer correct",
		exitDisturbed:   "the machine is too busy to measure: nothing was found right or wrong",
		exitCompile:     "it does not compile, or cannot be launched as it says",
		exitInspect:     "its machine code has what the definition or the file forbids, or lacks what it requires",
		exitLaunch:      "it crashed, exited, or did what kernels must not do",
		exitTimeout:     "it did not answer in time",
		exitParity:      "its output is wrong or not deterministic, or it wrote elsewhere too",
		exitSanitizer:   "a sanitizer found a fault",
		exitImplausible: "its time cannot be true",
		exitInterrupted: "interrupted; `tune resume` continues",
	}
	s := "\nExit status:\n"
	for _, c := range codes {
		s += fmt.Sprintf("  %-4d %s\n", c, meaning[c])
	}
	return s
}

// An exitError ends the program with a status. A nil err prints nothing: the
// command has already printed the reason.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// badInput marks an error as one that the user can correct.
func badInput(err error) error {
	var e *exitError
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &exitError{exitBadInput, err}
}

func badInputf(format string, args ...any) error { return badInput(fmt.Errorf(format, args...)) }

// statusOf is the exit status of an error that has none of its own.
func statusOf(err error) int {
	switch {
	case errors.Is(err, evotune.ErrInput):
		return exitBadInput
	case errors.Is(err, evotune.ErrNoCandidate), errors.Is(err, evotune.ErrUnproven):
		return exitNoCandidate
	case errors.Is(err, evotune.ErrDisturbed):
		return exitDisturbed
	}
	return exitFailure
}
