package cachemiss

// Prompts as agents write them, in a template like Qwen3.6's. The tokenizer splits at words, so a
// reader can follow every expected position.

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// words is a tokenizer: marks and tags, runs of letters with the space before them, and single
// digits and signs.
type words struct {
	ids   map[string]int32
	texts []string
}

var wordPattern = regexp.MustCompile(`<\|?/?[a-z_]+\|?>| ?[A-Za-z]+|\n+|(?s:.)`)

func (w *words) encode(s string) (tokens []int32) {
	for _, text := range wordPattern.FindAllString(s, -1) {
		id, ok := w.ids[text]
		if !ok {
			id = int32(len(w.texts))
			w.ids[text], w.texts = id, append(w.texts, text)
		}
		tokens = append(tokens, id)
	}
	return tokens
}

func (w *words) decode(tokens []int32) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(w.texts[t])
	}
	return b.String()
}

func newWords() *words { return &words{ids: map[string]int32{}} }

const (
	shell  = `{"type": "function", "function": {"name": "shell", "description": "Runs a command.", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}`
	read   = `{"type": "function", "function": {"name": "read_file", "description": "Reads a file.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}`
	read2  = `{"type": "function", "function": {"name": "read_file", "description": "Reads a text file.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}`
	readK  = `{"function": {"name": "read_file", "description": "Reads a file.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}, "type": "function"}`
	search = `{"type": "function", "function": {"name": "web_search", "description": "Searches. Today is 2026-11-19.", "parameters": {}}}`
	xml    = "<function>\n<name>%s</name>\n<description>%s</description>\n</function>"
	coder  = "You are a careful coding agent. Work in small steps, run the tests after every " +
		"change, and say what you did and why. " +
		"Never touch files outside of the project. Ask before you delete anything. Prefer the " +
		"standard library over new dependencies, " +
		"small functions over clever ones, and plain words over jargon."
	translator = "Translate every text that the user sends into formal German, keep its line " +
		"breaks and its markup, and do not answer questions that it asks. " +
		"If a sentence has two meanings, choose the more likely one, and leave names and " +
		"quotations as they stand in the original."
	issue = "The build fails on arm64 since yesterday: the linker reports a duplicate symbol " +
		"in the attention kernel. Please find out why and mend it."
	found = "The symbol is defined in two files, both of which are compiled on arm64. I have " +
		"made the second one static, and the build passes again."
)

// head returns a system message. The tools, if any, come before the text, as in Qwen3.6.
func head(system string, tools ...string) string {
	if len(tools) > 0 {
		system = "# Tools\n\nYou have access to the following functions:\n\n<tools>\n" +
			strings.Join(tools, "\n") + "\n</tools>\n\n" +
			"To call a function, reply in this form, with nothing after it.\n\n" + system
	}
	return "<|im_start|>system\n" + system + "<|im_end|>\n"
}

func user(text string) string   { return "<|im_start|>user\n" + text + "<|im_end|>\n" }
func answer(text string) string { return "<|im_start|>assistant\n" + text + "<|im_end|>\n" }

const ask = "<|im_start|>assistant\n<think>\n"

