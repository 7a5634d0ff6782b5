package library

// Finding copies of a model. Copies are found by content, because scan already lists a folder
// with several paths only once. Beside the weights and config.json, tokenizer and chat template
// must be equal, because they decide what the model reads and when it stops. The sizes of the
// weights are compared first: that costs nothing, and the sizes of different models nearly
// always differ. Then digests of samples are compared, because a fine-tune has the same sizes
// and headers as its base.

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"

	"headroom/engine/modelfile"
)

// Origin is the program whose folder a model is in.
type Origin string

// The origins of places.
const (
	HuggingFace Origin = "huggingface" // the hub cache
	LMStudio    Origin = "lmstudio"
	OMLX        Origin = "omlx"
	Ollama      Origin = "ollama"
	Folder      Origin = "folder" // any other
)

// Place is a folder that has the model.
type Place struct {
	ID     string // the ID of this folder if there were no other models
	Dir    string
	Origin Origin
}

// HasName reports whether id is the model's ID or that of one of its copies. It ignores case.
func (m *Model) HasName(id string) bool {
	if strings.EqualFold(m.ID, id) {
		return true
	}
	for _, p := range m.Places {
		if strings.EqualFold(p.ID, id) {
			return true
		}
	}
	return false
}

func originOf(root string, f folder) Origin {
	inside := func(names ...string) bool { return strings.HasSuffix(root, filepath.Join(names...)) }
	switch {
	case f.foreign != nil && f.foreign.format == formatOllama:
		return Ollama
	case f.isHub():
		return HuggingFace
	case inside(".lmstudio", "models"), inside("lm-studio", "models"):
		return LMStudio
	case inside(".omlx", "models"):
		return OMLX
	}
	return Folder
}

// isHub reports whether the folder is a models--org--name or one of its snapshots.
func (f folder) isHub() bool {
	for dir := f.dir; ; dir = filepath.Dir(dir) {
		if _, ok := hubID(filepath.Base(dir)); ok {
			return true
		}
		if dir == filepath.Dir(dir) || dir != f.dir && filepath.Base(dir) != "snapshots" {
			return false
		}
	}
}

// merge merges ready models with the same content into the first of them, with the places of all.
// found has the folders of models[1:].
func (s *scanner) merge(models []Model, found []folder) []Model {
	bySize := map[string][]int{}
	for i, f := range found {
		if m := models[i+1]; m.State == Ready && f.at != nil {
			if key := f.at.sizes(); key != "" {
				bySize[key] = append(bySize[key], i)
			}
		}
	}
	gone := map[int]bool{}
	for _, alike := range bySize {
		if len(alike) < 2 {
			continue
		}
		first := map[[sha256.Size]byte]int{}
		for _, i := range alike {
			digest, ok := s.describer.digest(found[i].at)
			if !ok {
				continue
			}
			if at, known := first[digest]; known {
				models[at+1].Places = append(models[at+1].Places, models[i+1].Places...)
				models[at+1].Copies = append(models[at+1].Copies, models[i+1].ID)
				gone[i] = true
			} else {
				first[digest] = i
			}
		}
	}
	kept := models[:1]
	for i := range found {
		if !gone[i] {
			kept = append(kept, models[i+1])
		}
	}
	return kept
}

// sizes returns the sizes of the weights and config.json, in name order; "" if one of them is
// missing.
func (l *listing) sizes() string { return once(l, "sizes", l.sizesNow) }

func (l *listing) sizesNow() string {
	var b strings.Builder
	for _, f := range l.files {
		if isWeights(f.name) {
			fmt.Fprintf(&b, "%d ", f.size)
		}
	}
	if config, ok := l.file(configName); ok && b.Len() > 0 {
		fmt.Fprintf(&b, "+ %d", config.size)
		return b.String()
	}
	return ""
}

// isText reports whether a model answers differently if the file with this name differs.
func isText(name string) bool {
	switch name {
	case configName, "tokenizer.json", "tokenizer.model", "tekken.json", "tiktoken.model",
		"tokenizer_config.json", "generation_config.json", "modules.json",
		"config_sentence_transformers.json", "sentence_bert_config.json":
		return true
	}
	return strings.HasPrefix(name, "chat_template")
}

// digest returns a hash of the texts and samples of the weights. It is cached until a file
// changes.
func (d *describer) digest(l *listing) (sum [sha256.Size]byte, ok bool) {
	signature := l.signature()
	d.mu.Lock()
	known, ok := d.digests[l.real]
	d.mu.Unlock()
	if ok && known.signature == signature {
		return known.sum, true
	}
	h := sha256.New()
	for _, f := range l.files {
		switch {
		case isText(f.name):
			text, err := modelfile.ReadAs(f.name, f.real)
			if err != nil {
				return sum, false
			}
			fmt.Fprintf(h, "%s %d\n", f.name, len(text))
			h.Write(text)
		case isWeights(f.name):
			if !sample(h.Write, f) {
				return sum, false
			}
		}
	}
	sum = [sha256.Size]byte(h.Sum(nil))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.digests == nil {
		d.digests = map[string]digested{}
	}
	d.digests[l.real] = digested{signature, sum}
	return sum, true
}

type digested struct {
	signature uint64
	sum       [sha256.Size]byte
}

// sample writes a file's size and 64 evenly spaced pieces of it, and reports whether it could read
// them. Training or quantization changes nearly all weights, so these 256 KiB identify a shard.
func sample(write func([]byte) (int, error), f file) bool {
	const (
		pieces     = 64
		pieceBytes = 4 << 10
	)
	open, _, err := modelfile.Open(f.real)
	if err != nil {
		return false
	}
	defer open.Close()
	_, _ = write([]byte(fmt.Sprintf("%d\n", f.size)))
	buffer := make([]byte, pieceBytes)
	for i := range int64(pieces) {
		at := max(f.size-pieceBytes, 0) / (pieces - 1) * i
		if i == pieces-1 {
			at = max(f.size-pieceBytes, 0)
		}
		n, _ := open.ReadAt(buffer, at)
		if want := min(f.size-at, pieceBytes); int64(n) < want {
			return false
		}
		_, _ = write(buffer[:n])
	}
	return true
}
