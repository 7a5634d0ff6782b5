// Package demotest has the tokenizer and the chat template of the bundled model, for tests that
// need no weights.
package demotest

import (
	"io/fs"
	"sync"

	"headroom/app/demo"
	"headroom/engine/chat"
	"headroom/engine/tokenizer"
)

// Texts returns the tokenizer and the chat template. All tests of a program share them. Texts
// panics if they cannot be read.
var Texts = sync.OnceValues(func() (*tokenizer.Tokenizer, *chat.Template) {
	t, err := tokenizer.Parse(read("model/tokenizer.json"))
	if err != nil {
		panic(err)
	}
	c, err := chat.ParseTemplate(string(read("model/chat_template.jinja")))
	if err != nil {
		panic(err)
	}
	return t, c
})

func read(name string) []byte {
	data, err := fs.ReadFile(demo.Files, name)
	if err != nil {
		panic(err)
	}
	return data
}