// TestCauses compares a prompt with a text that was computed before. The text before their first
// difference gives the expected position.
func TestCauses(t *testing.T) {
	long := strings.Repeat(found+" ", 12)
	for _, test := range []struct {
		name    string
		was, is string
		after   string // the common beginning: Break is its length in tokens; "": Break is -1
		seen    string // the beginning of Report.Was
		cause   Cause
		advice  string // part of it
	}{
		{"first turn", "", head(coder) + user(issue) + ask, "", "", NewConversation,
			"only new text"},
		{"another agent", head(translator) + user(issue) + ask, head(coder) + user(issue) + ask, "",
			"", NewConversation, ""},
		{"another agent with the same closing words",
			head(translator+" "+found) + user(issue) + ask,
			head(coder+" "+found) + user(issue) + ask, "", "", NewConversation, ""},
		{"next turn", head(coder) + user(issue) + ask + "Hm.\n</think>\n\n" + found,
			head(coder) + user(issue) + ask + "Hm.\n</think>\n\n" + found + "<|im_end|>\n" +
				user("And on Windows?") + ask,
			head(coder) + user(issue) + ask + "Hm.\n</think>\n\n" + found, "", Continued,
			"only new text"},
		{"same prompt again", head(coder) + user(issue) + ask + long,
			head(coder) + user(issue) + ask, head(coder) + user(issue) + ask, "", Continued, ""},
		{"same agent, another task", head(coder) + user(issue) + answer(found),
			head(coder) + user("Write a changelog of the last week, newest first.") + ask,
			head(coder) + "<|im_start|>user\n", "The build fails on arm64", NewConversation, ""},

		{"day at the end of the head",
			head(coder+"\nToday's date: 2026-11-19") + user(issue) + answer(found),
			head(coder+"\nToday's date: 2026-11-20") + user(issue) + answer(found) +
				user("Go on.") + ask,
			head(coder + "\nToday's date: 2026-11-")[:len(
				head(coder+"\nToday's date: 2026-11-"))-len("<|im_end|>\n")], "2026-11-19",
			DateChanged, "date or time"},
		{"day at the beginning",
			head("The date is Thursday, November 19, 2026. "+coder) + user(issue) + answer(found),
			head("The date is Friday, November 20, 2026. "+coder) + user(issue) + ask,
			"<|im_start|>system\nThe date is", "Thursday, November 19, 2026.", DateChanged, ""},
		{"clock", head("Current time: 9:58:07 PM\n"+coder) + user(issue) + ask + found,
			head("Current time: 10:03:41 PM\n"+coder) + user(issue) + ask,
			"<|im_start|>system\nCurrent time: ", "9:58:07 PM", DateChanged, ""},
		{"Unix time", head(coder+" now=1795184381") + user(issue) + answer(long),
			head(coder+" now=1795184452") + user(issue) + answer(long) + user("Go on.") + ask,
			head(coder + " now=1795184381")[:len("<|im_start|>system\n"+coder+" now=1795184")],
			"now=1795184381", DateChanged, ""},
		{"RFC 1123", head(coder+" Date: Thu, 19 Nov 2026 14:19:41 GMT") + user(issue) + ask + long,
			head(coder+" Date: Fri, 20 Nov 2026 09:00:00 GMT") + user(issue) + ask,
			"<|im_start|>system\n" + coder + " Date:", "Thu, 19 Nov 2026", DateChanged, ""},
		{"date in a tool", head(coder, read, search) + user(issue) + answer(long),
			head(coder, read, strings.Replace(search, "19", "20", 1)) + user(issue) + answer(long) +
				ask,
			head(coder, read, search)[:strings.Index(head(coder, read, search), "19.")],
			"2026-11-19.", DateChanged, ""},
		{"counter", head(coder+"\nTurn 7 of 40") + user(issue) + answer(found),
			head(coder+"\nTurn 8 of 40") + user(issue) + answer(found) + user("Go on.") + ask,
			"<|im_start|>system\n" + coder + "\nTurn ", "7 of 40", CounterChanged, "number or ID"},
		{"counter that grows a digit", head("Turn 9. "+coder) + user(issue) + answer(found),
			head("Turn 10. "+coder) + user(issue) + ask, "<|im_start|>system\nTurn ", "9.",
			CounterChanged, ""},
		{"billing header", head("x-anthropic-billing-header: cc_version=2.1.4; cch=a7f31;\n"+
			coder) + user(issue) + answer(found),
			head("x-anthropic-billing-header: cc_version=2.1.4; cch=09bd2;\n"+coder) + user(issue) +
				ask, "<|im_start|>system\nx-anthropic-billing-header: cc_version=2.1.4; cch=",
			"cch=a7f31;", CounterChanged, ""},
		{"session UUID", head("Session 0b1ef8a2-6c11-4c9e-9a56-5d0c1f4a7e01\n"+coder) +
			user(issue) + ask, head("Session 7c9d1f30-1b22-4d8f-8a11-0e9b7c6d5a42\n"+coder) +
			user(issue) + ask,
			"<|im_start|>system\nSession ", "0b1ef8a2-6c11", CounterChanged, ""},
		{"changed rule", head(coder+" Answer in English.") + user(issue) + answer(found),
			head(coder+" Answer in French.") + user(issue) + ask,
			"<|im_start|>system\n" + coder + " Answer in", "English.", HeadChanged,
			"the same in every request"},

		{"tools in another order", head(coder, shell, read) + user(issue) + answer(found),
			head(coder, read, shell) + user(issue) + answer(found) + user("Go on.") + ask,
			head(coder, shell)[:strings.Index(head(coder, shell), "shell")], "shell",
			ToolsReordered, "read_file"},
		{"keys in another order", head(coder, shell, read) + user(issue) + ask,
			head(coder, shell, readK) + user(issue) + ask,
			head(coder, shell, read)[:strings.LastIndex(head(coder, shell, read),
				`type": "function"`)], "type", ToolsReordered, "same order"},
		{"tools as XML, in another order",
			head(coder, fmt.Sprintf(xml, "shell", "Runs."), fmt.Sprintf(xml, "look", "Looks.")) +
				user(issue) + ask,
			head(coder, fmt.Sprintf(xml, "look", "Looks."), fmt.Sprintf(xml, "shell", "Runs.")) +
				user(issue) + ask, head(coder,
				"<function>\n<name>")[:strings.Index(head(coder, "<function>\n<name>"),
				"<name>")+6], "shell", ToolsReordered, "(here look)"},
		{"changed tool description", head(coder, shell, read) + user(issue) + answer(found),
			head(coder, shell, read2) + user(issue) + ask,
			head(coder, shell, read)[:strings.Index(head(coder, shell, read), " file.")], "file.",
			ToolsChanged, "read_file"},
		{"tool of another version",
			head(coder, strings.Replace(read, "read_file", "v1_read", 1)) + user(issue) + ask,
			head(coder, strings.Replace(read, "read_file", "v2_read", 1)) + user(issue) + ask,
			head(coder, read)[:strings.Index(head(coder, read), "read_file")] + "v", "v1_read",
			ToolsChanged, "(here v2_read)"},
		{"added tool", head(coder, shell) + user(issue) + answer(found),
			head(coder, shell, read) + user(issue) + answer(found) + ask,
			head(coder, shell)[:strings.Index(head(coder, shell), "</tools>")], "</tools>",
			ToolsChanged, "read_file"},
		{"all tools removed", head(coder, shell) + user(issue) + answer(found),
			head(coder) + user(issue) + answer(found) + ask, "<|im_start|>system\n", "# Tools",
			ToolsChanged, ""},

		{"reasoning left out", head(coder) + user(issue) + ask +
			"I should look at the linker first.\n</think>\n\n" + found + "<|im_end|>\n",
			head(coder) + user(issue) + answer(found) + user("And on Windows?") + ask,
			head(coder) + user(issue) + "<|im_start|>assistant\n", "<think>\nI should look",
			ThinkingStripped, "reasoning_content"},
		{"reasoning emptied", head(coder) + user(issue) + ask +
			"I should look at the linker first.\n</think>\n\n" + found,
			head(coder) + user(issue) + answer("<think>\n\n</think>\n\n"+found) +
				user("And on Windows?") + ask,
			head(coder) + user(issue) + "<|im_start|>assistant\n<think>", "I should look",
			ThinkingStripped, ""},
		{"empty reasoning left out", head(coder) + user(issue) + ask + "\n</think>\n\n49.",
			head(coder) + user(issue) + answer("49.") + user("And 76 - 26?") + ask,
			head(coder) + user(issue) + "<|im_start|>assistant\n", "<think>", Retokenized,
			"no reasoning"},
		{"reasoning left out before a tool call",
			head(coder, shell) + user(issue) + ask +
				"Let me see.\n</think>\n\n<tool_call>\n<function=shell>",
			head(coder, shell) + user(issue) +
				answer("<tool_call>\n<function=shell>\n</function>\n</tool_call>") + ask,
			head(coder, shell) + user(issue) + "<|im_start|>assistant\n", "<think>",
			ThinkingStripped, ""},
		{"second reasoning left out",
			head(coder) + user(issue) + ask + "Let me see.\n</think>\n\n" + found + "<|im_end|>\n" +
				ask + "It may be more.\n</think>\n\nThere is more to it.",
			head(coder) + user(issue) + ask + "Let me see.\n</think>\n\n" + found + "<|im_end|>\n" +
				answer("There is more to it.") + user("Go on.") + ask,
			head(coder) + user(issue) + ask + "Let me see.\n</think>\n\n" + found +
				"<|im_end|>\n<|im_start|>assistant\n", "<think>\nIt may be", ThinkingStripped, ""},
		{"changed reasoning", head(coder) + user(issue) + ask + long + "</think>\n\n" + found,
			head(coder) + user(issue) + ask + "Well. " + long + "</think>\n\n" + found +
				"<|im_end|>\n" + user("Go on.") + ask,
			head(coder) + user(issue) + ask, "The symbol is defined", MessageEdited, ""},
		{"changed word in an earlier message",
			head(coder) + user(issue) + answer(found) + user("Go on.") + ask,
			head(coder) + user(strings.Replace(issue, "arm64", "riscv", 1)) + answer(found) +
				user("Go on.") + ask,
			head(coder) + user("The build fails on")[:len("<|im_start|>user\nThe build fails on")],
			"arm64", MessageEdited, "only add"},
		{"time in an earlier message",
			head(coder) + user("It is 14:19 now. "+issue) + answer(found) + user("Go on.") + ask,
			head(coder) + user("It is 14:25 now. "+issue) + answer(found) + user("Go on.") + ask,
			head(coder) + "<|im_start|>user\nIt is 14:", "14:19", DateChanged, "earlier message"},
		{"id in an earlier message",
			head(coder) + user("Ticket 4711. "+issue) + answer(found) + user("Go on.") + ask,
			head(coder) + user("Ticket 4712. "+issue) + answer(found) + user("Go on.") + ask,
			head(coder) + "<|im_start|>user\nTicket 471", "4711.", CounterChanged,
			"earlier message"},
		{"another second message",
			head(coder) + user(issue) + answer(found) + user("And on Windows? "+long) + ask,
			head(coder) + user(issue) + answer(found) + user("Thanks, now clean up.") + ask,
			head(coder) + user(issue) + answer(found) + "<|im_start|>user\n", "And on Windows?",
			MessageEdited, ""},
		{"stop string cut off the answer",
			head(coder) + user(issue) + answer(found) + ask + "</think>\n\nDone. END",
			head(coder) + user(issue) + answer(found) + ask + "</think>\n\nDone.<|im_end|>\n" +
				user("Thanks.") + ask,
			head(coder) + user(issue) + answer(found) + ask + "</think>\n\nDone.", "", Continued,
			""},
		{"plain text", translator + " " + coder,
			translator + " " + strings.Replace(coder, "careful", "careless", 1),
			translator + " You are a", "careful coding", MessageEdited, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, l := newWords(), NewLog(Limits{})
			at := time.Unix(1795184381, 0)
			l.Add(Sequence{Tokens: w.encode(test.was), At: at})
			prompt, wantBreak := w.encode(test.is), len(w.encode(test.after))
			common := wantBreak
			if test.after == "" {
				wantBreak, common = -1, commonPrefix(w.encode(test.was), prompt)
			}
			r := l.Find(prompt, "", "").Explain(Outcome{CachedTokens: common, Decode: w.decode})
			if r.Break != wantBreak || r.CommonTokens != common ||
				r.ReadTokens != len(prompt)-common || r.Cause != test.cause {
				t.Errorf("%+v, expected break %d, common %d, read %d, cause %s", r, wantBreak,
					common, len(prompt)-common, test.cause)
			}
			if !strings.Contains(r.Advice, test.advice) || r.Advice == "" {
				t.Errorf("advice %q, expected it to contain %q", r.Advice, test.advice)
			}
			checkShown(t, r, w.decode(prompt))
			if test.seen != "" && (!strings.HasPrefix(r.Was, strings.TrimSpace(test.seen)) ||
				r.KnownAt != at) {
				t.Errorf("was %q at %v, expected it to begin with %q", r.Was, r.KnownAt, test.seen)
			}
		})
	}
}

