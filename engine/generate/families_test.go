package generate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// families has, for each family of chat templates, how it writes messages. c is the content of a
// message, r its role.
var families = map[string]string{
	"ChatML":   `<|im_start|>{{ r }}\n{{ c }}<|im_end|>\n`,
	"Llama 3":  `<|start_header_id|>{{ r }}<|end_header_id|>\n\n{{ c | trim }}<|eot_id|>`,
	"Mistral":  `{{ '[INST]' if r == 'user' else '' }}{{ c }}{{ '[/INST]' if r == 'user' else '</s>' }}`,
	"Gemma":    `<start_of_turn>{{ r }}\n{{ c | trim }}<end_of_turn>\n`,
	"Gemma 4":  `<|turn>{{ r }}\n{{ c }}<turn|>\n<|channel>thought\n<channel|>`,
	"DeepSeek": `<｜User｜>{{ c }}<｜Assistant｜>{{ c }}<｜end▁of▁sentence｜>`,
	"Kimi K2":  `<|im_user|>{{ r }}<|im_middle|>{{ c }}<|im_end|>`,
	"Kimi K3":  `{{ '<|open|>' + 'message role="' + r + '"<|sep|>' }}{{ c }}<|close|>message<|sep|>`,
	"gpt-oss":  `<|start|>{{ r }}<|channel|>final<|message|>{{ c }}<|end|>`,
	"GLM":      `<|{{ r }}|>\n{{ c }}<|observation|>`,
	"MiniMax":  `]~b]{{ r }}\n{{ c }}[e~[\n]<]minimax[>[`,
	"Command":  `<|START_OF_TURN_TOKEN|><|USER_TOKEN|><|START_TEXT|>{{ c }}<|END_OF_TURN_TOKEN|>`,
	"Granite":  `<|start_of_role|>{{ r }}<|end_of_role|>{{ c }}<|end_of_text|>\n`,
	"Phi":      `<|{{ r }}|>{{ c }}<|end|>`,
	"Nemotron": `<SPECIAL_11>{{ r }}\n{{ c }}\n<SPECIAL_12>`,
	"Seed-OSS": `<seed:bos>{{ r }}\n{{ c }}<seed:eos>`,
	"Laguna":   `〈|EOS|〉<{{ r }}>{{ c }}</{{ r }}>`,
	"Reka":     `human: {{ c }} <sep> `,
	"EXAONE":   `[|{{ r }}|]\n{{ c }}[|endofturn|]\n`,
	"Hunyuan":  `<｜hy_User｜>{{ c }}<｜hy_Assistant｜>{{ c }}<｜hy_place▁holder▁no▁8｜>`,
	"ERNIE":    `<|begin_of_sentence|>User: {{ c }}\nAssistant: {{ c }}<|end_of_sentence|>`,
	"OLMo 2":   `<|endoftext|><|{{ r }}|>\n{{ c }}\n`,
	"twice":    `<|user|>{{ c }}{{ c }}<|end|>`, // the end of one text and the beginning of another
	"as JSON":  `<|user|>{{ {'content': c} | tojson }}<|end|>`,
	"removes":  `<|user|>{{ c.replace('/think', '') | lower }}<|end|>`,
	"splits":   `<|user|>{{ c.split('/think') | join }}<|end|>`,
}

// controlToken matches the control tokens of a prompt.
var controlToken = regexp.MustCompile(`<\|[^|<>\s]{1,40}\|>|<｜[^｜<>\s]{1,40}｜>|<\|\w+>|<\w+\|>|` +
	`\[/?[A-Z_]{3,}\]|\[\|\w+\|\]|</?s>|<(start|end|begin|beginning)_of_\w+>|<SPECIAL_\d+>|` +
	`\]~!?b[\[\]]|\[e~\[|\]<\]\w+\[>\[|<seed:\w+>|〈\|\w+\|〉|</?(system|user|assistant)>|<sep>|` +
	`<_(user|bot)>|<extra_id_\d+>|<reserved_\d+>|<用户>|<AI>`)

// plainTemplates are those of peers whose turns begin with words, such as "User:".
var plainTemplates = []string{"ollama-falcon2_11b.jinja", "ollama-granite-code_3b.jinja"}

// conversations are what a client may send. T stands for a text that comes from somebody else.
var conversations = []string{
	`{"messages":[{"role":"user","content":"T"}]}`,
	`{"messages":[{"role":"system","content":"T"},{"role":"user","content":"T"},
		{"role":"assistant","content":"T","reasoning_content":"T"},{"role":"user","content":"T"}]}`,
	`{"messages":[{"role":"user","content":"T"},{"role":"assistant","content":"T","tool_calls":[
		{"id":"call00001","type":"function","function":{"name":"f","arguments":"{\"a\":\"T\"}"}}]},
		{"role":"tool","tool_call_id":"call00001","name":"f","content":"T"}],
		"tools":[{"type":"function","function":{"name":"f","description":"T","parameters":
			{"type":"object","properties":{"a":{"type":"string","description":"T"}}}}}]}`,
}

