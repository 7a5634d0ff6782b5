package openai

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"headroom/engine/jsonbody"
)

// many returns n values of the form, separated by commas. In the form, %d is the number of the
// value.
func many(n int, form string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(form, "%d", fmt.Sprint(i)))
	}
	return b.String()
}

// TestScanRefuses: bodies that encoding/json accepts, and that would take much memory or that
// programs read in different ways.
func TestScanRefuses(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ name, body, param, message string }{
		{"lone surrogate", chatBody(`"user":"\ud800"`), "", `has \ud800, which is half of a char`},
		{"low surrogate first", chatBody(`"user":"\udc00\ud800"`), "", `has \udc00`},
		{"two high surrogates", chatBody(`"user":"\ud800\ud800"`), "", `has \ud800`},
		{"surrogate in a key", chatBody(`"\uDBFF":1`), "", `has \uDBFF`},
		{"duplicate key", chatBody(`"n":1,"n":1`), "", `the key "n" twice in one object, at line 1`},
		{"duplicate key with an escape", chatBody(`"n":1,"\u006e":1`), "", `the key "\u006e" twice`},
		{"duplicate key below", `{"messages":[{"role":"user","content":"a","content":"b"}]}`, "",
			`the key "content" twice`},
		{"duplicate among many keys", chatBody(`"x":{` + many(40, `"%d":0`) + `,"7":1}`), "",
			`the key "7" twice`},
		{"too deep", chatBody(`"x":` + nested(jsonbody.MaxDepth)), "", "the limit is 128 levels"},
		{"much too deep", strings.Repeat(`{"a":`, 1<<20), "", "the limit is 128 levels"},
		{"too many values", chatBody(`"x":[` + many(jsonbody.MaxValues, "0") + `]`), "",
			"more than 262144 values"},
		{"too many token ids", `{"prompt":[` + many(jsonbody.MaxPromptTokens+1, "1") + `]}`, "prompt",
			"at most 4194304 token ids"},
		{"too many messages", `{"messages":[` +
			many(jsonbody.MaxMessages+1, `{"role":"user"}`) + `]}`, "messages", "at most 16384 entries"},
		{"too many tools", chatBody(`"tools":[` +
			many(jsonbody.MaxTools+1, `{"function":{"name":"f"}}`) + `]`), "tools", "at most 1024 entries"},
		{"too many biases", chatBody(`"logit_bias":{` + many(maxLogitBias+1, `"%d":0`) + `}`),
			"logit_bias", "at most 65536 tokens, got 65537"},
		{"a token with two biases", chatBody(`"logit_bias":{"1":0,"01":1}`), "logit_bias",
			"the token 1 has two values"},
		{"long model", chatBody(`"model":"` + strings.Repeat("m", maxNameBytes+1) + `"`), "model",
			"at most 1024 bytes"},
		{"long function", chatBody(`"tools":[{"function":{"name":"` +
			strings.Repeat("f", maxNameBytes+1) + `"}}]`), "tools[0].function.name",
			"at most 1024 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseChat([]byte(c.body))
			if c.param == "prompt" {
				_, err = ParseCompletion([]byte(c.body))
			}
			var e *Error
			if errors.As(err, &e) && strings.HasPrefix(e.Param, "logit_bias.") {
				e.Param = "logit_bias" // the order of a map decides which key is the second
			}
			checkError(t, err, c.param, c.message)
		})
	}
}

// TestCaseVariants: names are case-sensitive, in the body and below. A variant is an unknown field.
func TestCaseVariants(t *testing.T) {
	_, err := ParseCompletion([]byte(`{"PROMPT":"x"}`))
	checkError(t, err, "prompt", "is missing")
	r, err := ParseChat([]byte(`{"messages":[{"role":"user","content":"a","Role":"system"}],
		"Temperature":2,"stream_options":{"INCLUDE_USAGE":true},"STREAM":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Messages[0].Role != "user" || r.Temperature != nil || r.IncludeUsage || r.Stream {
		t.Errorf("got %+v, expected that the variants are ignored", r)
	}
	call, err := parseChatCall([]byte(
		`{"messages":[{"role":"user","content":"a","CONTENT":"b"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if text := call.Messages[0].Content; text != "a" {
		t.Errorf("content %q, expected a", text)
	}
}

// TestSurrogatePairs: both halves together are a character, and so is a backslash before a u.
func TestSurrogatePairs(t *testing.T) {
	r, err := ParseCompletion([]byte(`{"prompt":"\ud83d\ude00\\ud800","\ud83D\uDE00":1}`))
	if err != nil || r.Prompts[0].Text != `😀\ud800` {
		t.Errorf("%+v, %v", r, err)
	}
}
