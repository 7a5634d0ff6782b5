package chat

import (
	"maps"
	"testing"
)

func TestEffortVariables(t *testing.T) {
	const (
		qwen38 = "{% if reasoning_effort not in ['xhigh', 'medium'] %}{% endif %}" +
			"{# enable_thinking #}"
		gptOSS   = "{{ reasoning_effort }}<|start|><|channel|><|message|>"
		kimiK3   = "{{ thinking_effort }}"
		hunyuan  = "{% if reasoning_effort not in ['high', 'low', 'no_think'] %}{% endif %}"
		m3       = `{% if thinking_mode == "adaptive" %}{% endif %}`
		other    = "{{ reasoning_effort }}"
		toggled  = "{{ enable_thinking }}"
		granite  = "{% if thinking %}{% endif %}"
		seed     = "{% if thinking_budget == 0 %}{% endif %}"
		kimiOn   = "{% if thinking %}{{ thinking_effort }}{% endif %}"
		deepseek = "{% if not thinking is defined %}{% set thinking = enable_thinking %}{% endif %}"
		word     = "{# enable_thinking #}{{ message.thinking }}{{ 'thinking_budget' }}"
	)
	on, off := new(true), new(false)
	type vars = map[string]any
	for _, tt := range []struct {
		source, effort string
		thinking       *bool
		tools          bool
		want           vars
	}{
		{qwen38, "", nil, false, vars{}},
		{qwen38, "", nil, true, vars{"reasoning_effort": "low"}},
		{qwen38, "none", nil, false, vars{"reasoning_effort": "low"}},
		{qwen38, "minimal", nil, false, vars{"reasoning_effort": "low"}},
		{qwen38, "medium", nil, true, vars{"reasoning_effort": "medium"}},
		{qwen38, "high", nil, true, vars{"reasoning_effort": "xhigh"}},
		{qwen38, "max", nil, true, vars{"reasoning_effort": "xhigh"}},
		{gptOSS, "", nil, true, vars{}},
		{gptOSS, "minimal", nil, false, vars{"reasoning_effort": "low"}},
		{gptOSS, "xhigh", nil, false, vars{"reasoning_effort": "high"}},
		{kimiK3, "medium", nil, false, vars{"thinking_effort": "high"}},
		{hunyuan, "none", nil, false, vars{"reasoning_effort": "no_think"}},
		{hunyuan, "max", nil, true, vars{"reasoning_effort": "high"}},
		{hunyuan, "", nil, true, vars{}},
		{m3, "none", nil, false, vars{"thinking_mode": "disabled"}},
		{m3, "low", nil, false, vars{"thinking_mode": "adaptive"}},
		{m3, "high", nil, true, vars{"thinking_mode": "enabled"}},
		{other, "max", nil, false, vars{"reasoning_effort": "max"}},
		{toggled, "none", nil, true, vars{"enable_thinking": false}},
		{toggled, "low", nil, false, vars{"enable_thinking": true}},
		{toggled, "", nil, true, vars{}},
		{"{{ messages }}", "high", nil, true, vars{}},
		{granite, "none", nil, false, vars{"thinking": false}},
		{granite, "minimal", nil, true, vars{"thinking": true}},
		{granite, "", off, true, vars{"thinking": false}},
		{granite, "", on, true, vars{"thinking": true}},
		{granite, "", nil, true, vars{}},
		{granite, "high", off, true, vars{"thinking": false}},
		{seed, "none", nil, false, vars{"thinking_budget": 0}},
		{seed, "minimal", nil, false, vars{"thinking_budget": 512}},
		{seed, "low", nil, false, vars{"thinking_budget": 1024}},
		{seed, "medium", nil, false, vars{"thinking_budget": 4096}},
		{seed, "high", nil, false, vars{"thinking_budget": 8192}},
		{seed, "xhigh", nil, false, vars{"thinking_budget": 16384}},
		{seed, "max", nil, false, vars{"thinking_budget": -1}},
		{seed, "", off, false, vars{"thinking_budget": 0}},
		{seed, "", on, false, vars{"thinking_budget": -1}},
		{seed, "low", on, false, vars{"thinking_budget": 1024}},
		{deepseek, "low", nil, false, vars{"thinking": true, "enable_thinking": true}},
		{deepseek, "", off, false, vars{"thinking": false, "enable_thinking": false}},
		{kimiOn, "none", nil, false, vars{"thinking_effort": "low", "thinking": false}},
		{kimiOn, "high", nil, true, vars{"thinking_effort": "high", "thinking": true}},
		{kimiOn, "", off, true, vars{"thinking_effort": "low", "thinking": false}},
		{gptOSS, "", off, true, vars{"reasoning_effort": "low"}},
		{gptOSS, "", on, true, vars{}},
		{qwen38, "", off, true, vars{"reasoning_effort": "low"}},
		{toggled, "", off, true, vars{"enable_thinking": false}},
		{word, "none", nil, true, vars{}},
		{word, "", off, true, vars{}},
	} {
		got := parse(t, tt.source).EffortVariables(tt.effort, tt.thinking, tt.tools)
		if !maps.Equal(got, tt.want) {
			t.Errorf("%q, %q, tools %t: got %v, want %v", tt.source, tt.effort, tt.tools, got,
				tt.want)
		}
	}
}

// TestThinking checks that reasoning_content reaches templates that read thinking.
func TestThinking(t *testing.T) {
	const source = "{% for m in messages %}{% set message = m %}{{ message.thinking }}|" +
		"{{ message.content }};{% endfor %}{# <|start|><|channel|><|message|> #}"
	const sent = `[{"role":"assistant","content":"a","reasoning_content":"why"},
		{"role":"assistant","content":"b","reasoning_content":"x","thinking":"own"},
		{"role":"assistant","content":"c","reasoning_content":"so","tool_calls":[
			{"id":"1","function":{"name":"f","arguments":"{}"}}]}]`
	got, err := parse(t, source).Render(t.Context(), Input{Messages: messages(t, sent)})
	if want := "why|a;own|b;so|;"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}
