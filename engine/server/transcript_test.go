package server_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

var rewrite = flag.Bool("rewrite", false,
	"write the server's answers to testdata/*.txt; read the difference before committing it")

// TestTranscripts compares HTTP responses with testdata/NAME.txt, byte for byte.
func TestTranscripts(t *testing.T) {
	const (
		hi       = `"messages":[{"role":"user","content":"hi"}]`
		noThink  = `,"chat_template_kwargs":{"enable_thinking":false}`
		streamed = `,"stream":true,"stream_options":{"include_usage":true}`
		chatPath = "/v1/chat/completions"
		textPath = "/v1/completions"
		tools    = `,"tools":[{"type":"function","function":{"name":"set_timer","parameters":{"type":"object","properties":{"minutes":{"type":"integer"}}}}}]`
		call     = "<tool_call>\n<function=set_timer>\n<parameter=minutes>\n5\n</parameter>\n" +
			"</function>\n</tool_call>"
	)
	cases := []struct {
		name   string
		path   string
		body   string
		script func(s *fakeStream)
	}{
		{"chat_stream", chatPath, `{` + hi + noThink + streamed + `}`, func(s *fakeStream) {
			s.prefill(4, 4)
			s.prefill(10, 4)
			s.say("The cache\nkeeps")
			s.done(engine.FinishStop, nil)
		}},
		{"chat_stream_without_usage", chatPath, `{` + hi + noThink + `,"stream":true}`,
			func(s *fakeStream) {
				s.say("a")
				s.done(engine.FinishLength, nil)
			}},
		{"chat_stream_reasoning", chatPath, `{` + hi + streamed + `}`, func(s *fakeStream) {
			s.say("It asks.\n</think>\n\nYes <b>")
			s.done(engine.FinishStop, nil)
		}},
		{"chat_stream_unclosed_reasoning", chatPath, `{` + hi + streamed + `}`,
			func(s *fakeStream) {
				s.say("It asks </thi")
				s.done(engine.FinishLength, nil)
			}},
		{"chat_stream_logprobs", chatPath,
			`{` + hi + `,"stream":true,"logprobs":true,"top_logprobs":1}`, func(s *fakeStream) {
				s.say("Hm.\n</think>Yes")
				s.token(2086, "") // <|im_end|>: no text, and not counted
				s.done(engine.FinishStop, nil)
			}},
		{"chat_stream_held_text", chatPath,
			`{` + hi + noThink + `,"stream":true,"stop":["END"],"logprobs":true}`,
			func(s *fakeStream) {
				s.token(10, "")
				s.token(11, "a E")
				s.token(12, "")
				s.put(engine.Event{Type: engine.Done, Text: "N!", Finish: engine.FinishLength,
					Usage: s.usage})
			}},
		{"chat_stream_error_first", chatPath, `{` + hi + streamed + `}`, func(s *fakeStream) {
			s.done(engine.FinishError, errors.New("the file is gone"))
		}},
		{"chat_stream_error_late", chatPath, `{` + hi + noThink + streamed + `}`,
			func(s *fakeStream) {
				s.say("a")
				s.done(engine.FinishError,
					problem.New(problem.Internal, "The engine failed on this request",
						"a \"reason\"", ""))
			}},
		{"chat_stream_cancelled", chatPath, `{` + hi + noThink + streamed + `}`,
			func(s *fakeStream) {
				s.say("a")
				s.done(engine.FinishCancelled, nil)
			}},
		{"chat_whole", chatPath, `{"model":"demo",` + hi + `}`, func(s *fakeStream) {
			s.prefill(10, 4)
			s.say("Hm.\n</think>\n\nYes, \"é\"")
			s.done(engine.FinishStop, nil)
		}},
		{"chat_whole_logprobs", chatPath, `{` + hi + noThink + `,"logprobs":true}`,
			func(s *fakeStream) {
				s.say("Yes")
				s.done(engine.FinishStop, nil)
			}},
		{"chat_whole_error", chatPath, `{` + hi + `}`, func(s *fakeStream) {
			s.say("half an answer")
			s.done(engine.FinishError, errors.New("the file is gone"))
		}},
		{"chat_whole_cancelled", chatPath, `{` + hi + `}`,
			func(s *fakeStream) { s.done(engine.FinishCancelled, nil) }},
		{"chat_stream_tools", chatPath, `{` + hi + tools + streamed + `,"logprobs":true}`,
			func(s *fakeStream) {
				s.say("Two.\n</think>\n\nYes:\n\n" + call + "\n" + call)
				s.token(2086, "")
				s.done(engine.FinishStop, nil)
			}},
		{"chat_stream_tools_cut_off", chatPath, `{` + hi + tools + noThink + `,"stream":true}`,
			func(s *fakeStream) {
				s.say(call + "\n<tool_call>\n<function=set_timer>\n<para")
				s.done(engine.FinishLength, nil)
			}},
		{"chat_stream_tools_held_text", chatPath, `{` + hi + tools + noThink + `,"stream":true}`,
			func(s *fakeStream) {
				s.token(10, "")
				s.put(engine.Event{Type: engine.Done, Text: call, Finish: engine.FinishStop,
					Usage: s.usage})
			}},
		{"chat_whole_tools", chatPath, `{` + hi + tools + noThink + `,"tool_choice":"auto"}`,
			func(s *fakeStream) {
				s.say(call)
				s.done(engine.FinishStop, nil)
			}},
		{"chat_whole_tools_malformed", chatPath, `{` + hi + tools + noThink + `,"logprobs":true}`,
			func(s *fakeStream) {
				s.say("<tool_call>\n5")
				s.done(engine.FinishStop, nil)
			}},
		{"chat_whole_tools_not_offered", chatPath,
			`{` + hi + tools + noThink + `,"tool_choice":"none"}`, func(s *fakeStream) {
				s.say(call)
				s.done(engine.FinishStop, nil)
			}},
		{"completion_stream_logprobs", textPath, `{"prompt":"x","logprobs":1` + streamed + `}`,
			func(s *fakeStream) {
				s.prefill(1, 0)
				s.say("<think> é is")
				s.done(engine.FinishStop, nil)
			}},
		{"completion_whole", textPath, `{"prompt":[1,2,3],"logprobs":0}`, func(s *fakeStream) {
			s.say("one two")
			s.done(engine.FinishLength, nil)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, newFakeEngine(c.script), server.Options{})
			compareTranscript(t, c.name, s.URL+c.path, c.body)
		})
	}
}

