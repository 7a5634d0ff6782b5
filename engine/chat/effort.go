package chat

import (
	"regexp"
	"slices"
	"strings"

	"headroom/engine/chat/jinja"
)

// How much a model thinks, and how a template gets the reasoning of earlier answers. Templates have
// variables of their own for both, which this file fills from what OpenAI's clients send.

// Efforts are the values of reasoning_effort, from the least.
var Efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// effortFormat is how a template is told the effort.
type effortFormat struct {
	mark     *regexp.Regexp
	variable string
	values   [7]string // for each of Efforts
	agent    string    // for requests with tools that do not name an effort; "": the template's
}

// effortFormats has a row for each way. The first whose mark is in the template applies.
var effortFormats = []effortFormat{
	// Qwen3.8 raises on other words. Its default, xhigh, thinks for thousands of tokens before each
	// call of an agent.
	{regexp.MustCompile(`(?s)reasoning_effort.*['"]xhigh['"]`), "reasoning_effort",
		[7]string{"low", "low", "low", "medium", "xhigh", "xhigh", "xhigh"}, "low"},
	// gpt-oss writes the word into the prompt, and knows three.
	{regexp.MustCompile(`(?s)reasoning_effort.*<\|channel\|>`), "reasoning_effort",
		[7]string{"low", "low", "low", "medium", "high", "high", "high"}, ""},
	// Kimi K3 raises on other words.
	{regexp.MustCompile(`thinking_effort`), "thinking_effort",
		[7]string{"low", "low", "low", "high", "high", "max", "max"}, ""},
	// Hunyuan 3 raises on other words, too.
	{regexp.MustCompile(`(?s)reasoning_effort.*['"]no_think['"]`), "reasoning_effort",
		[7]string{"no_think", "low", "low", "high", "high", "high", "high"}, ""},
	// MiniMax M3 thinks always, never, or when it wants to.
	{regexp.MustCompile(`thinking_mode == "adaptive"`), "thinking_mode", [7]string{"disabled", "adaptive",
		"adaptive", "adaptive", "enabled", "enabled", "enabled"}, ""},
	{regexp.MustCompile(`reasoning_effort`), "reasoning_effort", [7]string(Efforts), ""},
}

func effortOf(source string) *effortFormat {
	for i := range effortFormats {
		if effortFormats[i].mark.MatchString(source) {
			return &effortFormats[i]
		}
	}
	return nil
}

// EffortVariables returns the variables that tell the template how much to think. effort is one of
// Efforts, or "" if the request names none. tools tells whether it offers tools. Where a template
// knows no effort, none turns thinking off and any other turns it on.
func (t *Template) EffortVariables(effort string, tools bool) map[string]any {
	t = t.of(tools)
	at := slices.Index(Efforts, effort)
	variables := map[string]any{}
	switch {
	case t.effort != nil && at >= 0:
		variables[t.effort.variable] = t.effort.values[at]
	case t.effort != nil && tools && t.effort.agent != "":
		variables[t.effort.variable] = t.effort.agent
	}
	fixed := t.effort != nil && t.effort.values[0] != Efforts[0] // its least is to think a little
	if at >= 0 && !fixed && t.switches {
		variables["enable_thinking"] = at > 0
	}
	return variables
}

// thinkingMark is how a template reads the reasoning of a message as thinking.
var thinkingMark = regexp.MustCompile(`message\.thinking\b|message\[['"]thinking['"]\]`)

// setThinking gives the reasoning of a message to a template that reads it as thinking. gpt-oss'
// template refuses a call with both content and thinking. The content is then left out: a word
// about what the model was going to do.
func (t *Template) setThinking(m *jinja.Dict) {
	reasoning, _ := m.Get("reasoning_content")
	if text, ok := reasoning.(string); !t.thinking || !ok || text == "" {
		return
	}
	if _, has := m.Get("thinking"); has {
		return
	}
	m.Set("thinking", reasoning)
	if _, calls := m.Get("tool_calls"); calls && t.channels == &harmony {
		m.Set("content", "")
	}
}

// readEffort sets what Render and EffortVariables need to know of a template's source.
func (t *Template) readEffort(source string) {
	t.effort = effortOf(source)
	t.switches = strings.Contains(source, "enable_thinking")
	t.thinking = thinkingMark.MatchString(source)
}
