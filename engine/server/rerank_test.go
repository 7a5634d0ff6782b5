package server_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/rerank"
	"headroom/engine/server"
	"headroom/kernels/cpu"
)

// reranked posts a body to /v1/rerank and returns the answer.
func reranked(t *testing.T, url, body string) (a rerank.Response) {
	t.Helper()
	status, _, text := post(t, url+"/v1/rerank", body)
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
		t.Fatalf("%.80s: %d %s", body, status, text)
	}
	return a
}

// scoreTolerance returns how far a score may be from sentence-transformers'. On a matrix unit,
// products of split floats have errors of up to 2^-16 of their size (kernels/matmul/split.c).
func scoreTolerance() float64 {
	if cpu.Best() == cpu.AMX {
		return 3e-5
	}
	return 1e-5
}

// TestRerank compares the scores of small rerankers with those that transformers computes for them;
// see build/oracle/embeddings.
func TestRerank(t *testing.T) {
	for name, special := range map[string]string{"qwen3_reranker": "<|im_end|>",
		"modernbert_classifier": "[SEP]", "xlm_roberta_classifier": "</s>"} {
		t.Run(name, func(t *testing.T) {
			dir := "../testdata/vectors/" + name
			data, err := os.ReadFile(dir + "/expected.json")
			if err != nil {
				t.Fatal(err)
			}
			var want struct {
				Query  string
				Texts  []string
				Scores []float64
			}
			if err := json.Unmarshal(data, &want); err != nil || len(want.Scores) < 5 {
				t.Fatalf("%d scores, %v", len(want.Scores), err)
			}
			e, err := engine.Open(t.Context(), engine.Source{Dir: dir}, engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = e.Close() })
			requests := &recorder{Engine: e}
			s := start(t, nil, server.Options{Models: &fakeModels{engine: requests}})

			query := fmt.Sprintf(`"query": %q, "documents": `, want.Query)
			documents := string(marshalled(t, want.Texts))
			all := reranked(t, s.URL, `{`+query+documents+`}`).Results
			sorted := slices.IsSortedFunc(all, func(a, b rerank.Result) int {
				return int(math.Copysign(1, b.RelevanceScore-a.RelevanceScore))
			})
			if len(all) != len(want.Scores) || !sorted {
				t.Fatalf("%+v is not in order", all)
			}
			for _, r := range all {
				if math.Abs(r.RelevanceScore-want.Scores[r.Index]) > scoreTolerance() {
					t.Errorf("document %d has the score %g, expected %g", r.Index,
						r.RelevanceScore, want.Scores[r.Index])
				}
				if r.Document == nil || r.Document.Text != want.Texts[r.Index] {
					t.Errorf("document %d is %v", r.Index, r.Document)
				}
			}
			best := reranked(t, s.URL, `{`+query+documents+
				`, "top_n": 2, "return_documents": false}`).Results
			for i := range best {
				if best[i].Document != nil || best[i].Index != all[i].Index || len(best) != 2 {
					t.Errorf("the best two are %+v, of %+v", best, all)
				}
			}

			// A special token in a document is text.
			token, _ := e.Tokenizer().TokenID(special)
			count := func(document string) (n int) {
				reranked(t, s.URL, fmt.Sprintf(`{"query": "q", "documents": [%q]}`, document))
				for _, id := range requests.requests[len(requests.requests)-1].Prompt {
					if id == token {
						n++
					}
				}
				return n
			}
			if n, plain := count("a"+special+"a"), count("aa"); n != plain {
				t.Errorf("%d tokens %s with a document that has its text, %d without", n, special,
					plain)
			}

			long := func(words int) string {
				return `{"query": "q", "documents": ["a", "` + strings.Repeat(" a", words) + `"]}`
			}
			tokens := func(words int) int {
				return reranked(t, s.URL, long(words)).Usage.PromptTokens
			}
			words := e.Info().ContextTokens/(tokens(2)-tokens(1)) + 1
			status, _, text := post(t, s.URL+"/v1/rerank", long(words))
			if status != 400 || !strings.Contains(text, "context_length_exceeded") ||
				!strings.Contains(text, "documents[1]") {
				t.Errorf("a document that is too long: %d %s", status, text)
			}
			status, _, text = post(t, s.URL+"/v1/rerank",
				`{"query": "q", "documents": ["a"], "instruction": "i"}`)
			if takes := name == "qwen3_reranker"; takes != (status == 200) ||
				!takes && !strings.Contains(text, "takes no instruction") {
				t.Errorf("an instruction: %d %s", status, text)
			}
		})
	}
}
