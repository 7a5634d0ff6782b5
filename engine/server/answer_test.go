package server

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"time"

	"headroom/app/demo/demotest"
	"headroom/engine"
	"headroom/engine/generate"
	"headroom/engine/problem"
)

// TestEveryCodeHasAReply reads the codes from the source of package problem. Each must have a row
// in replies.
func TestEveryCodeHasAReply(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../problem/problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			code, _ := strconv.Unquote(literal.Value)
			count++
			if _, ok := replies[problem.Code(code)]; !ok {
				t.Errorf("problem.%s (%q) has no row in replies", spec.Names[0].Name, code)
			}
		}
		return true
	})
	if count < 15 || count != len(replies) {
		t.Errorf("found %d codes in problem.go, %d rows in replies", count, len(replies))
	}
}

// TestLongCallKeepsTheConnection checks that the server sends keep-alive comments while the tokens
// of an incomplete tool call produce no text.
func TestLongCallKeepsTheConnection(t *testing.T) {
	_, template := demotest.Texts()
	out := &outputCounts{}
	tools := []json.RawMessage{json.RawMessage(`{"function":{"name":"f"}}`)}
	a := &answer{out: out, keepAlive: time.Hour,
		split: template.NewSplitter("", tools)}
	for i, step := range []struct {
		text string
		ago  time.Duration // since the last output
		want outputCounts
	}{
		{"Hi", 2 * time.Hour, outputCounts{deltas: 1}},
		{"<tool_call>", time.Minute, outputCounts{deltas: 1}},
		{"\n<function=f>", 2 * time.Hour, outputCounts{deltas: 1, comments: 1}},
		{"\n", 0, outputCounts{deltas: 1, comments: 1}},
		{"</function></tool_call>", 2 * time.Hour, outputCounts{deltas: 2, comments: 1}},
	} {
		if step.ago > 0 {
			a.lastOutput = time.Now().Add(-step.ago)
		}
		if err := a.token(engine.Event{Type: engine.Token, Text: step.text}); err != nil ||
			*out != step.want {
			t.Fatalf("after step %d: %+v, %v; want %+v", i, *out, err, step.want)
		}
	}
}

// outputCounts is an output that counts its calls.
type outputCounts struct{ deltas, comments int }

func (o *outputCounts) progress(done, total int) error { return nil }
func (o *outputCounts) keepAlive() error {
	o.comments++
	return nil
}
func (o *outputCounts) delta(generate.Delta) error {
	o.deltas++
	return nil
}
func (o *outputCounts) finish(generate.FinishReason, string, generate.Usage) error { return nil }
func (o *outputCounts) fail(error) error                                           { return nil }
