package commands

// One answer in the terminal, for run and chat. A talker renders the conversation, submits it, and
// prints the answer as it arrives, with reasoning separated from content. An interrupted answer is
// returned with the text generated so far.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"headroom/app/logs"
	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/draft"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// AnswerFlags are the flags of run and chat that control an answer.
type AnswerFlags struct {
	Named     string `name:"model" help:"Model: an ID, a name, an alias or a folder, or org/name on the hub. It may also be given as an argument." placeholder:"MODEL"`
	System    string `aliases:"system-prompt" help:"System message: how the model should behave." placeholder:"TEXT"`
	MaxTokens int    `help:"Maximum length of the answer in tokens. Default: as much as the context holds." placeholder:"N"`
	SamplingFlags
	Stop               []string `help:"Text that ends the answer, and is not shown; may be repeated." placeholder:"TEXT" sep:"none"`
	Think              *bool    `help:"Reason before answering, if the model can." negatable:""`
	ChatTemplateArgs   string   `name:"chat-template-args" aliases:"chat-template-config,chat-template-kwargs" help:"Variables for the chat template, as a JSON object." placeholder:"JSON"`
	IgnoreChatTemplate bool     `help:"Let the model continue the prompt as plain text, without its chat template."`
	Verbose            bool     `help:"Print the prompt's and the answer's tokens and speeds, and the memory, on lines of their own."`
}

// check returns an error about flags that are not valid, or not together.
func (f *AnswerFlags) check() error {
	if err := f.SamplingFlags.check(); err != nil {
		return err
	}
	var object map[string]json.RawMessage
	if f.ChatTemplateArgs != "" &&
		(json.Unmarshal([]byte(f.ChatTemplateArgs), &object) != nil || object == nil) {
		return fmt.Errorf("--chat-template-args: expected a JSON object such as "+
			`{"enable_thinking": false}, got %.100s`, f.ChatTemplateArgs)
	}
	for flag, given := range map[string]bool{"--chat-template-args": f.ChatTemplateArgs != "",
		"--system": f.System != "", "--think": f.Think != nil} {
		if given && f.IgnoreChatTemplate {
			return fmt.Errorf("%s has no effect together with --ignore-chat-template", flag)
		}
	}
	if f.MaxTokens < 0 {
		return fmt.Errorf("--max-tokens is %d, expected 0 or more", f.MaxTokens)
	}
	return nil
}

// talker prints a model's answers in a terminal.
type talker struct {
	model    server.Model
	flags    *AnswerFlags
	defaults generate.Defaults // from the model's settings; flags override them
	out      io.Writer
	style    bool         // dim the reasoning
	logs     *logs.Logs   // whose lines wait until an answer is complete; may be nil
	saved    *promptCache // that the conversation continues; may be nil
}

// reply is one answer.
type reply struct {
	content, reasoning string
	event              engine.Event // the last one
}

// answer submits the conversation and prints the answer as it arrives. When ctx ends or writing
// fails, it cancels the request and returns the text so far with the error.
func (t *talker) answer(ctx context.Context, messages []chat.Message) (reply, error) {
	for _, m := range messages {
		if !utf8.ValidString(m.Content) {
			return reply{}, problem.New(problem.BadRequest,
				"The "+m.Role+" message is not valid UTF-8", "",
				"Convert it first, with iconv for example.")
		}
	}
	defer t.holdLogs()()
	q := t.request(messages)
	prompt, split, err := q.Encode(ctx, t.model.Engine,
		t.model.Engine.Info().ContextTokens)
	if err != nil {
		return reply{}, err
	}
	request := engine.Request{Prompt: prompt, MaxTokens: q.MaxTokens,
		Sampling: q.Sampling(t.model.Engine.Defaults()), ShowTags: split != nil}
	if split == nil {
		request.Stop = q.Stop // the engine looks for it in all text
	}
	stream, err := t.model.Engine.Submit(request)
	if err != nil {
		return reply{}, err
	}
	return t.follow(ctx, stream, split)
}

// holdLogs keeps lines of the log out of the answer until release is called. They include the PERF
// line of the answer, which Recent writes.
func (t *talker) holdLogs() (release func()) {
	written := t.logs.Hold()
	return func() {
		if e, ok := t.model.Engine.(interface{ Recent() []engine.Finished }); ok && t.logs != nil {
			e.Recent()
		}
		written()
	}
}

