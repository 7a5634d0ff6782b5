package rerank

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"headroom/engine/jsonbody"
	"headroom/engine/jsonbody/fieldtest"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		body string
		want Request
	}{
		{`{"model": "m", "query": "q", "documents": ["a", {"text": "b"}]}`,
			Request{Model: "m", Query: "q", Documents: []string{"a", "b"}}},
		{`{"query": "", "documents": [""], "top_n": 3, "return_documents": false,
			"instruction": "i"}`,
			Request{Documents: []string{""}, TopN: 3, HideTexts: true, Instruction: "i"}},
		{`{"query": "q", "documents": ["a"], "return_documents": true, "user": "u"}`,
			Request{Query: "q", Documents: []string{"a"}}},
	} {
		got, err := Parse([]byte(c.body))
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: %+v, %v, expected %+v", c.body, got, err, c.want)
		}
	}
}

func checkError(t *testing.T, name string, err error, param, says string) {
	t.Helper()
	var bad *Error
	if !errors.As(err, &bad) || bad.Param != param || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, expected an error about %q: %q", name, err, param, says)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ body, param, says string }{
		{`{"documents": ["a"]}`, "query", "is missing"},
		{`{"query": "q"}`, "documents", "at least one"},
		{`{"query": "q", "documents": []}`, "documents", "at least one"},
		{`{"query": "q", "documents": [3]}`, "documents[0]", "got a number"},
		{`{"query": "q", "documents": [{"title": "a"}]}`, "documents[0].text", "is missing"},
		{`{"query": "q", "documents": ["a"], "top_n": 0}`, "top_n", "at least 1"},
		{`{"query": "q", "documents": ["a"], "model": "` + strings.Repeat("m", 1025) + `"}`, "model",
			"got 1025"},
		{`{"query": ["q"], "documents": ["a"]}`, "query", "expected a string"},
		{`{"query": "q", "texts": ["a"]}`, "texts", "Send documents"},
		{`{"query": "q", "documents": [` + strings.Repeat(`"",`, maxDocuments) + `""]}`,
			"documents", "at most 2048, got 2049"},
	} {
		_, err := Parse([]byte(c.body))
		checkError(t, c.body[:min(len(c.body), 60)], err, c.param, c.says)
	}
}

func TestFields(t *testing.T) {
	fieldtest.Read(t, fields, reflect.TypeFor[wireRequest]())
	fieldtest.Sorted(t, fields)
	fieldtest.Others(t, fields, func(member string) (*Request, error) {
		if member != "" {
			member = "," + member
		}
		return Parse([]byte(`{"query": "q", "documents": ["a"]` + member + `}`))
	}, func(f jsonbody.Field, err error) {
		checkError(t, f.Name, err, f.Name, "is not supported")
	})
}

// TestFieldTable checks that engine/server/API.md has the table of fields as it is.
func TestFieldTable(t *testing.T) {
	table := "\n| field | rerank | notes |\n|---|---|---|\n"
	for _, f := range fields {
		table += fieldtest.Row(f, f.Support)
	}
	fieldtest.Document(t, "rerank", "the table of reranking", table+"\n")
}

// TestScore checks that the score is the probability of "yes" against "no".
func TestScore(t *testing.T) {
	yes, no := 1.5, -0.25
	want := math.Exp(yes) / (math.Exp(yes) + math.Exp(no))
	if got := score([]float32{float32(yes), float32(no)}); math.Abs(got-want) > 1e-12 {
		t.Errorf("%g, expected %g", got, want)
	}
	if got := score([]float32{0}); got != 0.5 {
		t.Errorf("%g, expected 0.5", got)
	}
}

// FuzzParse checks that a request that is not refused has documents within the limit.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := Parse(body)
		if err == nil && (len(q.Documents) == 0 || len(q.Documents) > maxDocuments || q.TopN < 0) {
			t.Errorf("%+v", q)
		}
	})
}
