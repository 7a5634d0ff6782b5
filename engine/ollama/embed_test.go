package ollama

import (
	"reflect"
	"strings"
	"testing"

	"headroom/engine/jsonbody"
	"headroom/engine/jsonbody/fieldtest"
)

func TestParseEmbed(t *testing.T) {
	for _, c := range []struct {
		body  string
		parse func([]byte) (*EmbedRequest, error)
		want  EmbedRequest
	}{
		{`{"model": "m", "input": "a"}`, ParseEmbed,
			EmbedRequest{Model: "m", Param: "input", Inputs: []string{"a"}}},
		{`{"input": ["a", "b"], "truncate": false, "dimensions": 5}`, ParseEmbed,
			EmbedRequest{Param: "input", Inputs: []string{"a", "b"}, Refuse: true, Dimensions: 5}},
		{`{"input": [], "dimensions": 0, "truncate": true}`, ParseEmbed,
			EmbedRequest{Param: "input", Inputs: []string{}}},
		{`{"prompt": "a", "options": {"num_ctx": 7}}`, ParseEmbeddings,
			EmbedRequest{Param: "prompt", Inputs: []string{"a"}}},
	} {
		got, err := c.parse([]byte(c.body))
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: %+v, %v, expected %+v", c.body, got, err, c.want)
		}
	}
	for _, c := range []struct {
		body  string
		parse func([]byte) (*EmbedRequest, error)
		param string
		says  string
	}{
		{`{}`, ParseEmbed, "input", "is missing"},
		{`{"input": 3}`, ParseEmbed, "input", "got a number"},
		{`{"input": [3]}`, ParseEmbed, "input[0]", "expected a string, got a number"},
		{`{"input": ["a", null]}`, ParseEmbed, "input[1]", "expected a string, got null"},
		{`{"input": "a", "dimensions": -1}`, ParseEmbed, "dimensions", "must be at least 1"},
		{`{"input": [` + strings.Repeat(`"",`, maxInputs) + `""]}`, ParseEmbed, "input",
			"at most 2048 texts, got 2049"},
		{`{"input": "a", "model": "` + strings.Repeat("m", 1025) + `"}`, ParseEmbed, "model",
			"got 1025"},
		{`{}`, ParseEmbeddings, "prompt", "is missing"},
	} {
		_, err := c.parse([]byte(c.body))
		checkError(t, c.body, err, c.param, c.says)
	}
}

func TestEmbedFields(t *testing.T) {
	fieldtest.Read(t, embedFields, reflect.TypeFor[wireEmbed]())
	fieldtest.Read(t, embeddingsFields, reflect.TypeFor[wireEmbeddings]())
	fieldtest.Sorted(t, embedFields)
	fieldtest.Sorted(t, embeddingsFields)
	refuses := func(f jsonbody.Field, err error) { t.Errorf("%s is refused: %v", f.Name, err) }
	fieldtest.Others(t, embedFields, func(member string) (*EmbedRequest, error) {
		if member != "" {
			member = "," + member
		}
		return ParseEmbed([]byte(`{"input": "a"` + member + `}`))
	}, refuses)
}

// FuzzParseEmbed checks that a request that is not refused has inputs within the limit.
func FuzzParseEmbed(f *testing.F) {
	f.Add([]byte(`{"input": ["a", "b"], "dimensions": 3}`))
	f.Add([]byte(`{"prompt": "a"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func([]byte) (*EmbedRequest, error){ParseEmbed, ParseEmbeddings} {
			q, err := parse(body)
			if err == nil && (len(q.Inputs) > maxInputs || q.Dimensions < 0) {
				t.Errorf("%+v", q)
			}
		}
	})
}