// checkShown compares the texts of a report with the prompt.
func checkShown(t *testing.T, r Report, prompt string) {
	t.Helper()
	for _, s := range []string{r.Before, r.Was, r.Is} {
		if !utf8.ValidString(s) || len(s) > shownBytes {
			t.Errorf("shown %q: %d bytes, expected at most %d of valid UTF-8", s, len(s),
				shownBytes)
		}
	}
	if !strings.Contains(prompt, r.Before+r.Is) {
		t.Errorf("%q is not in the prompt", r.Before+r.Is)
	}
	if r.Was == r.Is && r.Was != "" && r.Cause != Retokenized && len(r.Was) < shownBytes/2 {
		t.Errorf("%s: both sides show %q", r.Cause, r.Was)
	}
}

// TestMemory explains misses of a known prefix that is no longer cached. The prompt has 120 tokens,
// and the known sequence shares the first 100.
func TestMemory(t *testing.T) {
	tokens := func(n int, from int32) (list []int32) {
		for i := range n {
			list = append(list, from+int32(i))
		}
		return list
	}
	prompt := append(tokens(100, 0), tokens(20, 1000)...)
	for _, test := range []struct {
		name      string
		known     []int32
		model     string
		format    string
		cached    int
		recurrent bool
		cause     Cause
		at        int
		again     int
	}{
		{"all cached", tokens(100, 0), "m", "f", 100, false, Continued, 100, 0},
		// 31 tokens are missing, less than a page
		{"a page missing", tokens(100, 0), "m", "f", 69, false, Continued, 100, 0},
		{"more missing", tokens(100, 0), "m", "f", 68, false, Evicted, 100, 32},
		{"nothing cached", tokens(100, 0), "m", "f", 0, false, Evicted, 100, 100},
		{"state further back", tokens(100, 0), "m", "f", 60, true, StateNotCached, 100, 40},
		{"no state at all", tokens(100, 0), "m", "f", 0, true, Evicted, 100, 100},
		{"other format", tokens(100, 0), "m", "g", 0, false, FormatChanged, 0, 100},
		{"other model", tokens(100, 0), "n", "f", 0, false, ModelChanged, 0, 100},
		{"other model with little in common", tokens(31, 0), "n", "f", 0, false, NewConversation,
			-1, 0},
		{"cache holds more than the log", nil, "m", "f", 90, false, Continued, 90, 0},
		{"nothing known", nil, "m", "f", 0, false, NewConversation, -1, 0},
		{"edited, cached up to there", append(tokens(100, 0), tokens(80, 5000)...), "m", "f", 100,
			false, MessageEdited, 100, 0},
		{"edited, not cached", append(tokens(100, 0), tokens(80, 5000)...), "m", "f", 10, false,
			Evicted, 100, 90},
	} {
		l := NewLog(Limits{})
		l.Add(Sequence{Tokens: test.known, Model: test.model, Format: test.format})
		r := l.Find(prompt, "m", "f").Explain(
			Outcome{CachedTokens: test.cached, Recurrent: test.recurrent})
		if r.Cause != test.cause || r.Break != test.at || r.ReadTokens != 120-test.cached ||
			r.RecomputedTokens != test.again {
			t.Errorf("%s: %+v, expected %s at %d, %d again", test.name, r, test.cause, test.at,
				test.again)
		}
	}
}

