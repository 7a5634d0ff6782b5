package commands

// A conversation in a terminal. Ctrl-C ends what is under way: an answer, which then stays in the
// conversation as far as it came, or, at the prompt, the program. Reads of the terminal cannot be
// interrupted, so they run aside.

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
	"headroom/engine/chat"
)

// Chat is `headroom chat`.
type Chat struct {
	ModelFlags
	AnswerFlags
	Model string `arg:"" optional:"" help:"Model to talk to: an ID, a name or a folder. Default: the bundled demo model."`
}

const chatHelp = "/reset forgets the conversation, /exit or Ctrl-D ends, Ctrl-C stops an answer."

// Run goes on until /exit, the end of input, SIGTERM, or Ctrl-C while nothing is being answered.
func (c *Chat) Run(ctx context.Context, t *terminal) error {
	kept := openSettings()
	h := c.newHost(kept, hostUse{ssd: true})
	defer h.Close()
	if err := load(ctx, h, cmp.Or(c.Model, c.Named), t.err); err != nil {
		return err
	}
	m, err := h.Acquire("")
	if err != nil {
		return err
	}
	// From here on Ctrl-C belongs to the answer, not to the program.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer stop()

	lines := newLineReader(t)
	talk := &talker{model: m, flags: &c.AnswerFlags,
		defaults: control.RequestDefaults(kept.Get().ForModel(m.ID)), out: t.out,
		style: styled(t.out)}
	if lines.interactive() {
		fmt.Fprintf(t.err, "%s. %s\n", m.ID, chatHelp)
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
			fmt.Fprintln(errOut, "The conversation starts anew.")
			continue
		case line == "/help":
			fmt.Fprintln(errOut, chatHelp)
			continue
		}
		asked := append(messages, chat.Message{Role: "user", Content: line})
		answer, err := untilInterrupt(ctx, interrupts,
			func(ctx context.Context) (said, error) { return talk.answer(ctx, asked) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !interrupted(err) {
			report(err, errOut) // a prompt that has grown too long, say: the conversation can go on
			continue
		}
		// What was said before Ctrl-C is part of the conversation too.
		messages = append(asked,
			chat.Message{Role: "assistant", Content: answer.content,
				ReasoningContent: answer.reasoning})
		fmt.Fprintln(errOut, answer.speed())
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

// leaving runs a read that nothing can interrupt. If ctx ends first, it returns ctx's error and
// leaves the read behind, which only a program that is about to end may do.
func leaving[T any](ctx context.Context, read func() (T, error)) (T, error) {
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

// lineReader reads what the user types: with editing and history in a terminal, plainly from a
// pipe.
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

// next returns a line, io.EOF at the end or after Ctrl-D, and ctx's error when it ends; the reader
// is of no more use then. The terminal is raw only while it reads, so that Ctrl-C is a signal while
// the model answers.
func (r *lineReader) next(ctx context.Context) (string, error) {
	if r.file == nil {
		return leaving(ctx, func() (string, error) {
			if r.scanner.Scan() {
				return r.scanner.Text(), nil
			}
			return "", errors.Join(r.scanner.Err(), io.EOF)
		})
	}
	if width, height, err := term.GetSize(int(r.file.Fd())); err == nil && width > 0 {
		// 0: a terminal that does not know
		_ = r.editor.SetSize(width, height)
	}
	before, err := term.MakeRaw(int(r.file.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(r.file.Fd()), before) }()
	return leaving(ctx, r.editor.ReadLine)
}
