package chat

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headroom/engine/grammar"
)

// assistant is the end of a prompt in harmony.
const assistant = "<|start|>assistant"

// watched is an answer with the beginnings of calls that a CallWatch finds in it.
var watched = []struct {
	format, prompt, answer string
	begun                  []string
}{
	{"harmony", assistant, "<|channel|>commentary to=functions.now <|constrain|>json" +
		`<|message|>{"a": 1}`, []string{harmonyHeader("now")}},
	{"harmony", assistant, ` to=functions.now<|channel|>commentary json<|message|>{"a": 1}`,
		[]string{harmonyHeader("now")}},
	{"harmony", assistant, "<|channel|>analysis<|message|>now, to=functions.now<|end|>" +
		assistant + `<|channel|>commentary to=now<|message|>{"a": 1}<|call|>`,
		[]string{harmonyHeader("now")}},
	{"harmony", assistant, `<|channel|>commentary to=functions.now<|message|>{"a": 1}<|call|>` +
		assistant + `<|channel|>commentary to=functions.send<|message|>{"a": 1}`,
		[]string{harmonyHeader("now"), harmonyHeader("send")}},
	{"harmony", assistant, "<|channel|>analysis to=browser.search<|message|>{}<|call|>",
		nil},
	{"harmony", assistant, "<|channel|>final<|message|>to=functions.now {}", nil},
	{"harmony", assistant + "<|channel|>final<|message|>So ", "to=functions.now<|message|>",
		nil},
	{"llama3", "", `{"name": "now", "parameters": {}}`, []string{`{"name": "now"`}},
	{"llama3", "", ` <|python_tag|>{"name":"now","parameters":{}}`, []string{`{"name": "now"`}},
	{"llama3", "", `{ "name" : "now" , "parameters": {}};{"name": "send", "parameters": {}}`,
		[]string{`{"name": "now"`, `{"name": "send"`}},
	{"llama3", "", `{"name": "Bob", "age": 7}`, nil},
	{"llama3", "", `{"names": ["now"]}`, nil},
	{"llama3", "", `{"type": "function", "name": "now", "parameters": {}}`, nil},
	{"llama3", "", `Now {"name": "now", "parameters": {}}`, nil},
	{"glm4", "", "now\n{\"a\": 1}", []string{"now\n"}},
	{"glm4", "", "\nnow \n {\"a\": 1}<|assistant|>send\n{\"a\": 1}",
		[]string{"now\n", "send\n"}},
	{"glm4", "", "now or later\n{", nil},
	{"glm4", "", "Now:\nnow\n{\"a\": 1}", nil},
}

func templateOf(t *testing.T, format string) *Template {
	t.Helper()
	for _, f := range allFormats {
		if f.format == format {
			return f.template(t)
		}
	}
	t.Fatalf("there is no format %q", format)
	return nil
}

// TestCallWatch: a call is found when its name is complete, whatever the pieces of its text are.
// What is no call is not found.
func TestCallWatch(t *testing.T) {
	o := CallOptions{Tools: callTools, IsToken: func(string) bool { return false }}
	for _, c := range watched {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 3))
			w := templateOf(t, c.format).WatchCalls(c.prompt, o)
			var begun []string
			for text := c.answer; text != ""; {
				n := 1 + r.IntN(min(len(text), 1+int(seed)/4))
				if found, ok := w.Add(text[:n]); ok {
					begun = append(begun, found)
				}
				text = text[n:]
			}
			// A longer piece has more of the call.
			same := slices.EqualFunc(begun, c.begun, func(got, want string) bool {
				return strings.HasPrefix(got, want) && len(got) <= len(want)+int(seed)
			})
			if !same {
				t.Fatalf("%s, %q: got %q, expected %q", c.format, c.answer, begun, c.begun)
			}
		}
	}
}

// TestWatchedForms: what the form of calls writes begins where the watch says, and the form takes
// the beginning and all that follows.
func TestWatchedForms(t *testing.T) {
	for _, format := range []string{"harmony", "llama3", "glm4"} {
		template := templateOf(t, format)
		o := CallOptions{Tools: callTools, One: true, IsToken: func(string) bool { return false }}
		b := grammar.NewBuilder()
		start, err := template.Calls(b, o)
		if err != nil {
			t.Fatal(err)
		}
		g, err := b.Compile(start)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(16) {
			r := rand.New(rand.NewPCG(seed, 4))
			text := write(t, g, r)
			w, m := template.WatchCalls(assistant, o), g.NewMatcher()
			found := false
			for rest := text; rest != ""; {
				n := 1 + r.IntN(min(len(rest), 2))
				switch begun, ok := w.Add(rest[:n]); {
				case ok && (found || m.AcceptBytes([]byte(begun)) < len(begun)):
					t.Fatalf("%s, %q: begins with %q", format, text, begun)
				case ok:
					found = true
				case found && m.AcceptBytes([]byte(rest[:n])) < n:
					t.Fatalf("%s, %q: stops before %q", format, text, rest)
				}
				rest = rest[n:]
			}
			if text != "" && (!found || !m.Complete()) {
				t.Errorf("%s, %q: found %t, complete %t", format, text, found, m.Complete())
			}
		}
	}
	for _, f := range allFormats {
		o := CallOptions{Tools: callTools}
		if w := f.template(t).WatchCalls("", o); (w != nil) != (f.format == "harmony" ||
			f.format == "llama3" || f.format == "glm4") {
			t.Errorf("%s: watch %v", f.format, w)
		}
	}
}

func TestRespelled(t *testing.T) {
	for _, c := range []struct {
		text, want string
		ok         bool
	}{
		{"", "", true}, {`,`, `,`, true}, {`, `, `, `, true}, {`,"`, `, "`, true},
		{"\n, \"p", `, "p`, true}, {`,"parameters":{"a`, `, "parameters": {"a`, true},
		{`, "parameters": {"a`, `, "parameters": {"a`, true}, {`}`, "", false},
		{`, "arguments`, "", false},
	} {
		if got, ok := respelled(c.text, llama3Middle); got != c.want || ok != c.ok {
			t.Errorf("%q: got %q, %t, expected %q, %t", c.text, got, ok, c.want, c.ok)
		}
	}
}

// wholeLlama3 is a call of Llama 3 in the order of its form.
var wholeLlama3 = regexp.MustCompile(`\{\s*"name"\s*:\s*"[^"\\]*"\s*,\s*"parameters"\s*:`)

// FuzzCallWatch: what the reader of a format reads as a call has been found before, if the form
// writes such calls.
func FuzzCallWatch(f *testing.F) {
	for _, c := range watched {
		f.Add(c.answer)
	}
	templates := map[string]*Template{}
	for _, format := range allFormats {
		templates[format.format] = format.template(f)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for format, beginning := range map[string]string{
			"harmony": "<|channel|>commentary to=functions.", "llama3": `{"name": "`} {
			template := templates[format]
			o := CallOptions{Tools: callTools, IsToken: func(string) bool { return false }}
			w, split := template.WatchCalls("", o), template.NewSplitter("", callTools)
			found, called := 0, 0
			for i := range len(text) {
				if begun, ok := w.Add(text[i : i+1]); ok {
					found++
					if !strings.HasPrefix(begun, beginning) {
						t.Fatalf("%s: %q begins with %q", format, text, begun)
					}
				}
				for _, p := range split.Add(text[i : i+1]) {
					if p.Kind == Call && (format == "harmony" || wholeLlama3.MatchString(p.Text)) {
						called++
					}
				}
			}
			if called > found {
				t.Fatalf("%s: %q has %d calls, %d were found", format, text, called, found)
			}
		}
	})
}
