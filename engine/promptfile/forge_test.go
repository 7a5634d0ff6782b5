package promptfile

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"headroom/engine/safetensors"
)

// forge writes a file with any layout whose header, tokens and hashes belong together. Its tensors
// are those of the layout, with a row of one byte each. It returns false if there is no such file.
func forge(t *testing.T, path string, tokens int, text string) bool {
	t.Helper()
	var l layout
	if json.Unmarshal([]byte(text), &l) != nil {
		return false
	}
	rows := 1 + blocks(tokens) + len(l.States)
	tensors := []safetensors.Tensor{
		{Name: tokensName, DType: safetensors.I32, Shape: []int{tokens}},
		{Name: hashesName, DType: safetensors.U8, Shape: []int{rows, 32}}}
	add := func(name string) {
		tensors = append(tensors, safetensors.Tensor{Name: name, DType: safetensors.U8,
			Shape: []int{1, 1}})
	}
	for _, p := range l.Parts {
		for _, name := range p.Tensors {
			add(pageName(name))
		}
	}
	for _, position := range l.States {
		for _, name := range l.StateTensors {
			add(stateName(position, name))
		}
	}
	header, err := safetensors.Header(tensors, map[string]string{metaFormat: formatVersion,
		metaModel: "m", metaFingerprint: "f", metaCache: "c", metaContinues: "text",
		metaCreated: "2026-11-28T00:00:00Z", metaLayout: text})
	if err != nil {
		return false
	}
	size := 0
	for _, x := range tensors {
		size = max(size, x.To)
	}
	data := append(bytes.Clone(header), make([]byte, size-len(header))...)
	for _, x := range tensors {
		if x.Name == hashesName {
			root := rootHash(header, make([]byte, 4*tokens), make([]byte, 32*(rows-1)))
			copy(data[x.From:], root[:])
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestLayouts: layouts that do not fit the tokens are refused, although their hash is right.
func TestLayouts(t *testing.T) {
	path := t.TempDir() + "/file"
	for text, ok := range map[string]bool{
		`{"page_tokens":32,"parts":[{"to":20,"tensors":["k"]}]}`:                                true,
		`{"page_tokens":32,"parts":[{"to":20,"tensors":["k"]}],"states":[20]}`:                  true,
		`{"page_tokens":32,"parts":[{"to":20,"tensors":[]}],"states":[]}`:                       true,
		`{"page_tokens":0,"parts":[{"to":20,"tensors":["k"]}]}`:                                 false,
		`{"page_tokens":-32,"parts":[{"to":20,"tensors":["k"]}]}`:                               false,
		`{"page_tokens":48,"parts":[{"to":20,"tensors":["k"]}]}`:                                false,
		`{"page_tokens":8,"parts":[{"to":20,"tensors":["k"]}]}`:                                 false,
		`{"page_tokens":32,"parts":[]}`:                                                         false,
		`{"page_tokens":32,"parts":[{"to":21,"tensors":["k"]}]}`:                                false,
		`{"page_tokens":32,"parts":[{"to":-1,"tensors":["k"]}]}`:                                false,
		`{"page_tokens":32,"parts":[{"to":10,"tensors":["k"]},{"to":20,"tensors":["l"]}]}`:      false,
		`{"page_tokens":32,"parts":[{"to":20,"tensors":["k"]},{"to":20,"tensors":["l"]}]}`:      false,
		`{"page_tokens":32,"parts":[{"to":20,"tensors":["k"]}],"states":[0]}`:                   false,
		`{"page_tokens":32,"parts":[{"to":20,"tensors":["k"]}],"states":[21]}`:                  false,
		`{"page_tokens":32,"parts":[{"to":20,"tensors":["k"]}],"states":[9,9]}`:                 false,
		`{"page_tokens":32,"parts":[{"to":20,"tensors":["k"]}],"states":[9223372036854775807]}`: false,
	} {
		if !forge(t, path, 20, text) {
			t.Fatalf("%s: no file", text)
		}
		f, err := Open(path)
		if (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil {
			f.Close()
		}
	}
}
