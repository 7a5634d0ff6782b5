package commands

// Prompt caches as files: `headroom cache save`, and what `headroom run --prompt-cache-file` does
// with such a file. mlx_lm.cache_prompt and mlx_lm.generate have the same flags and meaning: the
// prompt of run goes on in the message that was saved. Unlike theirs, a file is not used if an
// answer would differ from that without it.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/schollz/progressbar/v3"

	"headroom/app/control"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/promptfile"
	"headroom/engine/server"
)

// CacheSave is `headroom cache save`.
type CacheSave struct {
	Path               string   `arg:"" optional:"" name:"file" help:"File to write. A prompt cache is replaced." type:"path" placeholder:"FILE"`
	PromptCacheFile    string   `hidden:"" help:"The same." type:"path" placeholder:"FILE"`
	Named              string   `name:"model" help:"Model: an ID, a name, an alias or a folder, or org/name on the hub. Default: the bundled demo model." placeholder:"MODEL"`
	Prompt             string   `required:"" help:"The prompt, which run goes on with; - reads it from stdin." placeholder:"TEXT"`
	System             string   `aliases:"system-prompt" help:"System message: how the model should behave." placeholder:"TEXT"`
	ChatTemplateArgs   string   `name:"chat-template-args" aliases:"chat-template-config" help:"Variables for the chat template, as a JSON object." placeholder:"JSON"`
	IgnoreChatTemplate bool     `help:"Save the prompt as plain text, without the chat template."`
	Force              bool     `help:"Replace a file that is not a prompt cache."`
	Device             string   `help:"Device to run on, as for run. A prompt cache belongs to the kind of device." enum:",cpu,metal,sim,nv" default:"" placeholder:"DEVICE"`
	Threads            int      `help:"Compute threads. Default: one per performance core." placeholder:"N"`
	Context            int      `help:"Context length in tokens. Default: the model's, or as much as fits in memory." placeholder:"TOKENS"`
	Float32            bool     `name:"float32" help:"Compute activations in float32; several times slower."`
	Speculate          string   `help:"How run will decode ahead, as for run: what the model's own block computes is saved, too." placeholder:"HOW"`
	DraftModel         string   `help:"Drafter that run will use, as for run." placeholder:"DIR_OR_NAME"`
	ModelsDir          []string `help:"Another folder to look for models in, up to four levels deep; may be repeated." placeholder:"DIR" sep:"none" type:"path"`
	KVFlags
	OfferFlags
	TrustRemoteCode bool   `hidden:""`
	EOSToken        string `name:"eos-token" hidden:""`
}

// models returns the flags of the model.
func (c *CacheSave) models() *ModelFlags {
	return &ModelFlags{Device: c.Device, Threads: c.Threads, Context: c.Context, Float32: c.Float32,
		Speculate: c.Speculate, DraftModel: c.DraftModel, KVFlags: c.KVFlags,
		ModelsDir: c.ModelsDir, CacheFlags: CacheFlags{NoSSDCache: true}, promptCaches: true}
}

// answers returns the flags of the prompt.
func (c *CacheSave) answers() *AnswerFlags {
	return &AnswerFlags{System: c.System, ChatTemplateArgs: c.ChatTemplateArgs,
		IgnoreChatTemplate: c.IgnoreChatTemplate}
}

// Validate rejects flags that are not valid, and a missing file. kong calls it.
func (c *CacheSave) Validate() error {
	if (c.Path == "") == (c.PromptCacheFile == "") {
		return errors.New("expected one file, as in: headroom cache save --model M --prompt - FILE")
	}
	return errors.Join(c.models().Validate(), c.answers().check())
}

// Run computes the prompt and writes the file.
func (c *CacheSave) Run(ctx context.Context, parent *Cache, t *terminal) error {
	path := cmp.Or(c.Path, c.PromptCacheFile)
	if err := promptfile.CheckTarget(path, c.Force); err != nil { // before minutes of work
		return engine.PromptFileProblem(err, path)
	}
	if c.TrustRemoteCode {
		(&WithoutEffect{TrustRemoteCode: true}).say(t.err)
	}
	if c.EOSToken != "" {
		fmt.Fprintln(t.err, "headroom: --eos-token has no effect: a prompt is saved, and no answer")
	}
	prompt, fromStdin := c.Prompt, c.Prompt == "-"
	if fromStdin {
		var err error
		if prompt, err = readText(ctx, t.in); err != nil { // the question follows its last line
			return err
		}
	}
	if strings.TrimSpace(prompt) == "" {
		return problem.New(problem.BadRequest, "The prompt is empty", "",
			"Write it in quotes, or pipe a text into: headroom cache save --prompt - FILE")
	}
	file, flags := service.OpenSettings(), c.models()
	h := flags.newHost(file, hostUse{})
	defer h.Close()
	if err := c.load(ctx, h, file, flags, c.Named, t, !fromStdin); err != nil {
		return err
	}
	m, err := h.Acquire("")
	if err != nil {
		return err
	}
	noteNoTemplate(t.err, m)
	e, err := promptCachesOf(m)
	if err != nil {
		return err
	}
	tokens, continues, err := c.encode(ctx, m, file.Get(), prompt)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := computePrompt(ctx, m, tokens, t.err); err != nil {
		return err
	}
	took := time.Since(began)
	bytes, err := e.SavePrompt(ctx, path, c.Force, tokens, engine.PromptCache{Continues: continues,
		Options: flags.saveOptions(file.Get(), m.ID, c.Named)})
	if err != nil {
		return err
	}
	return parent.wrote(t.out, promptCacheDocument{File: path, Model: m.ID, Tokens: len(tokens),
		Bytes: bytes}, fmt.Sprintf(", computed in %s", formatSeconds(took.Seconds())))
}

