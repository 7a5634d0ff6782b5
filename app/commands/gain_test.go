package commands

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/draft"
)

// TestDraftFigures: the figures of an answer say what drafts have gained, or why there were none.
func TestDraftFigures(t *testing.T) {
	timing := engine.Timing{Decode: time.Second, Saved: 420 * time.Millisecond}
	because := func(c draft.Cause) engine.NoDrafts { return engine.NoDrafts{Cause: c} }
	for _, c := range []struct {
		event engine.Event
		want  string
	}{
		{engine.Event{Usage: engine.Usage{DraftTokens: 40, AcceptedTokens: 31}, Timing: timing},
			"31 of 40 drafts accepted (looked up), decoded about 1.4 times as fast as without " +
				"drafts"},
		{engine.Event{Usage: engine.Usage{DraftTokens: 1, AcceptedTokens: 1},
			Timing: engine.Timing{Decode: 499 * time.Millisecond, Saved: time.Second}},
			"1 of 1 draft accepted (looked up), in too short a time to tell what they gained"},
		{engine.Event{Usage: engine.Usage{DraftTokens: 40, AcceptedTokens: 31, BlockTokens: 36,
			BlockAccepted: 28}, Timing: timing}, "31 of 40 drafts accepted (looked up: 3 of 4, " +
			"own block: 28 of 36), decoded about 1.4 times as fast as without drafts"},
		{engine.Event{NoDrafts: because(draft.DraftMemory)},
			"no drafts: Other requests used all memory of the draft model."},
		{engine.Event{NoDrafts: because(draft.Off)}, ""},
		{engine.Event{NoDrafts: because(draft.Short)}, ""},
		{engine.Event{}, ""},
	} {
		if got := (reply{event: c.event}).drafts(); got != c.want {
			t.Errorf("%+v: %q, expected %q", c.event, got, c.want)
		}
		var out bytes.Buffer
		(&AnswerFlags{Verbose: true}).printFigures(&out, reply{event: c.event}, engine.Stats{})
		if has := strings.Contains(out.String(), "\nDrafts: "+
			strings.Replace(c.want, "no drafts: ", "none. ", 1)+"\n"); has != (c.want != "") {
			t.Errorf("--verbose: %q, expected %q", &out, c.want)
		}
	}
}

// TestLogAfterTheAnswer: with --log-level info, no line of the log comes into the middle of an
// answer, and the figures follow, with those of the drafts.
func TestLogAfterTheAnswer(t *testing.T) {
	isolate(t)
	var both bytes.Buffer
	pieces := 0
	out := writerFunc(func(p []byte) (int, error) {
		if pieces++; pieces == 2 {
			slog.Info("in the middle")
		}
		return both.Write(p)
	})
	code := Main([]string{"--log-level=info", "run", "--device=cpu", question}, nil, out, &both)
	_, plain, _ := headroom("", "run", "--device=cpu", question)
	got := both.String()
	at := strings.Index(got, plain)
	if code != 0 || pieces < 3 || at < 0 {
		t.Fatalf("exit %d, %d pieces, %s\nexpected in it: %s", code, pieces, got, plain)
	}
	// The engine may be done, and have logged it, before the second piece is written.
	want := regexp.MustCompile(`^(time=\S+ level=INFO msg=("in the middle"|PERF: .*)\n){2}` +
		`\d+ tokens, .*\n(no drafts: .*\.|\d+ of \d+ drafts? accepted \([^)]+\), (decoded about|in too short a time) .*)\n`)
	if after := got[at+len(plain):]; !want.MatchString(after) ||
		strings.Count(after, "in the middle") != 1 {
		t.Errorf("after the answer: %s", after)
	}
}

// TestWrongDraftModel: a draft model that does not exist is refused with the models that do, and
// one of another vocabulary before anything is compared or measured.
func TestWrongDraftModel(t *testing.T) {
	home := isolate(t)
	other := filepath.Join(home, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := engine.WriteRandom(other, []byte(tinyShape)); err != nil {
		t.Fatal(err)
	}
	shape := func(name, vocab string) string {
		path := filepath.Join(home, name+".json")
		text := regexp.MustCompile(`"vocab_size": *\d+`).ReplaceAllString(tinyShape,
			`"vocab_size": `+vocab)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	large, small := shape("large", "20480"), shape("small", "10240")
	const refused = "headroom: The draft model cannot be used\n"
	for _, c := range []struct {
		args []string
		why  string
	}{
		{[]string{"run", "--draft-model=hedroom-demo", "hi"},
			`there is no model "hedroom-demo" here, the models are headroom-demo`},
		{[]string{"parity", "--draft-model=nosuch", "--device=cpu"},
			`there is no model "nosuch" here, the models are headroom-demo`},
		{[]string{"parity", "--draft-model", other, "--device=cpu"}, "its vocabulary"},
		{[]string{"bench", "speculate", large, "--draft-model", small, "--device=cpu"},
			"small does not fit large: its vocabulary lacks 10240 of the large model's 20480 " +
				"tokens, at most 128 may be missing"},
		{[]string{"bench", "speculate", large, small, "--draft-model", large, "--device=cpu"},
			"large does not fit small: its vocabulary is another one: it has 20480 tokens, the " +
				"large model has 10240"},
	} {
		code, out, errOut := headroom("", c.args...)
		if code != 1 || out != "" || !strings.HasPrefix(errOut, refused) ||
			!strings.Contains(errOut, c.why) {
			t.Errorf("%q: exit %d, %s%s", c.args, code, out, errOut)
		}
	}
}
