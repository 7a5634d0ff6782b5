package textproc

// What a list of models checks of a tokenizer without parsing it. Parsing takes up to a second,
// which is too long for each of a hundred models. The beginning and the end of the file show what
// usually is wrong: a Git LFS pointer, a download that ended early, a web page instead of the file.

import (
	"bytes"
	"errors"
	"fmt"
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