// request returns the conversation as a request. Without a chat template, the model gets the last
// message as plain text to continue.
func (t *talker) request(messages []chat.Message) *generate.Request {
	params, _ := t.flags.params() // checked before
	q := &generate.Request{Params: params}
	if t.flags.ChatTemplateArgs != "" {
		q.TemplateKwargs = json.RawMessage(t.flags.ChatTemplateArgs)
	}
	q.MaxTokens, q.Stop = t.flags.MaxTokens, t.flags.Stop
	if t.flags.Think != nil {
		q.TemplateKwargs = generate.WithDefault(q.TemplateKwargs, "enable_thinking",
			*t.flags.Think)
	}
	q.SetDefaults(t.defaults)
	if t.flags.IgnoreChatTemplate || t.model.Engine.Template() == nil {
		q.Prompt = messages[len(messages)-1].Content
	} else {
		q.Messages = messages
	}
	t.saved.follow(q)
	return q
}

// noteNoTemplate says so if a model continues a text instead of answering a message.
func noteNoTemplate(out io.Writer, m server.Model) {
	if m.Engine.Template() == nil {
		fmt.Fprintf(out, "%s has no chat template: it continues the text that it is given.\n",
			oneLine(m.ID))
	}
}

// follow prints the answer as it arrives.
func (t *talker) follow(ctx context.Context, stream *engine.Stream, split *chat.Splitter) (reply,
	error) {
	var answer reply
	var content, reasoning strings.Builder
	paint := painter{out: t.out, style: t.style, safe: isTerminal(t.out)}
	show := func(pieces []chat.Piece) {
		for _, p := range pieces {
			if p.Kind == chat.Broken {
				continue
			}
			paint.write(p)
			if p.Kind == chat.Reasoning {
				reasoning.WriteString(p.Text)
			} else {
				content.WriteString(p.Text)
			}
		}
	}
	end := newEnding(t.flags.Stop)
	add := func(text string) []chat.Piece {
		if split == nil {
			return []chat.Piece{{Kind: chat.Content, Text: text}}
		}
		return end.cut(split.Add(text))
	}
	var err error
	for err == nil && answer.event.Type != engine.Done {
		var e engine.Event
		if e, err = stream.Next(ctx); err == nil {
			show(add(e.Text))
			err = paint.err
			if end.ended {
				stream.Stop()
			}
		}
		if err != nil && e.Type != engine.Done {
			stream.Cancel()
			e = lastOf(stream)
		}
		answer.event = e
	}
	if split != nil {
		show(end.close(split.Close(answer.event.Finish != engine.FinishStop)))
	}
	paint.end()
	if paint.err != nil {
		err = problem.Wrap(problem.Internal, paint.err, "The answer cannot be written", "")
	}
	answer.content, answer.reasoning = content.String(), reasoning.String()
	if err == nil && answer.event.Finish == engine.FinishError {
		err = answer.event.Err
	}
	return answer, err
}

// ending cuts a chat's answer at the first of the stop texts in its content, as the endpoint does.
type ending struct {
	stop  *chat.StopMatcher
	ended bool
}

func newEnding(stops []string) *ending { return &ending{stop: chat.NewContentMatcher(stops)} }

// cut returns what is to be shown of further pieces. No stop text reaches across a reasoning.
func (e *ending) cut(pieces []chat.Piece) (shown []chat.Piece) {
	for _, p := range pieces {
		switch {
		case e.ended:
			return shown
		case p.Kind == chat.Content:
			p.Text, e.ended = e.stop.Add(p.Text)
		default:
			shown = append(shown, chat.Piece{Kind: chat.Content, Text: e.stop.Close()})
		}
		shown = append(shown, p)
	}
	return shown
}

// close returns what is to be shown of the last pieces.
func (e *ending) close(pieces []chat.Piece) []chat.Piece {
	shown := e.cut(pieces)
	if !e.ended {
		shown = append(shown, chat.Piece{Kind: chat.Content, Text: e.stop.Close()})
	}
	return shown
}

// lastOf waits for the last event of a canceled stream, which has the figures, and discards its
// text.
func lastOf(stream *engine.Stream) (last engine.Event) {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	for last.Type != engine.Done {
		e, err := stream.Next(ctx)
		if err != nil {
			break
		}
		last = e
	}
	last.Text = ""
	return last
}

