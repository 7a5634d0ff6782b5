package convert

// The other files of the result: the index, config.json, the card, and those that are copied.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"headroom/app/disk"
	"headroom/engine/modelfile"
	"headroom/kernels"
	"headroom/kernels/quantize"
)

const indexFile = "model.safetensors.index.json"

// copied are patterns of names of files that the result has, too. mlx-lm writes those of the
// tokenizer anew, and copies the others.
var copied = []string{
	"tokenizer*", "vocab.*", "merges.txt", "*.tiktoken", "*.model", "special_tokens_map.json",
	"added_tokens.json", "chat_template.*", "generation_config.json", "*.py", "LICENSE*", "NOTICE*",
}

// finish writes the other files, config.json last.
func (c *conversion) finish() error {
	steps := []func() error{c.writeIndex, c.copyFiles, c.writeCard, c.writeConfig}
	for _, step := range steps {
		if err := step(); err != nil {
			return wrap(err, "The files beside the weights cannot be written")
		}
	}
	if c.packed != nil {
		if err := os.Remove(filepath.Join(c.dest, calibratedFile)); err != nil {
			return wrap(err, "The packed matrices cannot be removed")
		}
	}
	disk.SyncDir(c.dest)
	if c.o.Verify != nil {
		if err := c.o.Verify(c.dest); err != nil {
			return err
		}
	}
	return wrap(os.Remove(filepath.Join(c.dest, stateFile)), "The folder cannot be written")
}

func (c *conversion) writeFile(name string, data []byte) error {
	return disk.WriteFile(filepath.Join(c.dest, name), data, 0o644)
}

// writeIndex writes the file of each tensor.
func (c *conversion) writeIndex() error {
	files := map[string]string{}
	for _, s := range c.shards {
		for _, p := range s.parts {
			files[p.name] = s.name
		}
	}
	data, err := indented(map[string]any{
		"metadata":   map[string]int64{"total_size": c.bytes, "total_parameters": c.parameters},
		"weight_map": files,
	})
	if err != nil {
		return err
	}
	return c.writeFile(indexFile, data)
}