var (
	transcriptID = regexp.MustCompile(
		`"(chatcmpl-|cmpl-|call_|msg_|toolu_|req_|resp_|rs_|fc_|ctc_)[0-9a-f]{24}"`)
	transcriptCreated     = regexp.MustCompile(`"(created|created_at|completed_at)":\d+`)
	transcriptCreatedAt   = regexp.MustCompile(`"created_at":"[^"]*"`)
	transcriptDuration    = regexp.MustCompile(`"(total|load)_duration":\d+`)
	transcriptFingerprint = regexp.MustCompile(`"system_fingerprint":"fp_[0-9a-f]{10}",`)
)

// compareTranscript sends a request and compares the response with testdata/NAME.txt.
func compareTranscript(t *testing.T, name, url, body string) {
	t.Helper()
	status, header, text := post(t, url, body)
	text = transcriptID.ReplaceAllString(text, `"${1}ID"`)
	text = transcriptCreated.ReplaceAllString(text, `"$1":0`)
	text = transcriptCreatedAt.ReplaceAllString(text, `"created_at":"T"`)
	text = transcriptDuration.ReplaceAllString(text, `"${1}_duration":0`)
	text = transcriptFingerprint.ReplaceAllString(text, "")
	got := fmt.Sprintf("%d %s\n\n%s", status, header.Get("Content-Type"), text)
	path := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (go test -rewrite updates it):\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}