// painter prints an answer with an empty line between reasoning and content. Reasoning is dimmed if
// the terminal supports it.
type painter struct {
	out      io.Writer
	style    bool
	safe     bool // without control characters, which a terminal would obey
	thinking bool
	wrote    bool
	err      error // the first write error; nothing is written after it
}

const (
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
)

func (p *painter) write(piece chat.Piece) {
	if piece.Text == "" {
		return
	}
	thinking := piece.Kind == chat.Reasoning
	if thinking != p.thinking {
		p.change(thinking)
	}
	p.wrote = true
	if p.safe {
		piece.Text = printable(piece.Text)
	}
	p.print(piece.Text)
}

func (p *painter) print(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, text)
	}
}

// change begins or ends the reasoning.
func (p *painter) change(thinking bool) {
	p.thinking = thinking
	switch {
	case thinking && p.style:
		p.print(dim)
	case thinking:
		p.print("<think>\n")
	case p.style:
		p.print(plain + "\n\n")
	default:
		p.print("\n</think>\n\n")
	}
}

// end closes the reasoning and the line.
func (p *painter) end() {
	if p.thinking {
		p.change(false)
	} else if p.wrote {
		p.print("\n")
	}
}

// figures prints what an answer took, and what drafts have gained or why there were none.
func (s reply) figures(out io.Writer) {
	fmt.Fprintln(out, s.speed())
	if text := s.drafts(); text != "" {
		fmt.Fprintln(out, text)
	}
}

// leastTimed is the decoding time from which on what drafts have gained is said. In less, one slow
// pass decides about the figure.
const leastTimed = 500 * time.Millisecond

// drafts returns "31 of 40 drafts accepted (looked up: 3 of 4, own block: 28 of 36), decoded about
// 1.4 times as fast as without drafts", or else why there were none; "" if nobody wanted any.
func (s reply) drafts() string {
	u, why := s.event.Usage, s.event.NoDrafts
	accepted := fmt.Sprintf("%d of %s accepted (%s)", u.AcceptedTokens,
		count(u.DraftTokens, "draft"), drafters(u.Drafts()))
	switch speedup := s.event.Timing.Speedup(); {
	case u.DraftTokens > 0 && s.event.Timing.Decode < leastTimed:
		return accepted + ", in too short a time to tell what they gained"
	case u.DraftTokens > 0 && speedup > 0:
		return fmt.Sprintf("%s, decoded about %.1f times as fast as without drafts", accepted,
			speedup)
	case why.Cause == draft.NoCause, why.Cause == draft.Off, why.Cause == draft.Short:
		return ""
	}
	return "no drafts: " + why.Sentence()
}

// drafters returns how the drafts were made: "own block", or with the counts of each way.
func drafters(w draft.Ways) string {
	var ways, names []string
	for _, way := range []struct {
		name string
		draft.Counts
	}{{"looked up", w.Lookup}, {"from the prediction", w.Prediction}, {"own block", w.Block},
		{"draft model", w.DraftModel}} {
		if way.Proposed > 0 {
			names = append(names, way.name)
			ways = append(ways, fmt.Sprintf("%s: %d of %d", way.name, way.Accepted, way.Proposed))
		}
	}
	if len(ways) == 1 {
		return names[0]
	}
	return strings.Join(ways, ", ")
}

// speed returns the figures of an answer: "12 tokens, 85.3 tokens/s; prompt 20 tokens, 4 cached,
// 310.0 tokens/s".
func (s reply) speed() string {
	u, t := s.event.Usage, s.event.Timing
	line := fmt.Sprintf("%d tokens, %.1f tokens/s; prompt %d tokens", u.CompletionTokens,
		t.DecodeTokensPerSecond(), u.PromptTokens)
	if u.CachedTokens > 0 {
		line += fmt.Sprintf(", %d cached", u.CachedTokens)
	}
	if computed := u.PromptTokens - u.CachedTokens; t.Prefill > 0 {
		line += fmt.Sprintf(", %.1f tokens/s", float64(computed)/t.Prefill.Seconds())
	}
	return line
}

// interrupted reports whether err comes from Ctrl-C.
func interrupted(err error) bool { return errors.Is(err, context.Canceled) }
