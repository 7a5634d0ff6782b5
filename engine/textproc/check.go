package textproc

// What a list of models checks of a tokenizer without parsing it. Parsing takes up to a second,
// which is too long for each of a hundred models. The beginning and the end of the file show what
// usually is wrong: a Git LFS pointer, a download that ended early, a web page instead of the file.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"headroom/engine/chat"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// edgeBytes is how much is read of each end of a file.
const edgeBytes = 256

// lfsPointer begins a file that Git LFS has not replaced by its content yet.
const lfsPointer = "version https://git-lfs"

// Check returns a Problem if the model has no tokenizer, if its tokenizer clearly cannot be read,
// or if its chat template cannot be used. hasTemplate reports whether it has a template. Check
// reads less than Read does, and so does not find everything that Read does.
func Check(src checkpoint.Source) (hasTemplate bool, err error) {
	name := TokenizerFile(src)
	if name == "" {
		return false, problem.New(problem.ModelBroken,
			"The model in "+src.String()+" has no tokenizer.json", "",
			"Download it again. A tokenizer.model, tekken.json or tiktoken.model does as well.")
	}
	if err := checkEdges(src, name); err != nil {
		return false, err
	}
	switch _, err := ReadTemplate(src); {
	case err == nil:
		return true, nil
	case errors.Is(err, chat.ErrNoTemplate):
		return false, nil
	default:
		return false, err
	}
}

// beginningBytes is how much BeyondVocabulary reads. The added tokens are at the beginning of a
// tokenizer.json, and each takes about 200 bytes. Few models have more than a thousand.
const beginningBytes = 256 << 10

// BeyondVocabulary returns a sentence without a period about an added token of tokenizer.json that
// a model with so many tokens lacks; "": it finds none. It reads the beginning of the file alone.
// The other tokens are in the rest, and a request that has one of them is refused. The ids in
// tokenizer_config.json do not tell: a token that only that file has gets an id that is free.
func BeyondVocabulary(src checkpoint.Source, tokens int) string {
	const name = "tokenizer.json"
	if src.Dir == "" || TokenizerFile(src) != name {
		return ""
	}
	f, _, err := modelfile.Open(filepath.Join(src.Dir, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, beginningBytes))
	if !enterAddedTokens(d) {
		return ""
	}
	for d.More() {
		var token struct {
			ID      int64  `json:"id"`
			Content string `json:"content"`
		}
		if d.Decode(&token) != nil { // or it is not in the beginning
			return ""
		}
		if token.ID >= int64(tokens) {
			return fmt.Sprintf("its token %d is %.40q, the model's vocab_size is %d", token.ID,
				token.Content, tokens)
		}
	}
	return ""
}

// enterAddedTokens reads a tokenizer.json up to the first of its added tokens, and reports whether
// it has any before its model.
func enterAddedTokens(d *json.Decoder) bool {
	if brace, err := d.Token(); err != nil || brace != json.Delim('{') {
		return false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil || key == "model" {
			return false
		}
		if key == "added_tokens" {
			bracket, err := d.Token()
			return err == nil && bracket == json.Delim('[')
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

// checkEdges checks the size, the beginning and the end of the file with the tokenizer.
func checkEdges(src checkpoint.Source, name string) error {
	if src.Dir == "" { // bundled, or without files
		return nil
	}
	f, info, err := modelfile.Open(filepath.Join(src.Dir, name))
	if err != nil {
		return problem.Wrap(problem.ModelBroken, err, "The model's "+name+" cannot be read",
			"Download or convert the model again.")
	}
	defer f.Close()
	head := make([]byte, min(edgeBytes, info.Size()))
	tail := make([]byte, len(head))
	_, err = f.ReadAt(head, 0)
	if err == nil {
		_, err = f.ReadAt(tail, info.Size()-int64(len(tail)))
	}
	why := ""
	switch limit := modelfile.LimitOf(name); {
	case err != nil:
		return problem.Wrap(problem.ModelBroken, err, "The model's "+name+" cannot be read",
			"Download or convert the model again.")
	case strings.HasPrefix(string(head), lfsPointer):
		return problem.New(problem.ModelBroken, "The tokenizer is missing",
			name+" is only a Git LFS pointer",
			"Run git lfs pull in the folder, or download the model again.")
	case len(bytes.TrimSpace(head)) == 0:
		why = "it is empty"
	case info.Size() > limit.Bytes:
		why = fmt.Sprintf("it has %d bytes, expected at most %d", info.Size(), limit.Bytes)
	case limit.Depth == 0: // not JSON
	case bytes.TrimSpace(head)[0] != '{':
		why = "it is not a JSON object"
	case !bytes.HasSuffix(bytes.TrimSpace(tail), []byte("}")):
		why = "its JSON is cut off"
	}
	if why == "" {
		return nil
	}
	return problem.New(problem.ModelBroken, "The model's "+name+" cannot be used", why,
		"Download or convert the model again.")
}
