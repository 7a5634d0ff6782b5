package commands

// One prompt. Only the answer goes to stdout, so that it can be piped. Progress and figures go to
// stderr.

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"headroom/app/control"
	"headroom/app/service"
	"headroom/engine/chat"
	"headroom/engine/problem"
)

// Run is `headroom run`.
type Run struct {
	ModelFlags
	AnswerFlags
	Words []string `arg:"" name:"model-and-prompt" help:"MODEL and PROMPT, or PROMPT alone for the bundled demo model. A prompt of - is read from stdin."`
}

// maxPromptBytes bounds what is read from stdin.
const maxPromptBytes = 32 << 20

// Run answers the prompt.
func (c *Run) Run(ctx context.Context, t *terminal) error {
	model, prompt := c.Named, c.Words[0]
	switch {
	case len(c.Words) == 1:
	case len(c.Words) == 2 && c.Named == "":
		model, prompt = c.Words[0], c.Words[1]
	default:
		return problem.New(problem.BadRequest,
			fmt.Sprintf("run takes a model and a prompt, got %d words", len(c.Words)), "",
			"Put the prompt into quotes, and name the model once.")
	}
	if prompt == "-" {
		text, err := abandonable(ctx,
			func() ([]byte, error) { return io.ReadAll(io.LimitReader(t.in, maxPromptBytes)) })
		switch {
		case interrupted(err):
			return err
		case err != nil:
			return problem.Wrap(problem.BadRequest, err, "The prompt cannot be read from stdin", "")
		}
		// As in $(...) of a shell, trailing newlines are not part of the prompt.
		prompt = strings.TrimRight(string(text), "\r\n")
	}
	if strings.TrimSpace(prompt) == "" {
		return problem.New(problem.BadRequest, "The prompt is empty", "",
			"Write it in quotes, or pipe a text into: headroom run -")
	}
	file := service.OpenSettings()
	h := c.newHost(file, hostUse{})
	defer h.Close()
	if err := load(ctx, h, file, model, t.err); err != nil {
		return err
	}
	m, err := h.Acquire("")
	if err != nil {
		return err
	}
	noteNoTemplate(t.err, m)
	talk := &talker{model: m, flags: &c.AnswerFlags,
		defaults: control.RequestDefaults(file.Get().ForModel(m.ID)), out: t.out,
		style: styled(t.out), logs: t.logs}
	answer, err := talk.answer(ctx, c.messages(prompt))
	if err != nil && !interrupted(err) {
		return err
	}
	answer.figures(t.err)
	return err // after Ctrl-C: 130
}

func (f *AnswerFlags) messages(prompt string) []chat.Message {
	var list []chat.Message
	if f.System != "" {
		list = append(list, chat.Message{Role: "system", Content: f.System})
	}
	if prompt != "" {
		list = append(list, chat.Message{Role: "user", Content: prompt})
	}
	return list
}

// styled reports whether to print escape sequences: on a terminal, unless NO_COLOR is set
// (https://no-color.org).
func styled(out io.Writer) bool { return isTerminal(out) && os.Getenv("NO_COLOR") == "" }
