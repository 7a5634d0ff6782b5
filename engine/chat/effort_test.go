package chat

import (
	"maps"
	"testing"
)

func TestEffortVariables(t *testing.T) {
	const (
		qwen38 = "{% if reasoning_effort not in ['xhigh', 'medium'] %}{% endif %}" +
			"{# enable_thinking #}"
		gptOSS  = "{{ reasoning_effort }}<|start|><|channel|><|message|>"
		kimiK3  = "{{ thinking_effort }}"
		hunyuan = "{% if reasoning_effort not in ['high', 'low', 'no_think'] %}{% endif %}"
		m3      = `{% if thinking_mode == "adaptive" %}{% endif %}`
		other   = "{{ reasoning_effort }}"
		toggled = "{{ enable_thinking }}"
	)
	type vars = map[string]any
	for _, tt := range []struct {
		source, effort string
		tools          bool
		want           vars
	}{
		{qwen38, "", false, vars{}},
		{qwen38, "", true, vars{"reasoning_effort": "low"}},
		{qwen38, "none", false, vars{"reasoning_effort": "low"}},
		{qwen38, "minimal", false, vars{"reasoning_effort": "low"}},
		{qwen38, "medium", true, vars{"reasoning_effort": "medium"}},
		{qwen38, "high", true, vars{"reasoning_effort": "xhigh"}},
		{qwen38, "max", true, vars{"reasoning_effort": "xhigh"}},
		{gptOSS, "", true, vars{}},
		{gptOSS, "minimal", false, vars{"reasoning_effort": "low"}},
		{gptOSS, "xhigh", false, vars{"reasoning_effort": "high"}},
		{kimiK3, "medium", false, vars{"thinking_effort": "high"}},
		{hunyuan, "none", false, vars{"reasoning_effort": "no_think"}},
		{hunyuan, "max", true, vars{"reasoning_effort": "high"}},
		{hunyuan, "", true, vars{}},
		{m3, "none", false, vars{"thinking_mode": "disabled"}},
		{m3, "low", false, vars{"thinking_mode": "adaptive"}},
		{m3, "high", true, vars{"thinking_mode": "enabled"}},
		{other, "max", false, vars{"reasoning_effort": "max"}},
		{toggled, "none", true, vars{"enable_thinking": false}},
		{toggled, "low", false, vars{"enable_thinking": true}},
		{toggled, "", true, vars{}},
		{"{{ messages }}", "high", true, vars{}},
	} {
		got := parse(t, tt.source).EffortVariables(tt.effort, tt.tools)
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
		{"role":"assistant","content":"c","reasoning_content":"so","tool_calls":[]}]`
	got, err := parse(t, source).Render(t.Context(), Input{Messages: messages(t, sent)})
	if want := "why|a;own|b;so|;"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}
