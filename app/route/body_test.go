package route

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"
)

// TestSession: requests of one conversation have one session, and those of others have others.
func TestSession(t *testing.T) {
	const first = `{"role":"user","content":"hello"}`
	type request struct{ body, header, value string }
	for name, c := range map[string]struct {
		a, b request
		same bool
	}{
		"the next turn": {request{body: `{"messages":[` + first + `]}`}, request{body: `{"messages":[` +
			first + `,{"role":"assistant","content":"x"},{"role":"user","content":"y"}]}`}, true},
		"another first message": {request{body: `{"messages":[` + first + `]}`},
			request{body: `{"messages":[{"role":"user","content":"hi"}]}`}, false},
		"another system message": {
			request{body: `{"messages":[{"role":"system","content":"a"},` + first + `]}`},
			request{body: `{"messages":[{"role":"system","content":"b"},` + first + `]}`}, false},
		"another system text of Anthropic's": {
			request{body: `{"system":"a","messages":[` + first + `]}`},
			request{body: `{"system":"b","messages":[` + first + `]}`}, false},
		"another model": {request{body: `{"model":"a","messages":[` + first + `]}`},
			request{body: `{"model":"b","messages":[` + first + `]}`}, false},
		"the mark of a cache has moved": {
			request{body: `{"messages":[{"role":"user","content":[{"type":"text","text":"a",` +
				`"cache_control":{"type":"ephemeral"}}]}]}`},
			request{body: `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`},
			true},
		"one key": {request{body: `{"prompt_cache_key":"k","messages":[` + first + `]}`},
			request{body: `{"prompt_cache_key":"k","messages":[]}`}, true},
		"two keys": {request{body: `{"prompt_cache_key":"k","messages":[` + first + `]}`},
			request{body: `{"prompt_cache_key":"l","messages":[` + first + `]}`}, false},
		"Codex": {request{`{"input":"a"}`, "session_id", "s"},
			request{`{"input":"b"}`, "session_id", "s"}, true},
		"Claude Code": {request{`{"messages":[]}`, "x-claude-code-session-id", "s"},
			request{`{"messages":[` + first + `]}`, "x-claude-code-session-id", "s"}, true},
		"two of Claude Code": {request{`{"messages":[]}`, "x-claude-code-session-id", "s"},
			request{`{"messages":[]}`, "x-claude-code-session-id", "t"}, false},
		"Responses": {request{body: `{"instructions":"i","input":[` + first + `]}`},
			request{body: `{"instructions":"i","input":[` + first + `,{"type":"reasoning"}]}`}, true},
		"a plain prompt": {request{body: `{"prompt":"a"}`}, request{body: `{"prompt":"b"}`}, false},
	} {
		of := func(r request) session {
			b, ok := readBody([]byte(r.body))
			if !ok {
				t.Fatalf("%s: %s", name, r.body)
			}
			h := http.Header{}
			if r.header != "" {
				h.Set(r.header, r.value)
			}
			return sessionOf(h, &b, b.model)
		}
		if (of(c.a) == of(c.b)) != c.same {
			t.Errorf("%s: %+v and %+v, same: %t", name, c.a, c.b, !c.same)
		}
	}
}

func TestWithModel(t *testing.T) {
	for text, want := range map[string]string{
		`{"model":"a"}`: `{"model":"x\"y"}`,
		` {"n" : [1, {"model":"b"}],"model": "a"}`: ` {"n" : [1, {"model":"b"}],"model": "x\"y"}`,
		`{"model":null,"s":"é"}`:                   `{"model":"x\"y","s":"é"}`,
		`{}`:                                       "", `[]`: "", `{"model"`: "", ``: "",
	} {
		data := []byte(text)
		b, _ := readBody(data)
		got, ok := withModel(data, &b, `x"y`)
		if string(got) != want || ok != (want != "") {
			t.Errorf("%s: %s, %t", text, got, ok)
		}
	}
}

func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"model":"a","messages":[{"role":"user","content":[{"text":"a"}]}]}`))
	f.Add([]byte(`{"input":[{}],"metadata":3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, ok := readBody(data)
		if !ok {
			return
		}
		sessionOf(http.Header{}, &b, b.model)
		changed, ok := withModel(data, &b, "new")
		var was map[string]json.RawMessage
		if !ok || json.Unmarshal(data, &was) != nil {
			return // whoever answers refuses it
		}
		var got map[string]json.RawMessage
		err := json.Unmarshal(changed, &got)
		var name string
		if err != nil || json.Unmarshal(got["model"], &name) != nil || name != "new" {
			t.Fatalf("%q: %q, %v", data, changed, err)
		}
		delete(was, "model")
		delete(got, "model")
		if !reflect.DeepEqual(was, got) {
			t.Errorf("%q: %q has other fields", data, changed)
		}
	})
}

func FuzzPrefixQuestion(f *testing.F) {
	f.Add([]byte(`{"model":"a","block_tokens":128,"hashes":["00112233445566778899aabbccddeeff"]}`))
	f.Add([]byte(`{"model":"a","block_tokens":33,"hashes":[]}`))
	f.Add([]byte(`{"model":"a","block_tokens":32,"hashes":["00112233445566778899aabbccddeeff"],` +
		`"ends":[{"tokens":40,"hash":"00112233445566778899aabbccddeeff"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		model, q, err := parsePrefix(data)
		if err != nil {
			return
		}
		again, _ := json.Marshal(encoded(model, q))
		if m, p, err := parsePrefix(again); err != nil || m != model || !reflect.DeepEqual(p, q) {
			t.Errorf("%q: %+v, again %+v, %v", data, q, p, err)
		}
	})
}