// TestRetokenized checks a text that gets other tokens: the model generated " f", "o", "o", and the
// client sends " foo".
func TestRetokenized(t *testing.T) {
	w := newWords()
	history := head(coder) + user(issue) + ask + "</think>\n\nIt was"
	known := append(w.encode(history), w.encode(" f")...)
	known = append(append(known, w.encode("o")[0], w.encode("o")[0]), w.encode(" "+found)...)
	l := NewLog(Limits{})
	l.Add(Sequence{Tokens: known})
	prompt := w.encode(history + " foo " + found + "<|im_end|>\n" + user("Go on.") + ask)
	common := len(w.encode(history))
	r := l.Find(prompt, "", "").Explain(Outcome{CachedTokens: common, Decode: w.decode})
	if r.Cause != Retokenized || r.Break != common {
		t.Errorf("%+v, expected %s at %d", r, Retokenized, common)
	}
}

// TestLog tests the bounds of a Log, and sequences that continue each other.
func TestLog(t *testing.T) {
	l := NewLog(Limits{Sequences: 3, Tokens: 10})
	var given []string
	l.Added = func(s Sequence) { given = append(given, string(s.Tokens)) }
	for _, step := range []struct {
		add               string
		sequences, tokens int
		known             string // the sequences, which must be complete
	}{
		{"ab", 1, 2, "ab"},
		{"abcd", 1, 4, "abcd"},           // replaces its prefix
		{"abc", 1, 4, "abcd"},            // a prefix of a known sequence
		{"", 1, 4, "abcd"},               // nothing
		{"xy", 2, 6, "abcd xy"},          // unrelated
		{"abce", 3, 10, "abcd xy abce"},  // a fork
		{"q", 3, 7, "xy abce q"},         // too many sequences: abcd is dropped
		{"abcefgh", 3, 10, "xy abcefgh"}, // abce grew
		{"xyz", 2, 10, "abcefgh xyz"},    // too many tokens: q is dropped
		{"0123456789abc", 1, 10, "0123456789"},
	} {
		l.Add(Sequence{Tokens: runes(step.add)})
		if n, tokens := l.Len(); n != step.sequences || tokens != step.tokens {
			t.Errorf("after %q: %d sequences of %d tokens, expected %d of %d", step.add, n, tokens,
				step.sequences, step.tokens)
		}
		for _, k := range strings.Fields(step.known) {
			if m := l.Find(runes(k), "", ""); m.CommonTokens != len(k) {
				t.Errorf("after %q: %d tokens of %q are known", step.add, m.CommonTokens, k)
			}
		}
		again := NewLog(Limits{Sequences: 3, Tokens: 10})
		for _, s := range l.Sequences() {
			again.Add(s)
		}
		if !slices.EqualFunc(again.sequences, l.sequences,
			func(a, b *Sequence) bool { return slices.Equal(a.Tokens, b.Tokens) }) {
			t.Errorf("after %q: a log made from the sequences differs", step.add)
		}
	}
	if want := "ab abcd abc xy abce q abcefgh xyz 0123456789"; strings.Join(given, " ") != want {
		t.Errorf("Added got %q, want %q", given, want)
	}
}

