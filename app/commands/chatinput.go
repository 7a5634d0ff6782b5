package commands

// Reading a conversation's messages. A message is a line, several lines between """ and """, or
// what is pasted at once. Reads of the terminal cannot be interrupted, so they run in goroutines.

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// abandonable runs a read that cannot be interrupted. If ctx ends first, it returns ctx's error and
// leaks the read, so it is only for a program that is about to end.
func abandonable[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// lineReader reads the user's messages, with editing and history in a terminal.
type lineReader struct {
	file    *os.File // nil: not a terminal
	editor  *term.Terminal
	scanner *bufio.Scanner
}

// The prompts of a message's first line and of further lines.
const (
	firstPrompt = "> "
	morePrompt  = "... "
)

func newLineReader(t *terminal) *lineReader {
	r := &lineReader{}
	if file, ok := t.in.(*os.File); ok && isTerminal(file) && isTerminal(t.out) {
		r.file = file
		r.editor = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{file, t.out}, firstPrompt)
		return r
	}
	r.scanner = bufio.NewScanner(t.in)
	r.scanner.Buffer(nil, maxPromptBytes)
	return r
}

func (r *lineReader) interactive() bool { return r.file != nil }

// next returns a message, io.EOF at the end of input or after Ctrl-D, or ctx's error when ctx ends;
// the reader cannot be used after an error. The terminal is in raw mode only during a read, so that
// Ctrl-C is a signal while the model answers.
func (r *lineReader) next(ctx context.Context) (string, error) {
	if r.file == nil {
		scan := func() (string, error) {
			if r.scanner.Scan() {
				return r.scanner.Text(), nil
			}
			return "", errors.Join(r.scanner.Err(), io.EOF)
		}
		return abandonable(ctx,
			func() (string, error) { return readMessage(scan, func(string) {}) })
	}
	if width, height, err := term.GetSize(int(r.file.Fd())); err == nil && width > 0 {
		// 0 if the terminal does not report its size
		_ = r.editor.SetSize(width, height)
	}
	before, err := term.MakeRaw(int(r.file.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(r.file.Fd()), before) }()
	// A terminal marks what is pasted, so that its line ends do not send it.
	r.editor.SetBracketedPasteMode(true)
	defer r.editor.SetBracketedPasteMode(false)
	return abandonable(ctx,
		func() (string, error) { return readMessage(r.editor.ReadLine, r.editor.SetPrompt) })
}

// block begins and ends a message of several lines.
const block = `"""`

// readMessage reads a message. read returns the next line, with term.ErrPasteIndicator if all of it
// was pasted. prompt sets what the terminal shows before the next line. A block that the end of the
// input cuts off is a message.
func readMessage(read func() (string, error), prompt func(string)) (string, error) {
	defer prompt(firstPrompt)
	var lines []string
	inside := false
	for {
		line, err := read()
		pasted := errors.Is(err, term.ErrPasteIndicator)
		switch {
		case err != nil && !pasted && len(lines) > 0 && errors.Is(err, io.EOF):
			return strings.Join(lines, "\n"), nil
		case err != nil && !pasted:
			return "", err
		}
		rest, begins := strings.CutPrefix(strings.TrimLeft(line, " \t"), block)
		if !inside && begins {
			inside, line = true, rest
			prompt(morePrompt)
			if line == "" { // the text begins in the next line
				continue
			}
		}
		text, ends := strings.CutSuffix(strings.TrimRight(line, " \t"), block)
		if inside && ends {
			inside, line = false, text
		}
		lines = append(lines, line)
		if !inside && !pasted {
			return strings.Join(lines, "\n"), nil
		}
	}
}