// indented returns v as JSON in the form of Python's json.dump(v, indent=4).
func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "    ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// writeConfig writes config.json: that of the source with sorted keys, the token ids that end an
// answer from generation_config.json, and the packing, as mlx-lm does.
func (c *conversion) writeConfig() error {
	data, err := c.readFile("config.json")
	if err != nil {
		return err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(modelfile.Standard(data), &keys); err != nil {
		return err
	}
	for _, key := range []string{"_name_or_path", "vision_config", "quantization",
		"quantization_config"} {
		delete(keys, key)
	}
	if err := c.dropInnerQuantization(keys); err != nil {
		return err
	}
	if eos := c.endTokens(); eos != nil {
		keys["eos_token_id"] = eos
	}
	if packing := c.formats.config(); packing != nil {
		keys["quantization"], keys["quantization_config"] = packing, packing
	}
	if c.o.DType != "" { // what reads the result must not cast it back
		for _, key := range []string{"torch_dtype", "dtype"} {
			if keys[key] != nil {
				keys[key], _ = json.Marshal(c.o.DType)
			}
		}
	}
	if data, err = indented(keys); err != nil {
		return err
	}
	return c.writeFile("config.json", data)
}

// dropInnerQuantization removes the packing of the source from text_config.
func (c *conversion) dropInnerQuantization(keys map[string]json.RawMessage) error {
	if keys["text_config"] == nil {
		return nil
	}
	var inner map[string]json.RawMessage
	if err := json.Unmarshal(keys["text_config"], &inner); err != nil {
		return err
	}
	if inner["quantization_config"] == nil && inner["quantization"] == nil {
		return nil
	}
	delete(inner, "quantization_config")
	delete(inner, "quantization")
	var err error
	keys["text_config"], err = json.Marshal(inner)
	return err
}

// endTokens returns eos_token_id of generation_config.json, or nil.
func (c *conversion) endTokens() json.RawMessage {
	data, err := c.readFile("generation_config.json")
	if err != nil {
		return nil
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(data, &keys) != nil {
		return nil
	}
	switch eos := keys["eos_token_id"]; string(eos) {
	case "", "null", "0", "[]", "false":
		return nil
	default:
		return eos
	}
}

// config returns what config.json says of the packing, or nil if nothing is packed.
func (f *formats) config() json.RawMessage {
	if f.all == nil && !f.keepsMXFP4 {
		return nil
	}
	all := entryOf(quantize.Defaults[kernels.MXFP4.String()])
	if f.all != nil {
		all = entryOf(*f.all)
	}
	text, _ := json.Marshal(all)
	text = bytes.TrimSuffix(text, []byte("}"))
	for _, module := range slices.Sorted(maps.Keys(f.entries)) {
		name, _ := json.Marshal(module)
		value, _ := json.Marshal(f.entries[module])
		text = append(append(append(append(text, ','), name...), ':'), value...)
	}
	return append(text, '}')
}

// copyFiles copies the tokenizer, the chat template and others.
func (c *conversion) copyFiles() error {
	names, err := c.fileNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isCopied(name) {
			continue
		}
		data, err := c.readFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil { // a folder, or one that is too large to be what it is called
			c.o.Warn(fmt.Sprintf("%s was not copied: %v", name, err))
			continue
		}
		if err := c.writeFile(name, data); err != nil {
			return err
		}
	}
	return nil
}

// isCopied reports whether the result has the source's file of this name.
func isCopied(name string) bool {
	return !strings.HasSuffix(name, ".safetensors") &&
		slices.ContainsFunc(copied, func(pattern string) bool {
			ok, _ := path.Match(pattern, name)
			return ok
		})
}

// fileNames returns the names of the files of the source.
func (c *conversion) fileNames() (names []string, err error) {
	if c.model != nil {
		return c.model.FileNames(), nil
	}
	tree := c.source.FS
	if c.source.Dir != "" {
		tree = os.DirFS(c.source.Dir)
	}
	entries, err := fs.ReadDir(tree, ".")
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// writeCard writes README.md: the properties of the source's card with those of an MLX model. That
// of a GGUF file says what became of the types in it.
func (c *conversion) writeCard() error {
	data, err := c.readFile("README.md")
	if err != nil {
		data = []byte("---\nlanguage: en\n---\n")
	}
	text := card(string(data), c.o.Name)
	if c.model != nil {
		text = fmt.Appendf(text, "\nConverted from %s.\n\n", filepath.Base(c.paths()[0]))
		for _, one := range c.typeResults() {
			text = fmt.Appendf(text, "- %s\n", one)
		}
	}
	return c.writeFile("README.md", text)
}

// card returns the card of an MLX conversion of the model called base, if it is known. The text of
// the card goes: it is about other files.
func card(text, base string) []byte {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	var kept, tags []string
	dropped := []string{"library_name", "pipeline_tag", "tags"}
	if base != "" {
		dropped = append(dropped, "base_model")
	}
	if lines[0] == "---" {
		key := ""
		for _, line := range lines[1:] {
			if line == "---" || line == "..." {
				break
			}
			name, value, ok := strings.Cut(line, ":")
			if ok && line == strings.TrimLeft(line, " -#") {
				key = name
				if key == "tags" {
					tags = append(tags, listed(value)...)
				}
			} else if tag, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok &&
				key == "tags" {
				tags = append(tags, tag)
			}
			if !slices.Contains(dropped, key) {
				kept = append(kept, line)
			}
		}
	}
	if !slices.Contains(tags, "mlx") {
		tags = append(tags, "mlx")
	}
	kept = append(kept, "library_name: mlx", "pipeline_tag: text-generation", "tags:")
	if base != "" {
		kept = slices.Insert(kept, len(kept)-1, "base_model: "+base)
	}
	for _, tag := range tags {
		kept = append(kept, "- "+tag)
	}
	return []byte("---\n" + strings.Join(kept, "\n") + "\n---\n")
}

// listed returns the items of a list on one line, "[a, b]".
func listed(value string) (items []string) {
	for _, item := range strings.Split(strings.Trim(strings.TrimSpace(value), "[]"), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
