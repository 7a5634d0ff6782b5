package chat

import (
	"regexp"
	"slices"

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
	alone    bool      // the switches of thinkingSwitches do not depend on the effort
}

// effortFormats has a row for each way. The first whose mark is in the template applies.
var effortFormats = []effortFormat{
	// Qwen3.8 raises on other words. Its default, xhigh, thinks for thousands of tokens before each
	// call of an agent.
	{regexp.MustCompile(`(?s)reasoning_effort.*['"]xhigh['"]`), "reasoning_effort",
		[7]string{"low", "low", "low", "medium", "xhigh", "xhigh", "xhigh"}, "low", true},
	// gpt-oss writes the word into the prompt, and knows three.
	{regexp.MustCompile(`(?s)reasoning_effort.*<\|channel\|>`), "reasoning_effort",
		[7]string{"low", "low", "low", "medium", "high", "high", "high"}, "", true},
	// Kimi K3 raises on other words.
	{regexp.MustCompile(`thinking_effort`), "thinking_effort",
		[7]string{"low", "low", "low", "high", "high", "max", "max"}, "", false},
	// Hunyuan 3 raises on other words, too.
	{regexp.MustCompile(`(?s)reasoning_effort.*['"]no_think['"]`), "reasoning_effort",
		[7]string{"no_think", "low", "low", "high", "high", "high", "high"}, "", true},
	// MiniMax M3 thinks always, never, or when it wants to.
	{regexp.MustCompile(`thinking_mode == "adaptive"`), "thinking_mode", [7]string{"disabled", "adaptive",
		"adaptive", "adaptive", "enabled", "enabled", "enabled"}, "", true},
	{regexp.MustCompile(`reasoning_effort`), "reasoning_effort", [7]string(Efforts), "", false},
}

func effortOf(source string) *effortFormat {
	for i := range effortFormats {
		if effortFormats[i].mark.MatchString(source) {
			return &effortFormats[i]
		}
	}
	return nil
}

// thinkingSwitch is a variable that turns reasoning on and off.
type thinkingSwitch struct {
	variable string
	off, on  any
	budgets  []int // for each of Efforts, instead of on; nil: on for all
}

// thinkingSwitches has the switches that templates know. A template may read several.
var thinkingSwitches = []thinkingSwitch{
	{variable: "enable_thinking", off: false, on: true}, // most templates
	{variable: "thinking", off: false, on: true},        // Granite, DeepSeek V3.1, Kimi
	// Seed-OSS was trained on these budgets, in tokens. Without one it thinks as long as it wants.
	{variable: "thinking_budget", off: 0, on: -1,
		budgets: []int{0, 512, 1024, 4096, 8192, 16384, -1}},
}

// ThinkingVariables are the boolean variables of chat_template_kwargs by which clients turn
// reasoning on and off. EffortVariables sets the template's own.
var ThinkingVariables = []string{"enable_thinking", "thinking"}

// EffortVariables returns the variables that tell the template how much to think. effort is one of
// Efforts, or "" if the request names none. thinking turns reasoning on or off; nil: the effort
// does, where none means off. tools tells whether the request offers tools. Turning reasoning off
// where a template knows only efforts gives the least.
func (t *Template) EffortVariables(effort string, thinking *bool, tools bool) map[string]any {
	t = t.of(tools)
	level := slices.Index(Efforts, effort)
	on := level > 0
	if thinking != nil {
		on = *thinking
	}
	variables := map[string]any{}
	switch {
	case t.effort != nil && level < 0 && thinking != nil && !on:
		variables[t.effort.variable] = t.effort.values[0]
	case t.effort != nil && level >= 0:
		variables[t.effort.variable] = t.effort.values[level]
	case t.effort != nil && tools && t.effort.agent != "":
		variables[t.effort.variable] = t.effort.agent
	}
	if thinking == nil && (level < 0 || t.effort != nil && t.effort.alone) {
		return variables
	}
	for _, s := range t.switches {
		switch {
		case !on:
			variables[s.variable] = s.off
		case s.budgets != nil && level > 0:
			variables[s.variable] = s.budgets[level]
		default:
			variables[s.variable] = s.on
		}
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
	for _, s := range thinkingSwitches {
		if t.jinja.Reads(s.variable) {
			t.switches = append(t.switches, s)
		}
	}
	t.thinking = thinkingMark.MatchString(source)
}
