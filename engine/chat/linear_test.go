package chat

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A model may write anything for as long as it wants. These tests check that parsers examine each
// byte of a hostile text a bounded number of times, although the text arrives byte by byte.

// examiner is a reader that counts its work. All readers embed a cursor, which does.
type examiner interface{ examined() int }

func (c *cursor) examined() int         { return c.work }
func (r *argumentReader) examined() int { return r.work + examinedBy(r.object) }
func (r *llama3Reader) examined() int   { return r.work + r.first.work }
func (r *atemReader) examined() int     { return r.work + r.invoke.work }

func examinedBy(r *jsonReader) int {
	if r == nil {
		return 0
	}
	return r.work
}

// counting returns a template like another one, and a function that returns how many bytes its
// Splitter has examined.
func counting(t *testing.T, of *Template) (*Template, func(*Splitter) int) {
	t.Helper()
	counted := *of
	var readers []examiner
	count := func(r callReader) callReader {
		e, ok := r.(examiner)
		if !ok {
			t.Fatalf("%T does not count its work", r)
		}
		readers = append(readers, e)
		return r
	}
	if of.tools != nil {
		format := *of.tools
		format.begin = func(schemas map[string]schema) callReader {
			return count(of.tools.begin(schemas))
		}
		format.beginInner = func(schemas map[string]schema) callReader {
			return count(of.tools.beginInner(schemas))
		}
		counted.tools = &format
	}
	if of.channels != nil {
		format := *of.channels
		format.begin = func(function string, schemas map[string]schema) callReader {
			return count(of.channels.begin(function, schemas))
		}
		counted.channels = &format
	}
	return &counted, func(s *Splitter) (n int) {
		for _, r := range readers {
			n += r.examined()
		}
		switch s := s.splitter.(type) {
		case *tagSplitter:
			n += s.work
		case *channelSplitter:
			n += s.head.work
		}
		return n
	}
}

// hostilePrefixes returns the beginnings of the texts that a format's tests have. They end after
// each kind of character that a parser looks for.
func hostilePrefixes(f *formatTests) []string {
	prefixes := []string{""}
	for _, tt := range f.tests {
		for i := range min(len(tt.text), 150) {
			if strings.IndexByte(`>[]{(=:"`+" \n", tt.text[i]) >= 0 {
				prefixes = append(prefixes, tt.text[:i+1])
			}
		}
	}
	slices.Sort(prefixes)
	return slices.Compact(prefixes)
}

// hostileFills returns texts that a parser may look through again and again.
func hostileFills(template *Template) []string {
	fills := []string{" ", "a", `"`, "[", "{", "<"}
	if template.channels != nil {
		return append(fills, template.channels.tags()...)
	}
	return append(fills, slices.Concat(template.tools.outside(), template.tools.in)...)
}

// examined feeds a text in pieces to a Splitter and returns how many bytes have been examined.
func examined(t *testing.T, template *Template, text string, piece int) int {
	t.Helper()
	counted, total := counting(t, template)
	s := splitterOf(counted, false)
	for at := 0; at < len(text); at += piece {
		s.Add(text[at:min(at+piece, len(text))])
	}
	s.Close(false)
	return total(s)
}

// maxExamined is how often a byte may be examined. Most of it is the comparison of the beginning of
// a tag with each byte of it that arrives.
const maxExamined = 32

// TestLinearWork follows the beginnings of all tests of all formats with hostile text.
func TestLinearWork(t *testing.T) {
	const size = 600
	for _, f := range allFormats {
		t.Run(f.format, func(t *testing.T) {
			template := f.template(t)
			worst, runs := 0.0, 0
			for _, prefix := range hostilePrefixes(&f) {
				for _, fill := range append(hostileFills(template), prefix) {
					if fill == "" {
						continue
					}
					text := prefix + strings.Repeat(fill, size/len(fill)+1)
					runs++
					per := float64(examined(t, template, text, 1)) / float64(len(text))
					worst = max(worst, per)
					if per > maxExamined {
						t.Errorf("%q, then %q: %.0f bytes are examined for each byte", prefix, fill,
							per)
					}
				}
			}
			t.Logf("%d texts: at most %.1f bytes are examined for each byte", runs, worst)
		})
	}
}