// TestNearest compares a prompt with two sequences that share a prefix of the same length with it.
// The older sequence continues like the prompt after one changed token. The loss after that token
// outweighs the 40 tokens that were not cached.
func TestNearest(t *testing.T) {
	count := func(n, from int) (list []int32) {
		for i := range n {
			list = append(list, int32(from+i))
		}
		return list
	}
	join := func(parts ...[]int32) (all []int32) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	l, older := NewLog(Limits{}), time.Unix(1, 0)
	l.Add(Sequence{Tokens: join(count(100, 0), []int32{7777}, count(80, 1000)), At: older})
	l.Add(Sequence{Tokens: join(count(100, 0), []int32{8888}, count(80, 3000)),
		At: time.Unix(2, 0)})
	prompt := join(count(100, 0), []int32{9999}, count(80, 1000))
	r := l.Find(prompt, "", "").Explain(Outcome{CachedTokens: 60})
	if r.KnownAt != older || r.Cause != MessageEdited || r.Break != 100 || r.ReadTokens != 121 {
		t.Errorf("%+v, expected %s at 100, compared with the older sequence", r, MessageEdited)
	}
}

// TestDiffersIn checks differences inside and outside of dates and ids. In messages, | marks the
// first difference.
func TestDiffersIn(t *testing.T) {
	for _, test := range []struct {
		both, was, is string
		date, id      bool
	}{
		{"on 2026-11-", "19 it rained", "20 it rained", true, true},
		{"on 2026-11-19", ", rain", "; sun", false, false}, // after the date
		{"at ", "9:58", "10:03", true, true},
		{"at 1", "0:30 PM", "1:30 PM", true, true},
		{"20 ", "Nov 2026", "Dec 2026", true, false},
		{"", "Monday", "Tuesday", true, false},
		{"step ", "9 of 10", "10 of 10", false, true},
		{"step 1", " of 10", "0 of 10", false, true},
		{"id=", "a7f3", "09bd", false, true},
		{"", "a word", "another", false, false},
		{"a ", "dozen", "12", false, false}, // a number on one side only
		{"seen 3 ", "minutes ago", "hours ago", true, false},
		{"", "", "", false, false},
	} {
		was, is := test.both+test.was, test.both+test.is
		if date, id := differsIn(dates, was, is, len(test.both)),
			differsIn(ids, was, is, len(test.both)); date != test.date || id != test.id {
			t.Errorf("%s|%s or %s: date %t, id %t, expected %t, %t", test.both, test.was, test.is,
				date, id, test.date, test.id)
		}
	}
}