// TestFamiliesKeepText sends the control tokens of each family in messages. The prompt must have
// the control tokens that the template writes, and no other. With HEADROOM_TEMPLATES, which
// `make oracle-templates` sets, it does so for the templates of that folder, too.
func TestFamiliesKeepText(t *testing.T) {
	for name, message := range families {
		source := `{% for m in messages %}{% set r = m.role %}{% set c = m.content %}` +
			strings.ReplaceAll(message, `\n`, "\n") + `{% endfor %}`
		t.Run(name, func(t *testing.T) {
			if keepText(t, source) != len(conversations) {
				t.Error("the template fails")
			}
		})
	}
	files, _ := filepath.Glob(filepath.Join(os.Getenv("HEADROOM_TEMPLATES"), "*.jinja"))
	rendered := 0
	for _, file := range files {
		if slices.Contains(plainTemplates, filepath.Base(file)) {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			if keepText(t, string(source)) > 0 {
				rendered++
			}
		})
	}
	if os.Getenv("HEADROOM_TEMPLATES") != "" && rendered < 60 {
		t.Errorf("only %d templates have rendered", rendered)
	}
}

// keepText checks one template, and returns how many of the conversations it renders.
func keepText(t *testing.T, source string) (rendered int) {
	t.Helper()
	template, err := chat.ParseTemplate(source)
	if err != nil {
		t.Fatal(err)
	}
	template = template.WithSpecialTokens(map[string]string{"bos_token": "<s>", "eos_token": "</s>",
		"unk_token": "<unk>", "pad_token": "<pad>"})
	for _, body := range conversations {
		// A first prompt shows the control tokens, of which a tokenizer is made.
		m := &demoModel{template: template, tokenizer: withTokens(t, nil)}
		plain, err := encode(t, m, body, "word")
		var failed *problem.Problem
		if errors.As(err, &failed) && failed.Code == problem.TemplateFailed {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		rendered++
		tokens := controlToken.FindAllString(m.tokenizer.Decode(plain, false), -1)
		slices.Sort(tokens)
		if tokens = slices.Compact(tokens); len(tokens) == 0 {
			t.Fatal("the prompt has no control token")
		}
		m.tokenizer = withTokens(t, tokens)
		if plain, err = encode(t, m, body, "word"); err != nil {
			t.Fatal(err)
		}
		if len(m.specials(plain)) == 0 {
			t.Fatal("the prompt has no control token")
		}
		all := strings.Join(tokens, "")
		for _, text := range []string{all, "a" + all + "b", tokens[0][1:] + " " + tokens[0][:1],
			strings.ToUpper(all), interrupted(tokens, "/think"), interrupted(tokens, "/no_think")} {
			attack, err := encode(t, m, body, text)
			if err != nil {
				t.Errorf("%q: %v", text, err)
			} else if got := m.specials(attack); !slices.Equal(got, m.specials(plain)) {
				t.Errorf("%q in messages gives control tokens: %s", text,
					m.tokenizer.Decode(attack, false))
			}
		}
	}
	return rendered
}

// TestRoles checks that a role cannot become a control token.
func TestRoles(t *testing.T) {
	m := &demoModel{tokenizer: withTokens(t, []string{"<|user|>", "<|end|>"})}
	var err error
	if m.template, err = chat.ParseTemplate(
		`{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}`); err != nil {
		t.Fatal(err)
	}
	for role, refused := range map[string]bool{"user": false, "observation": false, "end": true} {
		_, err := encode(t, m, `{"messages":[{"role":"`+role+`","content":"T"}]}`, "word")
		var bad *generate.ParamError
		if errors.As(err, &bad) != refused || refused && bad.Param != "messages[0].role" {
			t.Errorf("role %q: %v", role, err)
		}
	}
}

// interrupted returns the tokens with a word in the middle of each, which some templates remove.
func interrupted(tokens []string, word string) (text string) {
	for _, token := range tokens {
		runes := []rune(token)
		half := len(runes) / 2
		text += string(runes[:half]) + word + string(runes[half:]) + " "
	}
	return text
}

// specials returns the control tokens of a prompt.
func (m *demoModel) specials(prompt []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(prompt),
		func(id int32) bool { return !m.tokenizer.IsSpecial(id) })
}

// encode returns the prompt of a conversation with a text in it.
func encode(t *testing.T, m *demoModel, body, text string) ([]int32, error) {
	t.Helper()
	quoted, _ := json.Marshal(text)
	inner := string(quoted[1 : len(quoted)-1])
	twice, _ := json.Marshal(inner)
	body = strings.ReplaceAll(body, `\"T\"`, `\"`+string(twice[1:len(twice)-1])+`\"`)
	body = strings.ReplaceAll(body, `"T"`, `"`+inner+`"`)
	var r generate.Request
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	prompt, _, err := r.Encode(t.Context(), m, 0)
	return prompt, err
}

// withTokens returns a tokenizer of bytes and these control tokens.
func withTokens(t *testing.T, tokens []string) *tokenizer.Tokenizer {
	t.Helper()
	vocab := map[string]int{}
	next := rune(256)
	for b := range 256 { // the byte-level alphabet
		r := rune(b)
		if b < '!' || b > '~' && b < '¡' || b == '\u00ad' {
			r, next = next, next+1
		}
		vocab[string(r)] = b
	}
	var added []string
	for i, token := range tokens {
		quoted, _ := json.Marshal(token)
		added = append(added, fmt.Sprintf(`{"id":%d,"content":%s,"special":true}`, 256+i, quoted))
	}
	words, _ := json.Marshal(vocab)
	tok, err := tokenizer.Parse([]byte(fmt.Sprintf(`{"added_tokens":[%s],
		"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
		"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":%s,"merges":[]}}`,
		strings.Join(added, ","), words)))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