// encode returns the tokens of the prompt, which ends within the user's message.
func (c *CacheSave) encode(ctx context.Context, m server.Model, s settings.Settings,
	prompt string) ([]int32, promptfile.Continues, error) {
	talk := &talker{model: m, flags: c.answers(),
		defaults: control.RequestDefaults(s.ForModel(m.ID))}
	q := talk.request(c.answers().messages(prompt))
	continues := promptfile.ContinuesText
	if q.Messages != nil {
		q.Continue, continues = true, promptfile.ContinuesMessage
	}
	tokens, _, err := q.Encode(ctx, m.Engine, m.Engine.Info().ContextTokens)
	return tokens, continues, err
}

// computePrompt computes a prompt without an answer. It stays in memory. A terminal shows how far
// it is.
func computePrompt(ctx context.Context, m server.Model, tokens []int32, errOut io.Writer) error {
	stream, err := m.Engine.Submit(engine.Request{Prompt: tokens, NoAnswer: true})
	if err != nil {
		return err
	}
	if !isTerminal(errOut) {
		errOut = io.Discard
	}
	bar := progressbar.NewOptions(len(tokens), progressbar.OptionSetWriter(errOut),
		progressbar.OptionSetDescription("Tokens"), progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish())
	defer func() { _ = bar.Clear() }()
	for {
		e, err := stream.Next(ctx)
		if err != nil {
			stream.Cancel()
			return err
		}
		if e.Type == engine.Done {
			return e.Err
		}
		_ = bar.Set(e.Usage.PromptDoneTokens)
	}
}

// promptCacheDocument is what the commands print of a prompt cache with --json.
type promptCacheDocument struct {
	File   string `json:"file"`
	Key    string `json:"key,omitempty"` // of the conversation in the store
	Model  string `json:"model"`
	Tokens int    `json:"tokens"`
	Bytes  int64  `json:"bytes"`
}

// wrote prints what a command has written.
func (c *Cache) wrote(out io.Writer, d promptCacheDocument, how string) error {
	if c.JSON {
		return printJSON(out, d)
	}
	_, err := fmt.Fprintf(out, "%s: %s of %s, %s%s. The file is not encrypted: whoever has it can "+
		"read the prompt.\n", d.File, count(d.Tokens, "token"), oneLine(d.Model),
		formatBytes(d.Bytes), how)
	return err
}

// promptCacher is an engine with prompt caches, which one in another process does not have.
type promptCacher interface {
	CheckPromptCaches() error
	SavePrompt(ctx context.Context, path string, replace bool, tokens []int32,
		d engine.PromptCache) (bytes int64, err error)
	LoadPrompt(ctx context.Context, f *engine.PromptFile, path string) error
}

// promptCachesOf returns the engine of a model, if prompts can be saved and loaded with it.
func promptCachesOf(m server.Model) (promptCacher, error) {
	if e, ok := m.Engine.(promptCacher); ok {
		return e, e.CheckPromptCaches()
	}
	return nil, problem.New(problem.Internal, "There are no prompt caches for this model",
		"it runs in another process", "")
}

// savedOptions is PromptCache.Options: what the formats of a prompt cache follow from. A file that
// was exported from the store has none.
type savedOptions struct {
	Model   settings.Model `json:"model"` // without what concerns requests, and without folders
	Device  string         `json:"device,omitempty"`
	Float32 bool           `json:"float32,omitempty"`
	// Folder is that of the model, if it was named as one: its name alone may not be known.
	Folder string `json:"folder,omitempty"`
}

// saveOptions returns the options that the model with an ID, which was named so, is loaded with.
func (f *ModelFlags) saveOptions(s settings.Settings, id, named string) string {
	m := s.ForModel(id)
	o := savedOptions{Model: f.KVFlags.or(m).model(), Device: f.Device, Float32: f.Float32}
	o.Model.MaxSequences = cmp.Or(f.MaxSequences, m.MaxSequences)
	o.Model.Speculate = cmp.Or(f.Speculate, m.Speculate)
	if folder, err := filepath.Abs(kong.ExpandPath(named)); err == nil && isModelFolder(folder) {
		o.Folder = folder
	}
	text, _ := json.Marshal(o) // numbers and texts always encode
	return string(text)
}

