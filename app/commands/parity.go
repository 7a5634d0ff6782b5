package commands

// Whether what makes a model faster changes its answers: batches, the prefix cache in memory and on
// disk, decoding ahead. Another KV cache and another device are compared, too. It is what to run
// before trusting a speed-up.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"headroom/app/disk"
	"headroom/app/parity"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
)

// Parity is `headroom parity`.
type Parity struct {
	Model          string   `arg:"" optional:"" help:"Model: an ID, a name or a folder. Default: the bundled demo model."`
	Prompts        string   `help:"File with the prompts, or - for standard input: one per line, or JSON lines with \"prompt\". Default: eight that are built in." type:"existingfile" placeholder:"FILE"`
	Tokens         int      `help:"Maximum length of an answer in tokens." default:"48"`
	JSON           bool     `name:"json" help:"Print the result as JSON."`
	Device         string   `help:"Device to check: cpu, metal or, for development, sim and nv. Default: metal if the GPU passes its self-test, else cpu." enum:",cpu,metal,sim,nv" default:"" placeholder:"DEVICE"`
	Threads        int      `help:"Compute threads. Default: one per performance core." placeholder:"N"`
	Context        int      `help:"Context length in tokens. Default: the model's, or as much as fits in memory." placeholder:"TOKENS"`
	MaxSequences   int      `help:"Maximum number of requests that run at once. Default: 8." placeholder:"N"`
	Float32        bool     `name:"float32" help:"Compute activations in float32; several times slower."`
	ModelsDir      []string `help:"Another folder to look for models in, up to four levels deep; may be repeated." placeholder:"DIR" sep:"none" type:"path"`
	DraftModel     string   `help:"Smaller model with the same vocabulary, a DFlash drafter or an assistant (Gemma 4) for the model, or the folder of a block for it (MTP), whose drafts are checked too: an ID, a name, an alias or a folder. Default: draftModel in the model's settings, or none." placeholder:"DIR_OR_NAME"`
	NumDraftTokens int      `help:"Maximum number of tokens that the draft model drafts for a pass, up to 8. Default: as many as are worth their time." placeholder:"N"`
	KVFlags

	open func(ctx context.Context, o engine.Options) (*engine.Engine, error) // replaced by tests
}

// Validate rejects numbers that make no sense. kong calls it.
func (c *Parity) Validate() error {
	if c.Tokens < 1 {
		return fmt.Errorf("--tokens is %d, expected 1 or more", c.Tokens)
	}
	f := c.modelFlags()
	return f.Validate()
}

// modelFlags returns the flags in the form of the other commands that run a model.
func (c *Parity) modelFlags() ModelFlags {
	return ModelFlags{Device: c.Device, Threads: c.Threads, Context: c.Context, Float32: c.Float32,
		MaxSequences: c.MaxSequences, KVFlags: c.KVFlags, ModelsDir: c.ModelsDir,
		DraftModel: c.DraftModel, NumDraftTokens: c.NumDraftTokens}
}

// Run checks the model and prints a table and a verdict. Exit code 1 means that an answer that must
// be the same is not.
func (c *Parity) Run(ctx context.Context, t *terminal) error {
	file, flags := service.OpenSettings(), c.modelFlags()
	flags.warnOfFlags(file.Get())
	m, err := flags.library(file).ResolveNamed(nil, c.Model, aliases(file.Get()))
	if err != nil {
		err = refuseAdapter(c.ModelsDir, c.Model, "parity takes a model without an adapter", "",
			sayDownload(err, c.Model))
		return blameSettings(err, file, c.Model)
	}
	if m.Description.Task != "" {
		return problem.New(problem.BadRequest, "This model cannot be checked",
			m.ID+" generates no text", "Choose a language model.")
	}
	texts, err := c.texts(ctx, t.in)
	if err != nil {
		return err
	}
	o := parity.Options{Source: m.Source, Open: c.open, Tokens: c.Tokens,
		Engine: flags.options(file.Get(), m.ID),
		Say: func(step, steps int, what string) {
			fmt.Fprintf(t.err, "%d of %d: %s\n", step, steps, what)
		}}
	if o.Prompts, err = parity.Encode(ctx, m.Source, texts,
		contextOf(o.Engine, m.Description)); err != nil {
		return blameSettings(err, file, m.ID)
	}
	o.Engine.ModelName = m.ID
	if err := c.devices(ctx, &o); err != nil {
		return err
	}
	if o.Dir, err = os.MkdirTemp("", "headroom-parity-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.Dir)
	r, err := parity.Run(ctx, o)
	if err != nil {
		return blameSettings(err, file, m.ID)
	}
	r.Model = m.ID
	c.nameSetting(r, file.Path())
	if c.JSON {
		err = printJSON(t.out, r)
	} else {
		err = printParity(t.out, r, texts)
	}
	if err == nil && !r.Equal {
		return exitProblem
	}
	return err
}

// nameSetting says where a draft model that is not used is named, unless a flag names it.
func (c *Parity) nameSetting(r *parity.Report, path string) {
	for i := range r.Ways {
		if row := &r.Ways[i]; row.Way == parity.AheadDraft && row.NotTried != "" &&
			c.DraftModel == "" {
			row.NotTried += "; the setting draftModel in " + path + " names it"
		}
	}
}

// contextOf returns the longest context that a model may have with these options.
func contextOf(o engine.Options, d engine.Description) int {
	if o.ContextTokens == 0 {
		return d.ContextTokens
	}
	return min(o.ContextTokens, d.ContextTokens)
}

// devices sets the device to check and the one to compare with.
func (c *Parity) devices(ctx context.Context, o *parity.Options) error {
	gpu, trouble, err := newGate().Device(ctx)
	if err != nil {
		return err
	}
	o.Engine.Device = c.Device
	o.Compare(gpu, trouble)
	if trouble != nil && o.Other == "" {
		slog.Warn("the GPU is not used", "err", trouble)
	}
	return nil
}

// texts returns the prompts of the file or of standard input, or else those that are built in.
func (c *Parity) texts(ctx context.Context, in io.Reader) ([]string, error) {
	unreadable := func(err error, fix string) error {
		return problem.Wrap(problem.BadRequest, err, "The prompts cannot be read", fix)
	}
	switch c.Prompts {
	case "":
		return parity.Prompts, nil
	case "-", "/dev/stdin":
		data, err := abandonable(ctx,
			func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, maxPromptBytes+1)) })
		if err == nil && len(data) > maxPromptBytes {
			err = fmt.Errorf("they have more than %s", formatBytes(maxPromptBytes))
		}
		if err != nil && !interrupted(err) {
			err = unreadable(err, "")
		}
		if err != nil {
			return nil, err
		}
		return readPrompts(data)
	}
	data, _, err := disk.Read(c.Prompts, maxPromptBytes)
	if err != nil {
		return nil, unreadable(err, "Choose a regular file, or - for standard input.")
	}
	return readPrompts(data)
}

