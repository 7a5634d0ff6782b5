package importer

// From paths to items. The library decides what a folder holds, so that import and list agree on
// what a model is. A model that the list shows as damaged, incomplete or unsupported is refused
// with the same message.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"headroom/app/disk"
	"headroom/app/library"
	"headroom/engine/gguf"
	"headroom/engine/problem"
)

// Plan returns what an import of the paths would do. If exactly one model can be imported, it gets
// this name; "" keeps its own.
func (i *Importer) Plan(paths []string, mode Mode, name string) Plan {
	p := Plan{Mode: mode, Root: i.options.Root, FreeBytes: -1}
	seen := map[string]bool{}
	for _, path := range paths {
		for _, item := range i.itemsAt(path) {
			if key := item.Source; !seen[key] {
				seen[key] = true
				p.Items = append(p.Items, item)
			}
		}
	}
	return i.completed(p, name)
}

// completed completes the items of a plan; see Plan.
func (i *Importer) completed(p Plan, name string) Plan {
	if named := p.Importable(); name != "" && len(named) == 1 {
		for k := range p.Items {
			if p.Items[k].Refused == nil {
				p.Items[k].Name = name
			}
		}
	}
	existing := existingAbove(i.options.Root)
	targets := map[string]string{}
	for k := range p.Items {
		item := &p.Items[k]
		item.Mode = p.Mode
		if item.Refused == nil {
			item.Refused = i.complete(item, existing, targets)
		}
		if item.Refused == nil {
			p.WrittenBytes += item.WrittenBytes
		}
	}
	if free, err := disk.FreeBytes(existing); err == nil {
		p.FreeBytes = free
	}
	return p
}