// useOptions makes the flags those of a saved prompt, as far as they are not given. The settings of
// the model then do not count.
func (f *ModelFlags) useOptions(text string) error {
	if text == "" {
		return nil
	}
	var o savedOptions
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = control.CheckModel(o.Model)
	}
	if err != nil {
		return fmt.Errorf("%w: its options are not valid: %w", promptfile.ErrDamaged, err)
	}
	f.Device, f.Float32 = cmp.Or(f.Device, o.Device), f.Float32 || o.Float32
	f.saved = &o.Model
	return nil
}

// over returns a model's settings with the options of a saved prompt.
func (f *ModelFlags) over(m settings.Model) settings.Model {
	if f.saved == nil {
		return m
	}
	s := *f.saved
	s.ContextTokens, s.DraftModel, s.NumDraftTokens = m.ContextTokens, m.DraftModel,
		m.NumDraftTokens
	return s
}

// promptCache is an open file that run continues. A nil *promptCache is none.
type promptCache struct {
	*promptfile.File
	path string
}

// openPromptCache opens the file and sets the flags to its options. The error is a Problem.
func (c *Run) openPromptCache() (*promptCache, error) {
	if c.PromptCacheFile == "" {
		return nil, nil
	}
	f, err := promptfile.Open(c.PromptCacheFile)
	if err != nil {
		return nil, engine.PromptFileProblem(err, c.PromptCacheFile)
	}
	if c.IgnoreChatTemplate && f.Info().Continues != promptfile.ContinuesText {
		err = problem.New(problem.BadRequest, "--ignore-chat-template has no effect on a prompt "+
			"cache that was saved with the template", "",
			"Leave it out, or save the prompt with it.")
	} else {
		err = c.useOptions(f.Info().Options)
	}
	if err != nil {
		return nil, errors.Join(engine.PromptFileProblem(err, c.PromptCacheFile), f.Close())
	}
	c.promptCaches = true
	return &promptCache{f, c.PromptCacheFile}, nil
}

// load reads the file into the memory of the model.
func (p *promptCache) load(ctx context.Context, m server.Model) error {
	if p == nil {
		return nil
	}
	e, err := promptCachesOf(m)
	if err != nil {
		return err
	}
	return e.LoadPrompt(ctx, p.File, p.path)
}

// follow makes a request with the conversation messages go on after the file's tokens.
func (p *promptCache) follow(q *generate.Request) {
	if p == nil {
		return
	}
	q.After = p.Tokens()
	switch {
	case q.Messages == nil:
	case p.Info().Continues == promptfile.ContinuesText:
		q.Prompt, q.Messages = q.Messages[len(q.Messages)-1].Content, nil
	case p.Info().Continues == promptfile.ContinuesMessage:
		q.AfterPlace = chat.BeforeFinal
	default: // what came before is in the tokens, and only its form counts
		q.AfterPlace = chat.AfterEarlier
		q.Messages = append([]chat.Message{{Role: "user", Content: "?"},
			{Role: "assistant", Content: "."}}, q.Messages...)
	}
}

// checkPromptCache returns an error about flags that do not go with --prompt-cache-file.
func (c *Run) checkPromptCache() error {
	for flag, given := range map[string]bool{"--system": c.System != "",
		"--no-prefix-cache": c.NoPrefixes} {
		if given && c.PromptCacheFile != "" {
			return fmt.Errorf("%s has no effect together with --prompt-cache-file", flag)
		}
	}
	if c.Adapter != "" && c.PromptCacheFile != "" {
		return errors.New("--adapter does not go together with --prompt-cache-file: the file was " +
			"computed without one")
	}
	return nil
}

// modelOf returns the model to run: the named one, or that of the file.
func (p *promptCache) modelOf(named string) string {
	var o savedOptions
	if named == "" && json.Unmarshal([]byte(p.Info().Options), &o) == nil &&
		isModelFolder(o.Folder) {
		return o.Folder
	}
	return cmp.Or(named, p.Info().Model.Name)
}

func isModelFolder(path string) bool {
	_, err := os.Stat(filepath.Join(path, "config.json"))
	return path != "" && err == nil
}

// named returns an error of loading the model, with what to do if it is that of the file and gone.
func (p *promptCache) named(err error) error {
	if err == nil || p == nil || problem.From(err).Code != problem.ModelNotFound {
		return err
	}
	q := *problem.From(err)
	q.Fix = "The prompt cache was made with that model. Name it, or its folder, with --model."
	return &q
}
