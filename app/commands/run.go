package commands

// One prompt. Only the answer goes to stdout, so that it can be piped. Progress and figures go to
// stderr.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"headroom/app/control"
	"headroom/app/demo"
	"headroom/app/host"
	"headroom/app/hub"
	"headroom/app/service"
	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Run is `headroom run`.
type Run struct {
	ModelFlags
	AnswerFlags
	OfferFlags
	Prompt          *string  `help:"The prompt, in place of the argument; - reads it from stdin." placeholder:"TEXT"`
	PromptCacheFile string   `help:"Go on after a prompt or a conversation from this file; see cache save and cache export. The model is that of the file, unless one is named." type:"path" placeholder:"FILE"`
	JSON            bool     `name:"json" help:"Print one JSON object with the answer and its figures, in place of the text."`
	First           string   `arg:"" optional:"" name:"model-or-prompt" help:"MODEL and PROMPT, or PROMPT alone for the bundled demo model. A prompt of - is read from stdin."`
	Rest            []string `arg:"" optional:"" name:"prompt" help:"PROMPT, after a model."`
}

// Validate rejects flags that are not valid, and a missing prompt. kong calls it.
func (c *Run) Validate() error {
	return errors.Join(c.ModelFlags.Validate(), c.AnswerFlags.check(), c.checkPromptCache())
}

// maxPromptBytes bounds what is read from stdin.
const maxPromptBytes = 32 << 20

// Run answers the prompt.
func (c *Run) Run(ctx context.Context, t *terminal) error {
	model, prompt, err := c.modelAndPrompt()
	if err != nil {
		return err
	}
	fromStdin := prompt == "-"
	if fromStdin {
		if prompt, err = readPrompt(ctx, t.in); err != nil {
			return err
		}
	} else if c.Named == "" && model == "" && c.Prompt == nil {
		// A model without a prompt: as with other programs, the prompt may be piped.
		if piped, err := c.pipedAfter(ctx, t, prompt); err != nil {
			return err
		} else if piped != "" {
			model, prompt, fromStdin = prompt, piped, true
		}
	}
	if len(c.words()) == 0 && prompt == "" {
		fmt.Fprintln(t.err, `headroom: run: expected a prompt, as in: headroom run "What is a KV `+
			`cache?"`+"\nTry: headroom run --help")
		return exitUsage
	}
	if strings.TrimSpace(prompt) == "" {
		return problem.New(problem.BadRequest, "The prompt is empty", "",
			"Write it in quotes, or pipe a text into: headroom run -")
	}
	saved, err := c.openPromptCache()
	if err != nil {
		return err
	}
	if saved != nil {
		defer saved.Close()
		model = saved.modelOf(model)
	}
	file := service.OpenSettings()
	h := c.newHost(file, hostUse{})
	defer h.Close()
	if model == "" && !fromStdin && c.Prompt == nil {
		if err := noModelAlone(h, prompt); err != nil {
			return err
		}
	}
	if err := c.load(ctx, h, file, &c.ModelFlags, model, t, !fromStdin); err != nil {
		return saved.named(err)
	}
	m, err := h.Acquire("")
	if err != nil {
		return err
	}
	if err := saved.load(ctx, m); err != nil {
		return err
	}
	if isTerminal(t.err) {
		fmt.Fprintln(t.err, "decoding ahead: "+waysOf(h.State().Engine))
	}
	noteNoTemplate(t.err, m)
	talk := &talker{model: m, flags: &c.AnswerFlags,
		defaults: control.RequestDefaults(file.Get().ForModel(m.ID)), out: t.out,
		style: styled(t.out), logs: t.logs, saved: saved}
	if c.JSON {
		talk.out, talk.style = io.Discard, false
	}
	answer, err := talk.answer(ctx, c.messages(prompt))
	if err != nil && !interrupted(err) {
		return err
	}
	if c.JSON {
		if written := answer.writeJSON(t.out, m.ID); written != nil {
			return written
		}
	} else {
		c.printFigures(t.err, answer, m.Engine.Stats())
	}
	return err // after Ctrl-C: 130
}

// words returns the arguments and the prompt of --prompt.
func (c *Run) words() (words []string) {
	if c.First != "" || len(c.Rest) > 0 {
		words = append([]string{c.First}, c.Rest...)
	}
	if c.Prompt != nil {
		words = append(words, *c.Prompt)
	}
	return words
}

// pipedAfter returns the text that is piped to a command whose only word is the name of a model;
// "": there is none, or the word is no model.
func (c *Run) pipedAfter(ctx context.Context, t *terminal, word string) (string, error) {
	if isTerminal(t.in) || strings.ContainsAny(word, " \n\t") {
		return "", nil
	}
	if _, _, err := resolveAdapted(c.ModelsDir, word); err != nil {
		return "", nil // Run says what is wrong with a name
	}
	text, err := readPrompt(ctx, t.in)
	return strings.TrimSpace(text), err
}

// modelAndPrompt returns what the words mean. model is "" if none is named.
func (c *Run) modelAndPrompt() (model, prompt string, err error) {
	words := c.words()
	switch {
	case len(words) == 0:
		return c.Named, "-", nil
	case len(words) == 1:
		return c.Named, words[0], nil
	case len(words) == 2 && c.Named == "":
		return words[0], words[1], nil
	}
	return "", "", problem.New(problem.BadRequest,
		fmt.Sprintf("run takes a model and a prompt, got %d words", len(words)), "",
		"Put the prompt into quotes, and name the model once.")
}

// readPrompt reads the prompt from stdin. As in $(...) of a shell, trailing newlines are not part
// of it.
func readPrompt(ctx context.Context, in io.Reader) (string, error) {
	text, err := readText(ctx, in)
	return strings.TrimRight(text, "\r\n"), err
}

// readText reads all of stdin, within a limit.
func readText(ctx context.Context, in io.Reader) (string, error) {
	text, err := abandonable(ctx,
		func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, maxPromptBytes)) })
	switch {
	case interrupted(err):
		return "", err
	case err != nil:
		return "", problem.Wrap(problem.BadRequest, err, "The prompt cannot be read from stdin", "")
	}
	return string(text), nil
}

// noModelAlone returns a Problem if a prompt for the demo model is the name of a model: other
// programs open a chat with it then, and nobody asks the demo model such a thing.
func noModelAlone(h *host.Host, prompt string) error {
	if strings.ContainsAny(prompt, " \n\t") {
		return nil
	}
	is := "is the name of a model"
	_, unknown := h.Resolve(prompt)
	_, noFolder := os.Stat(filepath.Join(kong.ExpandPath(prompt), "config.json"))
	if unknown != nil && noFolder != nil {
		base, _, adapted := server.CutAdapter(prompt)
		if _, err := h.Resolve(base); adapted && err == nil && !host.MeansAny(base) {
			return unknown // the model has no such adapter
		}
		if hub.CheckID(prompt) != nil {
			return nil
		}
		is = "looks like the name of a model"
	}
	word := quoteWord(prompt)
	return problem.New(problem.BadRequest, fmt.Sprintf("%q %s, and there is no prompt", prompt, is),
		"", fmt.Sprintf("For one answer: headroom run %s \"...\". For a conversation: headroom "+
			"chat %s. To send this word to the demo model: headroom run --model %s %s.", word, word,
			demo.ID, word))
}

// quoteWord returns a word as a shell reads it, in quotes only where it needs them.
func quoteWord(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:~+"
	if strings.Trim(word, plain) == "" {
		return word
	}
	return quote(word)
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
