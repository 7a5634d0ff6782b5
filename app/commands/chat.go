package commands

// A conversation in the terminal. Ctrl-C stops an answer, and the text so far stays in the
// conversation. At the prompt, Ctrl-C ends the program.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"headroom/app/control"
	"headroom/app/service"
	"headroom/engine/chat"
)

// Chat is `headroom chat`.
type Chat struct {
	ModelFlags
	AnswerFlags
	OfferFlags
	Model string `arg:"" optional:"" help:"Model to talk to: an ID, a name, an alias or a folder, or org/name on the hub. Default: the bundled demo model."`
}

// Validate rejects flags that are not valid. kong calls it.
func (c *Chat) Validate() error {
	return errors.Join(c.ModelFlags.Validate(), c.AnswerFlags.check())
}

// Run ends at /exit, the end of input, SIGTERM, or Ctrl-C at the prompt.
func (c *Chat) Run(ctx context.Context, t *terminal) error {
	file := service.OpenSettings()
	h := c.newHost(file, hostUse{ssd: true})
	defer h.Close()
	if err := c.load(ctx, h, file, &c.ModelFlags, cmp.Or(c.Model, c.Named), t,
		true); err != nil {
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
	s := &session{talk: talk, system: c.System, errOut: t.err}
	s.messages = s.beginning()
	return s.converse(ctx, lines, interrupts)
}

// session is a conversation in the terminal.
type session struct {
	talk     *talker
	errOut   io.Writer
	system   string // the system message; "": none
	messages []chat.Message
	file     string // that it was saved to or loaded from; "": none
}

// converse reads messages and answers them.
func (s *session) converse(ctx context.Context, lines *lineReader,
	interrupts <-chan os.Signal) error {
	for {
		message, err := untilInterrupt(ctx, interrupts, lines.next)
		if err != nil && lines.interactive() {
			fmt.Fprintln(s.errOut) // the shell's prompt is not on the same line
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case strings.TrimSpace(message) == "":
			continue
		}
		is, asked, err := s.command(message)
		if errors.Is(err, errExit) {
			return nil
		}
		if err != nil {
			report(err, s.errOut)
		}
		switch {
		case is && asked == nil:
			continue
		case !is:
			asked = append(slices.Clip(s.messages),
				chat.Message{Role: "user", Content: strings.TrimSpace(message)})
		}
		if err := s.ask(ctx, asked, interrupts); err != nil {
			return err
		}
	}
}

// ask answers the last of the messages. The error is that of ctx.
func (s *session) ask(ctx context.Context, asked []chat.Message,
	interrupts <-chan os.Signal) error {
	answer, err := untilInterrupt(ctx, interrupts,
		func(ctx context.Context) (reply, error) { return s.talk.answer(ctx, asked) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !interrupted(err) {
		report(err, s.errOut) // for example a prompt that is too long: the conversation can go on
		return nil
	}
	// The part of the answer before Ctrl-C belongs to the conversation.
	s.messages = append(slices.Clip(asked), chat.Message{Role: "assistant", Content: answer.content,
		ReasoningContent: answer.reasoning})
	s.talk.flags.printFigures(s.errOut, answer, s.talk.model.Engine.Stats())
	return nil
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