// existingAbove returns dir, or its nearest parent that exists.
func existingAbove(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// complete sets an item's files, target and disk space. The error says why it cannot be imported.
// existing is the root or its nearest existing parent, and targets has the folded targets of
// earlier items.
func (i *Importer) complete(item *Item, existing string, targets map[string]string) error {
	if known := i.known(item.Source); known != "" && item.Packing == nil {
		item.Listed = known
		return refusal("This model is already in the list",
			"Headroom finds "+known+" in "+item.Source,
			"Start it. There is nothing to import.")
	}
	if item.Mode == Move && item.link != "" {
		return refusal(shown(item.link)+" is a link",
			"moving it would take the model from "+shown(item.Source)+", where the link leads",
			"Move that folder, or copy or link the model instead.")
	}
	if item.Mode == Move && !item.Converts && isHubSnapshot(item.Source) {
		return refusal("This model belongs to Hugging Face's cache",
			"other programs expect it there", "Copy or link it instead.")
	}
	if item.Mode != Link && !item.Converts {
		files, err := walk(item.Source)
		if err != nil {
			return err
		}
		item.files, item.Bytes = files, 0
		for _, f := range files {
			item.Bytes += f.size
		}
	}
	item.Name = targetName(item.Name)
	target, taken := targetIn(i.options.Root, item.Name)
	if other := targets[fold(target)]; other != "" && taken == "" {
		taken = "another item of this import"
	}
	if taken != "" {
		return problem.New(problem.Exists, "A model named "+item.Name+" already exists",
			"it is in "+taken, "Import the new one under another name, or remove the old one.")
	}
	if inside(item.Source, target) {
		return refusal("The folder for models is inside the model",
			shown(target)+" would be in "+shown(item.Source), "Choose another folder.")
	}
	targets[fold(target)] = item.Source
	item.Target = target
	switch same := disk.SameDisk(item.Source, existing); {
	case item.Converts:
		item.WrittenBytes = item.Bytes
	case item.Mode == Link, item.Mode == Move && same:
	default:
		item.WrittenBytes = item.Bytes
		item.Clones = same && disk.Clones(existing)
	}
	return nil
}

// inside reports whether path is in a folder whose links are resolved. path need not exist.
func inside(folder, path string) bool {
	above := existingAbove(path)
	if real, err := filepath.EvalSymlinks(above); err == nil {
		path = filepath.Join(real, strings.TrimPrefix(path, above))
	}
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// known returns the ID under which a folder is listed; "" if it is not.
func (i *Importer) known(real string) string {
	for _, m := range i.options.Known() {
		for _, place := range m.Places {
			if at, err := filepath.EvalSymlinks(place.Dir); err == nil && at == real {
				return m.ID
			}
		}
	}
	return ""
}

// itemsAt returns the items at a path: one model, or every model in a folder.
func (i *Importer) itemsAt(path string) []Item {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return []Item{{Source: path,
			Refused: problem.Wrap(problem.BadRequest, err, "The path is not valid", "")}}
	}
	info, err := os.Stat(absolute)
	if err != nil {
		why, fix := "it cannot be read: "+err.Error(), ""
		if errors.Is(err, fs.ErrNotExist) {
			why, fix = "there is no such file or folder", "Check the path."
		}
		return []Item{{Source: absolute,
			Refused: refusal("There is nothing at "+shown(absolute), why, fix)}}
	}
	if !info.IsDir() {
		if gguf.IsFile(absolute) {
			return []Item{ggufItem(gguf.Name(absolute), absolute)}
		}
		if err := refuseFile(absolute, info); err != nil {
			return []Item{{Name: filepath.Base(absolute), Source: absolute, Bytes: info.Size(),
				Refused: err}}
		}
		absolute = filepath.Dir(absolute)
	}
	if m, err := i.library().Resolve(absolute); m.Dir != "" {
		return []Item{itemOf(m)}
	} else if problem.From(err).Code != problem.ModelBroken {
		return []Item{{Source: absolute, Refused: err}}
	}
	var items []Item
	for _, m := range i.library(absolute).Scan() {
		if !m.Bundled {
			items = append(items, itemOf(m))
		}
	}
	if len(items) == 0 {
		return []Item{{Source: absolute,
			Refused: refusal("There is no model in "+shown(absolute),
				"a model's folder has config.json and .safetensors files",
				"Choose such a folder, or a folder of such folders.")}}
	}
	return items
}

// itemOf returns the item of a model of the library.
func itemOf(m library.Model) Item {
	if item, ok := convertible(m); ok {
		return item
	}
	item := Item{Name: m.ID, Source: m.Dir, Bytes: m.SizeBytes, Refused: m.Err}
	if len(m.Places) > 0 {
		item.Name = m.Places[0].ID // m.ID may be a path, because of a model with the same name
	}
	if real, err := filepath.EvalSymlinks(m.Dir); err == nil {
		item.Source = real
	}
	if info, err := os.Lstat(m.Dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		item.link = m.Dir
	}
	return item
}

// refuseFile returns why the path of a file cannot be imported. It returns nil if the file belongs
// to a model in its folder, which is then imported.
func refuseFile(path string, info fs.FileInfo) error {
	name := filepath.Base(path)
	if !info.Mode().IsRegular() {
		return refusal(shown(name)+" is neither a file nor a folder", "",
			"Choose a model's folder.")
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".safetensors", ".json", ".jinja", ".model":
		return nil
	case ".bin", ".pt", ".pth", ".onnx", ".h5", ".ckpt", ".npz":
		return problem.New(problem.UnknownArchitecture,
			shown(name)+" has weights in a format that Headroom cannot run",
			"it runs .safetensors",
			"Download the model in MLX's or Hugging Face's format.")
	case ".zip", ".tar", ".gz", ".tgz", ".zst", ".xz", ".7z", ".rar":
		return refusal(shown(name)+" is an archive", "",
			"Unpack it, then import the folder in it.")
	}
	return refusal(shown(name)+" is not part of a model", "",
		"Choose the folder with config.json and the .safetensors files.")
}

// shown returns a path for messages. Control characters are escaped.
func shown(path string) string {
	quoted := fmt.Sprintf("%q", path)
	if plain := quoted[1 : len(quoted)-1]; plain == path {
		return path
	}
	return quoted
}