// TestCompareTools compares sections of tools, including some that no template writes.
func TestCompareTools(t *testing.T) {
	a, b := `{"name": "a"}`, `{"type": "function", "function": {"name": "b", "x": 1}}`
	for _, test := range []struct {
		was, is string
		cause   Cause
		name    string
	}{
		{a + "\n" + b, a + "\n" + b, "", ""},
		{a + "\n" + b, b + "\n" + a, ToolsReordered, "b"},
		{"[" + a + "," + b + "]", "[" + b + "," + a + "]", ToolsReordered, "b"},
		{b, `{"function": {"x": 1, "name": "b"}, "type": "function"}`, ToolsReordered, ""},
		{b, `{"type": "function", "function": {"name": "b", "x": 2}}`, ToolsChanged, "b"},
		{a + "\n" + b, b, ToolsChanged, "a"},
		{a, a + "\n" + b, ToolsChanged, "b"},
		{a + "\n" + a, a, ToolsChanged, ""},
		{a, a + "\n" + a, ToolsChanged, ""},
		{"not JSON", "nor this", ToolsChanged, "nor this"},
		{"", a, ToolsChanged, "a"},
	} {
		cause, name := compareTools(section{text: test.was}, section{text: test.is})
		if cause != test.cause || name != test.name {
			t.Errorf("%q and %q: %q %q, expected %q %q", test.was, test.is, cause, name, test.cause,
				test.name)
		}
	}
}

