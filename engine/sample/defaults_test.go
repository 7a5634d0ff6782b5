package sample

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestFromGenerationConfig(t *testing.T) {
	tests := []struct{ file, defaults, params string }{
		{`{}`, `{"EOSTokenIDs":null}`, `{"Temperature":1}`},
		{`{"eos_token_id":[2086,2084],"pad_token_id":2084,"do_sample":false}`,
			`{"DoSample":false,"EOSTokenIDs":[2086,2084]}`, `{"Temperature":0}`},
		{`{"eos_token_id":7,"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":0.0,"repetition_penalty":1.05,"do_sample":true}`,
			`{"Temperature":0.6,"TopP":0.95,"TopK":20,"MinP":0,"RepetitionPenalty":1.05,"DoSample":true,"EOSTokenIDs":[7]}`,
			`{"Temperature":0.6,"TopP":0.95,"TopK":20,"RepetitionPenalty":1.05}`},
		{`{"eos_token_id":null,"temperature":null,"top_k":null}`, `{"EOSTokenIDs":null}`,
			`{"Temperature":1}`},
	}
	for _, tt := range tests {
		got, err := FromGenerationConfig([]byte(tt.file))
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		text, _ := json.Marshal(got)
		withoutNulls := strings.NewReplacer(`"Temperature":null,`, "", `"TopP":null,`, "",
			`"TopK":null,`, "", `"MinP":null,`, "", `"RepetitionPenalty":null,`, "",
			`"DoSample":null,`, "").Replace(string(text))
		if withoutNulls != tt.defaults {
			t.Errorf("%s: got %s, want %s", tt.file, withoutNulls, tt.defaults)
		}
		want := Params{Logprobs: -1}
		if err := json.Unmarshal([]byte(tt.params), &want); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(got.Params())
		b, _ := json.Marshal(want)
		if string(a) != string(b) {
			t.Errorf("%s: params %s, want %s", tt.file, a, b)
		}
	}
}

func TestFromGenerationConfigErrors(t *testing.T) {
	for file, want := range map[string]string{
		``:                          "generation_config.json",
		`[]`:                        "generation_config.json",
		`{"temperature":-1}`:        "temperature: got -1",
		`{"temperature":1e300}`:     "temperature: got +Inf",
		`{"top_p":1.5}`:             "top_p: got 1.5, it must be between 0 and 1",
		`{"top_k":1.5}`:             "top_k: got 1.5",
		`{"eos_token_id":"x"}`:      "eos_token_id",
		`{"eos_token_id":[-1]}`:     "eos_token_id: got -1",
		`{"eos_token_id":9e99}`:     "eos_token_id",
		`{"repetition_penalty":-1}`: "repetition_penalty",
	} {
		if _, err := FromGenerationConfig([]byte(file)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", file, err, want)
		}
	}
}

func FuzzFromGenerationConfig(f *testing.F) {
	f.Add([]byte(`{"eos_token_id":[1,2],"temperature":0.6,"top_k":20}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := FromGenerationConfig(data)
		if err == nil && d.Params().Validate() != nil {
			t.Fatalf("accepted parameters that are not valid: %+v", d.Params())
		}
	})
}
