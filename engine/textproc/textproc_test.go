package textproc

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"headroom/engine/chat"
	"headroom/engine/checkpoint"
	"headroom/engine/problem"
)

// TestTemplateKnowsSpecialTokens reads special tokens from the forms of tokenizer_config.json that
// models have.
func TestTemplateKnowsSpecialTokens(t *testing.T) {
	const template = `{{ bos_token if bos_token is defined else '-' }}|{{ eos_token if eos_token is defined else '-' }}`
	cases := []struct{ config, want string }{
		{`{"bos_token":"<s>","eos_token":"</s>"}`, "<s>|</s>"},
		{`{"bos_token":{"__type":"AddedToken","content":"<s>"},"eos_token":null}`, "<s>|-"},
		{`{"bos_token":1,"eos_token":{"content":2}}`, "-|-"},
		{`{"chat_template":"not this one","eos_token":"</s>"}`, "-|</s>"},
		{`{}`, "-|-"},
	}
	for _, c := range cases {
		src := checkpoint.Source{FS: fstest.MapFS{"chat_template.jinja": {Data: []byte(template)},
			"tokenizer_config.json": {Data: []byte(c.config)}}}
		got := renderHi(t, src, nil)
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.config, got, c.want)
		}
	}
	src := checkpoint.Source{FS: fstest.MapFS{"tokenizer_config.json": {Data: []byte(
		`{"bos_token":"<s>","chat_template":"{{ bos_token }}"}`)}}}
	if got := renderHi(t, src, nil); got != "<s>" {
		t.Errorf("a template in tokenizer_config.json: got %q", got)
	}
	if got := renderHi(t, src, map[string]any{"bos_token": "mine"}); got != "mine" {
		t.Errorf("a bos_token from the request: got %q", got)
	}
}

// TestTemplateVariables checks that a template has the variables that transformers gives it.
func TestTemplateVariables(t *testing.T) {
	const template = `{% for t in [sep_token, cls_token, mask_token, pad_token, unk_token, ` +
		`image_token, video_token, other] %}{{ t if t is defined else '-' }} {% endfor %}`
	for config, want := range map[string]string{
		`{"sep_token":"s","cls_token":"c","mask_token":"m","pad_token":"p","unk_token":"u"}`: "" +
			"s c m p u - - - ",
		`{"image_token":"<i>","video_token":{"__type":"AddedToken","content":"<v>"}}`: "" +
			"- - - - - <i> <v> - ",
		`{"extra_special_tokens":{"image_token":"<i>","other":{"content":"<o>"}}}`: "" +
			"- - - - - <i> - <o> ",
		`{"extra_special_tokens":["<i>"],"other":"<o>"}`:          "- - - - - - - - ",
		`{"model_specific_special_tokens":{"image_token":"<i>"}}`: "- - - - - <i> - - ",
	} {
		src := checkpoint.Source{FS: fstest.MapFS{"chat_template.jinja": {Data: []byte(template)},
			"tokenizer_config.json": {Data: []byte(config)}}}
		if got := renderHi(t, src, nil); got != want {
			t.Errorf("%s: got %q, want %q", config, got, want)
		}
	}
	src := checkpoint.Source{FS: fstest.MapFS{"chat_template.jinja": {
		Data: []byte("{{ messages[0].role }} {{ tools }}")}, "tokenizer_config.json": {
		Data: []byte(`{"extra_special_tokens":{"messages":"no","tools":"no"}}`)}}}
	if got := renderHi(t, src, nil); got != "user None" {
		t.Errorf("special tokens replace messages and tools: got %q", got)
	}
}

// TestDamagedFiles checks that a file beside the tokenizer which cannot be read is an error, and
// that the error names it.
func TestDamagedFiles(t *testing.T) {
	const (
		pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
		jinja   = "chat_template.jinja"
		toolUse = "additional_chat_templates/tool_use.jinja"
	)
	for file, texts := range map[string][]string{
		"tokenizer_config.json": {``, `[]`, `{"bos_token`, `null`, pointer, `{"chat_template":3}`,
			`{"chat_template":[{"name":1}]}`, `{"chat_template":{"default":[]}}`},
		"special_tokens_map.json": {``, `[]`, pointer},
		"added_tokens.json":       {``, `[]`, pointer, `{"a":"b"}`},
		"chat_template.json":      {``, `[]`, pointer, `{"chat_template":{"default":1}}`},
		jinja:                     {pointer, strings.Repeat("a", 2<<20)},
		toolUse:                   {pointer},
	} {
		for _, text := range texts {
			files := fstest.MapFS{jinja: {Data: []byte("a")}, file: {Data: []byte(text)}}
			if strings.HasPrefix(text, `{"chat_template"`) || file == "chat_template.json" {
				delete(files, jinja)
			}
			_, err := ReadTemplate(checkpoint.Source{FS: files})
			if p := problem.From(err); err == nil || p.Code != problem.ModelBroken ||
				!strings.Contains(p.Error(), file) {
				t.Errorf("%s: %.40q: got %v", file, text, err)
			}
		}
	}
}