// TestReasoningDropped compares answers with and without reasoning.
func TestReasoningDropped(t *testing.T) {
	for _, test := range []struct {
		was, is string
		want    bool
	}{
		{"<think>\nSo.\n</think>\n\n49", "49", true},
		{"<think>\nSo.\n</think>\n\n49", "<tool_call>", true}, // both begin with <t
		{"<think>\nSo.\n</think>\n\n49", "<think>\n\n</think>\n\n49", true},
		{"<think>\nSo it is still being", "<think>\n\n</think>\n\n49", true},
		{"<think>\n</think>\n\n49", "<think>\n\n</think>\n\n49", false}, // both are empty
		{"<think>\n\n</think>\n\n49", "<think>\nSo.\n</think>\n\n49", false},
		{"<think>\nSo.\n</think>\n\n49", "<think>\nNo.\n</think>\n\n49", false},
		{"<think>\nSo.\n</think>\n\n49", "<think>\nSo.\n</think>\n\n50", false},
		{"49", "<think>\nSo.\n</think>\n\n49", false},
	} {
		at := firstDifference(test.was, test.is)
		if got := reasoningDropped(test.was, test.is, at); got != test.want {
			t.Errorf("%q and then %q: %t", test.was, test.is, got)
		}
	}
}

// TestTextTo checks that textTo finds the first of several marks, even after more text than it
// decodes at first.
func TestTextTo(t *testing.T) {
	w := newWords()
	long := strings.Repeat("word ", 5000)
	for text, want := range map[string]string{long + "[INST]x<|im_start|>user": long,
		long + "<|im_start|>user[INST]": long, long: long} {
		if got, found := textTo(w.encode(text), w.decode, userMarks); got != want ||
			found != (text != want) {
			t.Errorf("%d bytes, %t, expected %d", len(got), found, len(want))
		}
	}
}

