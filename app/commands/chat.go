package commands

// A conversation in the terminal. Ctrl-C stops an answer, and the text so far stays in the
// conversation. At the prompt, Ctrl-C ends the program. Reads of the terminal cannot be
// interrupted, so they run in goroutines.

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"headroom/app/control"
	"headroom/app/service"
	"headroom/engine/chat"
)

// Chat is `headroom chat`.
type Chat struct {
	ModelFlags
	AnswerFlags
	Model string `arg:"" optional:"" help:"Model to talk to: an ID, a name, an alias or a folder. Default: the bundled demo model."`
}

const chatHelp = "/reset starts a new conversation, /exit or Ctrl-D quits, Ctrl-C stops an answer."

// Run ends at /exit, the end of input, SIGTERM, or Ctrl-C at the prompt.
func (c *Chat) Run(ctx context.Context, t *terminal) error {
	file := service.OpenSettings()
	h := c.newHost(file, hostUse{ssd: true})
	defer h.Close()
	if err := load(ctx, h, file, cmp.Or(c.Model, c.Named), t.err); err != nil {
		return err
	}
	m, err := h.Acquire("")
	if err != nil {
		return err
	}
	// From here on Ctrl-C stops the answer, not the program.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer stop()

	lines := newLineReader(t)
	noteNoTemplate(t.err, m)
	talk := &talker{model: m, flags: &c.AnswerFlags,
		defaults: control.RequestDefaults(file.Get().ForModel(m.ID)), out: t.out,
		style: styled(t.out), logs: t.logs}
	if lines.interactive() {
		fmt.Fprintf(t.err, "%s. %s\n", oneLine(m.ID), chatHelp)
	}
	return c.converse(ctx, talk, lines, interrupts, t.err)
}

// converse reads lines and answers them.
func (c *Chat) converse(ctx context.Context, talk *talker, lines *lineReader,
	interrupts <-chan os.Signal, errOut io.Writer) error {
	messages := c.messages("")
	for {
		line, err := untilInterrupt(ctx, interrupts, lines.next)
		switch line = strings.TrimSpace(line); {
		case err != nil && errors.Is(err, io.EOF), line == "/exit", line == "/quit":
			return nil
		case err != nil:
			return err
		case line == "":
			continue
		case line == "/reset":
			messages = c.messages("")
			fmt.Fprintln(errOut, "A new conversation starts.")
			continue
		case line == "/help":
			fmt.Fprintln(errOut, chatHelp)
			continue
		}
		asked := append(messages, chat.Message{Role: "user", Content: line})
		answer, err := untilInterrupt(ctx, interrupts,
			func(ctx context.Context) (reply, error) { return talk.answer(ctx, asked) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !interrupted(err) {
			report(err, errOut) // for example a prompt that is too long: the conversation can go on
			continue
		}
		// The part of the answer before Ctrl-C belongs to the conversation.
		messages = append(asked,
			chat.Message{Role: "assistant", Content: answer.content,
				ReasoningContent: answer.reasoning})
		answer.figures(errOut)
	}
}

// untilInterrupt runs f with a context that Ctrl-C ends.
func untilInterrupt[T any](ctx context.Context, interrupts <-chan os.Signal,
	f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	return f(ctx)
}

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

// lineReader reads the user's lines, with editing and history in a terminal.
type lineReader struct {
	file     *os.File // nil: not a terminal
	editor   *term.Terminal
	scanner  *bufio.Scanner
	terminal *terminal
}

func newLineReader(t *terminal) *lineReader {
	r := &lineReader{terminal: t}
	if file, ok := t.in.(*os.File); ok && isTerminal(file) && isTerminal(t.out) {
		r.file = file
		r.editor = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{file, t.out}, "> ")
		return r
	}
	r.scanner = bufio.NewScanner(t.in)
	r.scanner.Buffer(nil, maxPromptBytes)
	return r
}

func (r *lineReader) interactive() bool { return r.file != nil }

// next returns a line, io.EOF at the end of input or after Ctrl-D, or ctx's error when ctx ends;
// the reader cannot be used after an error. The terminal is in raw mode only during a read, so that
// Ctrl-C is a signal while the model answers.
func (r *lineReader) next(ctx context.Context) (string, error) {
	if r.file == nil {
		return abandonable(ctx, func() (string, error) {
			if r.scanner.Scan() {
				return r.scanner.Text(), nil
			}
			return "", errors.Join(r.scanner.Err(), io.EOF)
		})
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
	return abandonable(ctx, r.editor.ReadLine)
}