// TestNamedTemplates checks which template renders requests with and without tools.
func TestNamedTemplates(t *testing.T) {
	const (
		list = `{"bos_token":"<s>","chat_template":[
			{"name":"rag","template":"rag"},{"name":"default","template":"plain {{ bos_token }}"},
			{"name":"tool_use","template":"tools {{ bos_token }}"}]}`
		file = "chat_template.jinja"
		more = "additional_chat_templates/tool_use.jinja"
		old  = "chat_template.json"
	)
	for _, tt := range []struct {
		about, config string
		files         map[string]string
		plain, tools  string // "": there is no template
	}{
		{"a list", list, nil, "plain <s>", "tools <s>"},
		{"a list without tool_use", `{"chat_template":[{"name":"default","template":"a"}]}`, nil,
			"a", "a"},
		{"a list without default", `{"chat_template":[{"name":"tool_use","template":"a"}]}`, nil,
			"", ""},
		{"a file beside a list", list, map[string]string{file: "file"}, "file", "file"},
		{"two files", `{"chat_template":"config"}`, map[string]string{file: "a", more: "b"}, "a",
			"b"},
		{"only tool_use", `{"chat_template":"config"}`, map[string]string{more: "b"}, "", ""},
		{"a processor's", `{}`, map[string]string{old: `{"chat_template":"old"}`}, "old", "old"},
		{"a processor's list", `{}`, map[string]string{old: `{"chat_template":[
			{"name":"default","template":"a"},{"name":"tool_use","template":"b"}]}`}, "a", "b"},
		{"a processor's beside another", `{"chat_template":"config"}`,
			map[string]string{old: `{"chat_template":"old"}`}, "config", "config"},
		{"null", `{"chat_template":null}`, nil, "", ""},
		{"a processor has null", `{}`, map[string]string{old: `{"chat_template":null}`}, "", ""},
		{"an object", `{"chat_template":{"default":"a","tool_use":"b"}}`, nil, "a", "b"},
	} {
		files := fstest.MapFS{"tokenizer_config.json": {Data: []byte(tt.config)}}
		for name, text := range tt.files {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		template, err := ReadTemplate(checkpoint.Source{FS: files})
		if tt.plain == "" {
			if !errors.Is(err, chat.ErrNoTemplate) {
				t.Errorf("%s: got %v, want %v", tt.about, err, chat.ErrNoTemplate)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.about, err)
			continue
		}
		for want, tools := range map[*string][]json.RawMessage{&tt.plain: nil,
			&tt.tools: {json.RawMessage(`{}`)}} {
			got, err := template.Render(t.Context(), chat.Input{Tools: tools})
			if err != nil || got != *want {
				t.Errorf("%s, %d tools: got %q, %v; want %q", tt.about, len(tools), got, err, *want)
			}
		}
	}
	broken := checkpoint.Source{FS: fstest.MapFS{file: {Data: []byte("a")},
		more: {Data: []byte("{% if %}")}}}
	if _, err := ReadTemplate(broken); err == nil || errors.Is(err, chat.ErrNoTemplate) {
		t.Errorf("a broken tool_use: got %v", err)
	}
}

// TestTiktoken checks that a tiktoken.model gets its special tokens from tokenizer_config.json.
func TestTiktoken(t *testing.T) {
	files := fstest.MapFS{"tiktoken.model": {Data: []byte("YQ== 0\n")},
		"config.json":           {Data: []byte(`{"model_type":"kimi_linear"}`)},
		"tokenizer_config.json": {Data: []byte(`{"added_tokens_decoder":{"2":{"content":"<x>"}}}`)}}
	src := checkpoint.Source{FS: files}
	if got := TokenizerFile(src); got != "tiktoken.model" {
		t.Errorf("the tokenizer is in %q", got)
	}
	p, err := Read(src)
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := p.Tokenizer().TokenID("<x>"); !ok || id != 2 {
		t.Errorf("<x> is %d, %t", id, ok)
	}
	delete(files, "tokenizer_config.json")
	if _, err := Read(src); err != nil {
		t.Errorf("without a config: %v", err)
	}
}

func renderHi(t *testing.T, src checkpoint.Source, kwargs map[string]any) string {
	t.Helper()
	template, err := ReadTemplate(src)
	if err != nil {
		t.Fatal(err)
	}
	text, err := template.Render(context.Background(),
		chat.Input{Messages: []chat.Message{{Role: "user", Content: "hi"}}, Kwargs: kwargs})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTags checks that the text of a conversation keeps the special tokens which the template's
// format needs, and that the tokens that end a call end an answer.
func TestTags(t *testing.T) {
	const vocabulary = `{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},
		"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel"},"added_tokens":[
		{"id":1,"content":"<|channel|>","special":true},{"id":2,"content":"<|pad|>","special":true},
		{"id":3,"content":"<|message|>","special":true},{"id":4,"content":"<|call|>","special":true}]}`
	src := checkpoint.Source{FS: fstest.MapFS{
		"config.json":         {Data: []byte(`{"model_type":"gpt_oss"}`)},
		"tokenizer.json":      {Data: []byte(vocabulary)},
		"chat_template.jinja": {Data: []byte("<|start|><|channel|>final<|message|>")},
	}}
	p, err := Read(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tags bool
		want string
	}{{true, "<|channel|>a<|message|>"}, {false, "a"}} {
		got, stream := "", p.NewStream(nil, tt.tags)
		for _, id := range []int32{1, 0, 2, 3} {
			got += stream.Add(id)
		}
		if got += stream.Close(); got != tt.want {
			t.Errorf("tags %t: got %q, want %q", tt.tags, got, tt.want)
		}
	}
	if !p.IsEOS(4) || p.IsEOS(1) {
		t.Error("<|call|> does not end an answer, or <|channel|> does")
	}
}

// TestNewStreamContinues: the answer to a plain prompt keeps the space at its beginning, and a
// message does not.
func TestNewStreamContinues(t *testing.T) {
	p, err := Read(checkpoint.Source{FS: fstest.MapFS{
		"config.json": {Data: []byte(`{"model_type":"llama"}`)},
		"tokenizer.json": {Data: []byte(`{"model":{"type":"BPE","vocab":{"▁a":0},"merges":[]},` +
			`"added_tokens":[{"id":1,"content":"<s>","special":true}],` +
			`"decoder":{"type":"Metaspace"}}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		prompt []int32
		tags   bool
		want   string
	}{{[]int32{1, 0}, false, " a"}, {[]int32{1}, false, "a"}, {[]int32{1, 0}, true, "a"}} {
		if got := p.NewStream(tt.prompt, tt.tags).Add(0); got != tt.want {
			t.Errorf("after %v, tags %t: got %q, want %q", tt.prompt, tt.tags, got, tt.want)
		}
	}
}

// eosVocabulary has a token of its own for each id that TestEOS expects.
const eosVocabulary = `{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},
	"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel"},"added_tokens":[
	{"id":2,"content":"</s>","special":true},{"id":3,"content":"<t3>","special":true},
	{"id":4,"content":"<t4>","special":true},{"id":5,"content":"<t5>"}]}`

// TestEOS checks which tokens end an answer. The expected ids are those of mlx-lm's tokenizers, but
// for text_config, which mlx-lm does not read.
func TestEOS(t *testing.T) {
	const tokenizer, generation = "tokenizer_config.json", "generation_config.json"
	for _, tt := range []struct {
		about, config string
		files         map[string]string
		want          []int32
	}{
		{"config.json", `"eos_token_id":[2,3]`, nil, []int32{2, 3}},
		{"text_config", `"text_config":{"eos_token_id":2}`, nil, []int32{2}},
		{"both", `"eos_token_id":[2,3],"text_config":{"eos_token_id":2}`, nil, []int32{2, 3}},
		{"both, other ids", `"eos_token_id":4,"text_config":{"eos_token_id":[2,3]}`, nil,
			[]int32{2, 3, 4}},
		{"null", `"eos_token_id":3,"text_config":{"eos_token_id":null}`, nil, []int32{3}},
		{"none", `"hidden_size":1`, nil, nil},
		{"the tokenizer's", `"eos_token_id":2`, map[string]string{tokenizer: `{"eos_token":"<t3>"}`},
			[]int32{2, 3}},
		{"the tokenizer's as an object", `"eos_token_id":2`,
			map[string]string{tokenizer: `{"eos_token":{"content":"<t5>"}}`}, []int32{2, 5}},
		{"the tokenizer's alone", `"eos_token_id":null`,
			map[string]string{tokenizer: `{"eos_token":"<t3>"}`}, []int32{3}},
		{"the tokenizer has null", `"eos_token_id":2`,
			map[string]string{tokenizer: `{"eos_token":null}`}, []int32{2}},
		{"generation_config.json replaces config.json", `"eos_token_id":[2,3]`,
			map[string]string{generation: `{"eos_token_id":4}`}, []int32{4}},
		{"generation_config.json without the key", `"eos_token_id":[2,3]`,
			map[string]string{generation: `{"do_sample":true}`}, []int32{2, 3}},
		{"generation_config.json with an empty list", `"eos_token_id":[2,3]`,
			map[string]string{generation: `{"eos_token_id":[]}`}, []int32{2, 3}},
		{"all files", `"eos_token_id":2`, map[string]string{
			generation: `{"eos_token_id":[4,5]}`, tokenizer: `{"eos_token":"<t3>"}`},
			[]int32{3, 4, 5}},
	} {
		files := fstest.MapFS{
			"config.json":    {Data: []byte(`{"model_type":"llama",` + tt.config + `}`)},
			"tokenizer.json": {Data: []byte(eosVocabulary)},
		}
		for name, text := range tt.files {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		p, err := Read(checkpoint.Source{FS: files})
		if err != nil {
			t.Errorf("%s: %v", tt.about, err)
			continue
		}
		var got []int32
		for id := range int32(p.Tokenizer().VocabSize()) {
			if p.IsEOS(id) {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.about, got, tt.want)
		}
	}
}