// readPrompts reads prompts, one per line. If the first line is a JSON object, each line is one.
// Empty lines are skipped.
func readPrompts(data []byte) (texts []string, err error) {
	asJSON, n := false, 0
	for line := range strings.Lines(string(data)) {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !utf8.ValidString(line) {
			return nil, badPrompt(n, "it is not UTF-8")
		}
		asJSON = asJSON || len(texts) == 0 && strings.HasPrefix(line, "{")
		if asJSON {
			if line, err = promptOf(line); err != nil {
				return nil, badPrompt(n, err.Error())
			}
		}
		texts = append(texts, line)
	}
	if len(texts) == 0 {
		return nil, problem.New(problem.BadRequest, "There are no prompts", "the file is empty",
			"Write one prompt per line.")
	}
	return texts, nil
}

// promptOf returns the prompt in a line of JSON.
func promptOf(line string) (string, error) {
	var object struct {
		Prompt *string `json:"prompt"`
	}
	switch err := json.Unmarshal([]byte(line), &object); {
	case err != nil:
		return "", settings.InWords(err)
	case object.Prompt == nil:
		return "", errors.New(`it has no "prompt"`)
	}
	return *object.Prompt, nil
}

func badPrompt(line int, why string) error {
	return problem.New(problem.BadRequest, fmt.Sprintf("Line %d is not a prompt", line), why,
		`Write one prompt per line, or JSON lines such as {"prompt": "Hello"}.`)
}

// printParity prints the table, where answers part, and the verdict.
func printParity(out io.Writer, r *parity.Report, texts []string) error {
	fmt.Fprintf(out, "%s on %s, KV %s, state %s; %s of at most %s\n\n", oneLine(r.Model), r.Device,
		r.KVFormat, r.StateFormat, count(r.Prompts, "answer"), count(r.MaxTokens, "token"))
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "WAY\tSAME ANSWERS\tSAME TOKENS\tLOGPROBS\tREAD\tDECODE\tNOTE")
	for i, row := range r.Ways {
		if row.NotTried != "" {
			fmt.Fprintf(w, "%s\tnot tried\t\t\t\t\t%s\n", row.Way, oneLine(row.NotTried))
			continue
		}
		same := fmt.Sprintf("%d of %d\t%d of %d\t%s", row.EqualAnswers, row.Answers,
			row.EqualTokens, row.Tokens, logprobs(row.LargestDifference))
		if i == 0 {
			same = fmt.Sprintf("%d\t%d\t", row.Answers, row.Tokens)
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f/s\t%.1f/s\t%s\n", row.Way, same, row.ReadTokensPerSecond,
			row.DecodeTokensPerSecond, oneLine(row.Note))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, row := range r.Ways {
		for _, p := range row.Partings {
			fmt.Fprintf(out, "%s: answer %d (%q) parts at token %d: plain %s, here %s\n", row.Way,
				p.Prompt, clip(texts[p.Prompt-1], 40), p.Token, said(p.Plain), said(p.Other))
		}
		if len(row.Partings) > 0 {
			fmt.Fprintln(out)
		}
	}
	_, err := fmt.Fprintln(out, r.Verdict)
	return err
}

// logprobs formats the largest difference of log-probabilities.
func logprobs(difference float64) string {
	if difference == 0 {
		return "same"
	}
	return fmt.Sprintf("within %.2g", difference)
}

// said formats a token with its log-probability.
func said(s parity.Said) string {
	if s.ID < 0 {
		return "the end"
	}
	return fmt.Sprintf("%q (%.6g)", s.Text, s.Logprob)
}