func runes(s string) (tokens []int32) {
	for _, r := range s {
		tokens = append(tokens, r)
	}
	return tokens
}

// FuzzExplain checks that positions and texts are valid for any tokens and any bytes.
func FuzzExplain(f *testing.F) {
	f.Add([]byte("<|im_start|>system\nIt is 10:01.<|im_end|>\n<|im_start|>user\nhi"),
		[]byte("<|im_start|>system\nIt is 10:02.<|im_end|>\n<|im_start|>user\nhi"), 3, false)
	f.Add([]byte("<tools>\n{\"name\":1}\n</tools><|im_start|>user"),
		[]byte("<tools>\n[{}]\n</tools><|im_start|>user\xff\xfe"), 0, true)
	f.Add([]byte("é<think>a</think>"), []byte("è<think>"), 1<<40, true)
	f.Add([]byte{0xe2, 0x82, 0xac, 0xf0}, []byte{0xe2, 0x82, 0xad}, -1, false)
	decode := func(tokens []int32) string {
		b := make([]byte, 0, len(tokens))
		for _, t := range tokens {
			b = append(b, byte(t))
		}
		return string(b)
	}
	f.Fuzz(func(t *testing.T, was, is []byte, cached int, pairs bool) {
		read := func(data []byte) (tokens []int32) {
			for len(data) > 0 {
				if pairs && len(data) >= 4 { // tokens that do not decode to one byte
					tokens = append(tokens, int32(binary.LittleEndian.Uint32(data)))
					data = data[3:]
				} else {
					tokens = append(tokens, int32(data[0]))
				}
				data = data[1:]
			}
			return tokens
		}
		known, prompt := read(was), read(is)
		l := NewLog(Limits{})
		l.Add(Sequence{Tokens: known})
		cached = max(0, min(cached, len(prompt)))
		r := l.Find(prompt, "", "").Explain(
			Outcome{CachedTokens: cached, Recurrent: pairs, Decode: decode})
		common := max(commonPrefix(known, prompt), cached)
		if r.CommonTokens != common || r.Break != common && r.Break != -1 ||
			r.ReadTokens != len(prompt)-cached || r.Cause == "" || r.Advice == "" {
			t.Errorf("%+v for %d common tokens of %d, %d cached", r, common, len(prompt), cached)
		}
		for _, s := range []string{r.Before, r.Was, r.Is} {
			if !utf8.ValidString(s) || len(s) > shownBytes {
				t.Errorf("shown %q", s)
			}
		}
	})
}
