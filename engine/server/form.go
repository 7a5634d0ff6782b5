package server

import "headroom/engine/openai"

// form writes the pieces of an answer as one of the two kinds of JSON. Methods may return nil for
// "nothing to send".
type form interface {
	opening() any
	piece(part) any
	finish(reason string) any
	usage(*openai.Usage) any
	whole(p part, reason string, usage *openai.Usage) any
}

// chatForm is that of /v1/chat/completions.
type chatForm struct{ head openai.Head }

func (f *chatForm) opening() any { return openai.NewChatRole(f.head) }

func (f *chatForm) piece(p part) any {
	return openai.NewChatText(f.head, chatText(p))
}

func (f *chatForm) finish(reason string) any { return openai.NewChatFinish(f.head, reason) }

func (f *chatForm) usage(u *openai.Usage) any { return openai.NewChatUsage(f.head, u) }

func (f *chatForm) whole(p part, reason string, u *openai.Usage) any {
	return openai.NewChat(f.head, chatText(p), reason, u)
}

func chatText(p part) openai.ChatText {
	return openai.ChatText{Content: p.Content, Reasoning: p.Reasoning, ToolCalls: p.Calls,
		Logprobs: openai.NewChatLogprobs(p.Tokens)}
}

// completionForm is that of /v1/completions, which knows neither reasoning nor calls: its text is
// all content.
type completionForm struct {
	head   openai.Head
	offset int // of the next token's text, in characters
}

func (f *completionForm) opening() any { return nil }

func (f *completionForm) piece(p part) any {
	return openai.NewCompletion(f.head, p.Content, "", f.logprobs(p.Tokens), nil)
}

func (f *completionForm) logprobs(tokens []openai.Token) (l *openai.CompletionLogprobs) {
	l, f.offset = openai.NewCompletionLogprobs(tokens, f.offset)
	return l
}

func (f *completionForm) finish(reason string) any {
	return openai.NewCompletion(f.head, "", reason, nil, nil)
}

func (f *completionForm) usage(u *openai.Usage) any { return openai.NewCompletionUsage(f.head, u) }

func (f *completionForm) whole(p part, reason string, u *openai.Usage) any {
	return openai.NewCompletion(f.head, p.Content, reason, f.logprobs(p.Tokens), u)
}