// longTexts are the beginnings of calls that hostile text of 200,000 bytes follows, by format.
// Formats of the same kind have those of one of them.
var longTexts = map[string][]string{
	"qwen3_coder": {"", "<tool_call>", "<tool_call><function=", "<tool_call><function=f>",
		"<tool_call><function=f><parameter=", "<tool_call><function=f><parameter=s>",
		"<tool_call><function=f><parameter=s></parameter>",
		"<tool_call><function=f><parameter=s></function>", "<tool_call><function=f>x",
		"<tool_call><function=f><parameter=s>\n<parameter=", "<function=", "<function=f>",
		"<tool_call><function=f><parameter=s>\n<parameter=n>", "<function=f><parameter=",
		"<function=f><parameter=s>", "<tool_call><function=f></function><function=",
		"<function=f><parameter=s></parameter></tool_call>"},
	"json_tools": {"<tool_call>", `<tool_call>{`, `<tool_call>{"`, `<tool_call>{}`,
		`<tool_call>{"name":"now"} x`},
	"glm": {"<tool_call>", "<tool_call>f", "<tool_call>f\n", "<tool_call>f<arg_key>",
		"<tool_call>f<arg_key>s</arg_key>", "<tool_call>f<arg_key>s</arg_key><arg_value>",
		"<tool_call>f<arg_key>s</arg_key><arg_value></arg_value>"},
	"longcat": {"<longcat_tool_call>", "<longcat_tool_call>{"},
	"hunyuan": {"<tool_call:opensource>f", "<tool_call:opensource>f<tool_sep:opensource>"},
	"pythonic": {"<|tool_call_start|>", "<|tool_call_start|>[", "<|tool_call_start|>[f",
		"<|tool_call_start|>[f(", "<|tool_call_start|>[f()", "<|tool_call_start|>[f()]",
		"<|tool_call_start|>[f(1)"},
	"olmo3": {"<function_calls>", "<function_calls>f", "<function_calls>f(", "<function_calls>f()",
		"<function_calls>f()\n", "<function_calls>f(1)", "<function_calls>f()x"},
	"hunyuan_dense": {"<tool_call>", "<tool_call>f\n```json", "<tool_call>f\n```json{}",
		"<tool_call>f\n```json{}```"},
	"apertus": {"<|tools_prefix|>", "<|tools_prefix|>[", `<|tools_prefix|>[{"f":{}}`,
		`<|tools_prefix|>[{"f":{}}]`, "<|tools_prefix|>[{}"},
	"mistral": {"[TOOL_CALLS]", "[TOOL_CALLS]f", "[TOOL_CALLS]f ", "[TOOL_CALLS]f[CALL_ID]",
		"[TOOL_CALLS]f[ARGS]", "[TOOL_CALLS]f[ARGS]{", "[TOOL_CALLS][", "[TOOL_CALLS][{",
		"[TOOL_CALLS]f[ARGS]{}", "[TOOL_CALLS]f[ARGS]{n}"},
	"minimax": {"<minimax:tool_call>", "<minimax:tool_call><invoke", "<minimax:tool_call><invoke " +
		`name="f">`, `<minimax:tool_call><invoke name="f"><parameter`,
		`<minimax:tool_call><invoke name="f"><parameter name="s">`,
		`<minimax:tool_call><invoke name="f"><parameter name="s"></parameter>`,
		`<minimax:tool_call><invoke name="f">x`},
	"minicpm5":   {"<function name=", `<function name="f"><param name="s"><![CDATA[`},
	"minimax_m3": {m3("^<tool_call>"), m3("^<tool_call>^<invoke"), m3(`^<tool_call>^<invoke name="f">`), m3(`^<tool_call>^<invoke name="f">^`), m3(`^<tool_call>^<invoke name="f">^<s>`)},
	"kimi": {"<|tool_call_begin|>", "<|tool_call_begin|>f<|tool_call_argument_begin|>",
		"<|tool_call_begin|>f<|tool_call_argument_begin|>{}"},
	"deepseek": {"<｜tool▁call▁begin｜>", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>",
		"<｜tool▁call▁begin｜>f<｜tool▁sep｜>f\n", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>f\n```json{}",
		"<｜tool▁call▁begin｜>f<｜tool▁sep｜>f\n```json{}\n```"},
	"gemma4": {"<|tool_call>", "<|tool_call>call:", `<|tool_call>call:f{s:<|"|>`},
	"llama3": {"", "{", `{"`, `{"name"`, `{"name":"`, `{"name":"f"`, `{"name":"f"}`,
		"<|python_tag|>", "<|python_tag|>{", `<|python_tag|>{"name":"f","a":`},
	"harmony": {"", "<|channel|>", "<|channel|>final<|message|>", "<|channel|>commentary " +
		"to=functions.f<|message|>", "<|channel|>commentary to=functions.f<|message|>{"},
	"functionary31": {"<function=", "<function=f>", "<function=f>{}"},
	"functionary32": {"", "f", "f\n", "f\n{", "all\n", "all\n>>>"},
	"firefunction":  {"functools[", "functools[{"},
	"command_r_plus": {"Action:", "Action:\n```json", "Action:\n```json[",
		`Action: ` + "```json[{}]"},
	"atem": {"", " to=f<|message|>", " to=f<|message|><atem:function_calls>"},
}

// TestLongHostileTexts checks 200,000 bytes of hostile text after the beginning of a call. The text
// is not copied with each piece either.
func TestLongHostileTexts(t *testing.T) {
	const size = 200_000
	tested := 0
	for _, f := range allFormats {
		prefixes := longTexts[f.format]
		tested += len(prefixes)
		template := f.template(t)
		for i, prefix := range prefixes {
			for _, fill := range []string{" ", "a", `"`, "["} {
				text, piece := prefix+strings.Repeat(fill, size), 1+i%4
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				start := time.Now()
				n := examined(t, template, text, piece)
				took := time.Since(start)
				runtime.ReadMemStats(&after)
				if n > maxExamined*len(text) {
					t.Errorf("%s: %q, then %q: %d bytes are examined for each byte", f.format,
						prefix,
						fill, n/len(text))
				}
				if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 256*size {
					t.Errorf("%s: %q, then %q: %d bytes are allocated for each byte", f.format,
						prefix,
						fill, allocated/size)
				}
				if took > 10*time.Second { // 20 ms, if the work is linear
					t.Errorf("%s: %q, then %q: it takes %v", f.format, prefix, fill, took)
				}
			}
		}
	}
	if tested < 80 {
		t.Errorf("only %d beginnings of calls were tested", tested)
	}
}

// TestWholeHostileTexts checks texts that arrive in one piece, and of which each part begins a
// call.
func TestWholeHostileTexts(t *testing.T) {
	const size = 20_000
	for _, f := range allFormats {
		template := f.template(t)
		prefixes := longTexts[f.format]
		for _, tt := range f.tests {
			prefixes = append(prefixes, tt.text)
		}
		for _, prefix := range prefixes {
			if prefix == "" {
				continue
			}
			for _, end := range []string{"", "}", "]"} {
				times := size/(len(prefix)+len(end)) + 1
				text := strings.Repeat(prefix, times) + strings.Repeat(end, times)
				if n := examined(t, template, text, len(text)); n > maxExamined*len(text) {
					t.Errorf("%s: %q again and again, then %q: %d bytes are examined for each byte",
						f.format, prefix, end, n/len(text))
				}
			}
		}
	}
}
