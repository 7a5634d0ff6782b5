package openai

import (
	"encoding/base64"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"headroom/engine/generate"
	"headroom/engine/jsonbody"
	"headroom/engine/jsonbody/fieldtest"
)

func TestParseEmbedding(t *testing.T) {
	text := func(s ...string) (list []generate.Prompt) {
		for _, one := range s {
			list = append(list, generate.Prompt{Text: one})
		}
		return list
	}
	for _, c := range []struct {
		body string
		want EmbeddingRequest
	}{
		{`{"input": "a", "model": "m"}`, EmbeddingRequest{Model: "m", Inputs: text("a")}},
		{`{"input": ["a", ""]}`, EmbeddingRequest{Inputs: text("a", "")}},
		{`{"content": "a"}`, EmbeddingRequest{Param: "content", Inputs: text("a")}},
		{`{"input": [1, 2]}`,
			EmbeddingRequest{Inputs: []generate.Prompt{{Tokens: []int32{1, 2}}}}},
		{`{"input": [[1], [2, 3]], "encoding_format": "base64", "dimensions": 3}`,
			EmbeddingRequest{Inputs: []generate.Prompt{{Tokens: []int32{1}},
				{Tokens: []int32{2, 3}}}, Base64: true, Dimensions: 3}},
		{`{"input": "a", "encoding_format": "float", "add_special_tokens": false,
			"truncate_prompt_tokens": -1, "user": "u"}`,
			EmbeddingRequest{Inputs: text("a"), NoSpecial: true, Truncate: -1}},
	} {
		if c.want.Param == "" {
			c.want.Param = "input"
		}
		got, err := ParseEmbedding([]byte(c.body))
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: %+v, %v, expected %+v", c.body, got, err, c.want)
		}
	}
}

func TestParseEmbeddingRefuses(t *testing.T) {
	for _, c := range []struct{ body, param, says string }{
		{`{}`, "input", "is missing"},
		{`{"input": []}`, "input", "the array is empty"},
		{`{"input": 7}`, "input", "expected a string or an array of token ids, got a number"},
		{`{"input": [-1]}`, "input[0]", "expected a token id"},
		{`{"input": ["a", 1]}`, "input[1]", "expected a string"},
		{`{"input": "a", "encoding_format": "int8"}`, "encoding_format", "float or base64"},
		{`{"input": "a", "dimensions": 0}`, "dimensions", "must be at least 1, got 0"},
		{`{"input": "a", "truncate_prompt_tokens": 0}`, "truncate_prompt_tokens", "at least 1"},
		{`{"input": "a", "truncate_prompt_tokens": -2}`, "truncate_prompt_tokens", "got -2"},
		{`{"input": "a", "model": "` + strings.Repeat("m", 1025) + `"}`, "model", "got 1025"},
		{`{"input": "a", "input_type": "query"}`, "input_type", "as part of input"},
		{`{"input": "a", "messages": [{}]}`, "messages", "Send input"},
	} {
		_, err := ParseEmbedding([]byte(c.body))
		checkError(t, err, c.param, c.says)
	}
}

func TestEmbeddingFields(t *testing.T) {
	fieldtest.Read(t, embeddingFields, reflect.TypeFor[wireEmbedding]())
	fieldtest.Sorted(t, embeddingFields)
	fieldtest.Client(t, embeddingFields, reflect.TypeFor[openai.EmbeddingNewParams](), 5)
	fieldtest.Others(t, embeddingFields,
		func(member string) (*EmbeddingRequest, error) {
			if member != "" {
				member = "," + member
			}
			return ParseEmbedding([]byte(`{"input": "a"` + member + `}`))
		},
		func(f jsonbody.Field, err error) { checkError(t, err, f.Name, "is not supported") })
}

func TestBase64OfVector(t *testing.T) {
	got, err := base64.StdEncoding.DecodeString(base64Of([]float32{1, -2}))
	want := []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%x, %v, expected %x", got, err, want)
	}
}

// FuzzParseEmbedding checks that a request that is not refused has texts or tokens.
func FuzzParseEmbedding(f *testing.F) {
	f.Add([]byte(`{"input": ["a", [1, 2]], "dimensions": 3}`))
	f.Add([]byte(`{"input": [[1], [2]], "encoding_format": "base64"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := ParseEmbedding(body)
		if err == nil && (len(q.Inputs) == 0 || len(q.Inputs) > maxPrompts || q.Dimensions < 0) {
			t.Errorf("%+v", q)
		}
	})
}
