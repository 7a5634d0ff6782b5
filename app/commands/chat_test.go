package commands

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/term"
)

// promptTokens returns the lengths of the prompts of a conversation.
func promptTokens(errOut string) (list []string) {
	for _, m := range regexp.MustCompile(`prompt (\d+) tokens`).FindAllStringSubmatch(errOut, -1) {
		list = append(list, m[1])
	}
	return list
}

func TestChat(t *testing.T) {
	isolate(t)
	code, out, errOut := headroom(question+"\n\n/help\n"+question+"\n/reset\n"+question+
		"\n/exit\nnot read\n", "chat", "--max-tokens", "40")
	if code != 0 || strings.Count(out, "keys and values") < 2 {
		t.Errorf("exit %d, output %q", code, out)
	}
	// They grow with the conversation and shrink after /reset.
	prompts := promptTokens(errOut)
	if len(prompts) != 3 || prompts[0] != prompts[2] || len(prompts[1]) < len(prompts[0]) ||
		prompts[1] == prompts[0] {
		t.Errorf("prompts of %v tokens: want the second longer, the third like the first", prompts)
	}
	if !strings.Contains(errOut, "/retry        answer the last question again\n") ||
		!strings.Contains(errOut, "new conversation starts") {
		t.Errorf("stderr %q", errOut)
	}
}

// TestChatContinuesAfterAProblem: a message that does not fit gets an error, and the next one is
// answered.
func TestChatContinuesAfterAProblem(t *testing.T) {
	isolate(t)
	code, out, errOut := headroom(strings.Repeat("word ", 200)+"\n"+question+"\n", "chat",
		"--context", "100")
	if code != 0 || !strings.Contains(errOut, "maximum context length is 100 tokens") ||
		!strings.Contains(out, "keys and values") {
		t.Errorf("exit %d, output %q, %s", code, out, errOut)
	}
}

// TestChatCommands: /retry asks the same again, /system changes the prompt, and other lines with a
// slash are messages only if they are no commands.
func TestChatCommands(t *testing.T) {
	isolate(t)
	code, out, errOut := headroom(strings.Join([]string{"/retry", question, "/retry",
		"/system", "/system Be short.", "/system", "/retry", "/frob", "/reset now", " /frob",
		"/etc/hosts?"}, "\n"), "chat", "--temp=0", "--max-tokens=6")
	got := promptTokens(errOut)
	if code != 0 || len(got) != 5 {
		t.Fatalf("exit %d, prompts of %v tokens, expected 5; %q; %s", code, got, out, errOut)
	}
	if got[0] != got[1] || got[1] == got[2] {
		t.Errorf("prompts of %v tokens: the second is the first again, the third has a system "+
			"message", got)
	}
	answers := strings.SplitAfter(out, "\n")
	if answers[0] != answers[1] {
		t.Errorf("the same question has two answers: %q", answers)
	}
	for _, want := range []string{"There is no question yet", "There is no system message.\n",
		"The system message was set.\nBe short.\n", "There is no command /frob",
		"/reset takes no argument"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("stderr lacks %q: %s", want, errOut)
		}
	}
}

// TestSavedChat: a conversation goes on after /load as it would have after /save.
func TestSavedChat(t *testing.T) {
	home := isolate(t)
	file, other := filepath.Join(home, "a chat.json"), filepath.Join(home, "other")
	if err := os.WriteFile(other, []byte(`{"messages":[{"role":"tool","content":"x"}]}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"chat", "--temp=0", "--max-tokens=6", "--system", "Be short."}
	_, _, errOut := headroom(strings.Join([]string{question, "/save " + file, "/save",
		"And the fox?", "/save " + other}, "\n"), flags...)
	want := promptTokens(errOut)
	if len(want) != 2 || strings.Count(errOut, "The conversation is in "+file) != 2 ||
		!strings.Contains(errOut, other+" exists already") {
		t.Fatalf("prompts of %v tokens; %s", want, errOut)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	_, _, errOut = headroom(strings.Join([]string{"/load " + file, "And the fox?",
		"/load " + other, "/load " + home, "/load", "/system"}, "\n"), flags[:3]...)
	if got := promptTokens(errOut); len(got) != 1 || got[0] != want[1] {
		t.Errorf("after /load, the prompt has %v tokens, expected %s; %s", got, want[1], errOut)
	}
	for _, text := range []string{"The conversation has 1 question.",
		"is not a saved conversation", `messages[0] has the role "tool"`,
		"The conversation cannot be read", "/load needs a file", "Be short."} {
		if !strings.Contains(errOut, text) {
			t.Errorf("stderr lacks %q: %s", text, errOut)
		}
	}
}

// TestMessagesOfSeveralLines: a block is one message, and so is what is pasted.
func TestMessagesOfSeveralLines(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"lines", []string{"a", "b"}, []string{"a", "b"}},
		{"a block", []string{`"""`, "a", "", " b", `"""`, "c"}, []string{"a\n\n b\n", "c"}},
		{"text beside the marks", []string{`"""a`, `b"""`, "c"}, []string{"a\nb", "c"}},
		{"one line", []string{`"""a"""`, "c"}, []string{"a", "c"}},
		{"no end", []string{`"""a`, "b"}, []string{"a\nb"}},
	} {
		read := func() (string, error) {
			if len(c.lines) == 0 {
				return "", io.EOF
			}
			line := c.lines[0]
			c.lines = c.lines[1:]
			return line, nil
		}
		var got []string
		for {
			message, err := readMessage(read, func(string) {})
			if err != nil {
				break
			}
			got = append(got, message)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, expected %q", c.name, got, c.want)
		}
	}
}

// TestPaste: the line ends in a pasted text do not send it.
func TestPaste(t *testing.T) {
	typed := "\x1b[200~one\rtwo\r\x1b[201~three\rfour\r"
	editor := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{strings.NewReader(typed), io.Discard}, "> ")
	editor.SetBracketedPasteMode(true)
	for _, want := range []string{"one\ntwo\nthree", "four"} {
		if got, err := readMessage(editor.ReadLine, editor.SetPrompt); err != nil || got != want {
			t.Errorf("got %q, %v; expected %q", got, err, want)
		}
	}
	if _, err := readMessage(editor.ReadLine, editor.SetPrompt); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}
