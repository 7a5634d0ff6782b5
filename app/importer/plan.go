package importer

// From paths to items. What a folder holds is asked of the library, so that import and list cannot
// disagree about what a model is; what it would list as damaged, incomplete or of a foreign kind is
// refused with the list's own words.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"headroom/app/disk"
	"headroom/app/library"
	"headroom/engine/problem"
)

// Plan looks at the paths and says what importing them would do. name is what the model shall be
// called, where the paths lead to one alone; "" leaves it its own.
func (i *Importer) Plan(paths []string, mode Mode, name string) Plan {
	p := Plan{Mode: mode, Root: i.options.Root, FreeBytes: -1}
	seen := map[string]bool{}
	for _, path := range paths {
		for _, item := range i.look(path) {
			if key := item.Source; !seen[key] {
				seen[key] = true
				p.Items = append(p.Items, item)
			}
		}
	}
	if named := p.Importable(); name != "" && len(named) == 1 {
		for k := range p.Items {
			if p.Items[k].Refused == nil {
				p.Items[k].Name = name
			}
		}
	}
	existing := existingAbove(i.options.Root)
	goals := map[string]string{}
	for k := range p.Items {
		item := &p.Items[k]
		item.Mode = mode
		if item.Refused == nil {
			item.Refused = i.settle(item, existing, goals)
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

// existingAbove is the folder, or the nearest one above it that exists.
func existingAbove(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// settle completes an item: its files, its goal, what it takes. The error says why it cannot be
// imported that way.
func (i *Importer) settle(item *Item, existing string, goals map[string]string) error {
	if known := i.known(item.Source); known != "" {
		return refusal("This model is in the list already",
			"Headroom finds "+known+" where it lies, in "+item.Source,
			"Start it; there is nothing to import.")
	}
	if item.Mode == Move && isHubSnapshot(item.Source) {
		return refusal("This model belongs to Hugging Face's cache",
			"other programs look for it there", "Copy or link it instead.")
	}
	if item.Mode != Link {
		files, err := walk(item.Source)
		if err != nil {
			return err
		}
		item.files, item.Bytes = files, 0
		for _, f := range files {
			item.Bytes += f.size
		}
	}
	item.Name = goalName(item.Name)
	goal, taken := goalIn(i.options.Root, item.Name)
	if other := goals[fold(goal)]; other != "" && taken == "" {
		taken = "another model of this import"
	}
	if taken != "" {
		return problem.New(problem.Exists, "There is a model of the name "+item.Name+" already",
			"it lies in "+taken, "Import it under another name, or remove that one first.")
	}
	goals[fold(goal)] = item.Source
	item.Goal = goal
	switch same := disk.SameDisk(item.Source, existing); {
	case item.Mode == Link, item.Mode == Move && same:
	default:
		item.WrittenBytes = item.Bytes
		item.Clones = same && disk.Clones(existing)
	}
	return nil
}

// known is the ID under which a folder is listed; "" when it is not.
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

// look finds what lies at a path: one item, or those of a folder of models.
func (i *Importer) look(path string) []Item {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return []Item{{Source: path,
			Refused: problem.Wrap(problem.BadRequest, err, "The path cannot be understood", "")}}
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
				"a model's folder holds config.json and .safetensors files",
				"Choose such a folder, or one with several of them in it.")}}
	}
	return items
}

// itemOf is a model of the library as an item.
func itemOf(m library.Model) Item {
	item := Item{Name: m.ID, Source: m.Dir, Bytes: m.SizeBytes, Refused: m.Err}
	if len(m.Places) > 0 {
		item.Name = m.Places[0].ID // in a scan of many, an ID may have had to give way
	}
	if real, err := filepath.EvalSymlinks(m.Dir); err == nil {
		item.Source = real
	}
	return item
}

// refuseFile tells why a file cannot stand for the model that it is a part of; nil: it can.
func refuseFile(path string, info fs.FileInfo) error {
	name := filepath.Base(path)
	if !info.Mode().IsRegular() {
		return refusal(shown(name)+" is neither a file nor a folder", "",
			"Choose a model's folder.")
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".safetensors", ".json", ".jinja", ".model":
		return nil
	case ".gguf":
		return problem.New(problem.UnknownArchitecture, "This model is in GGUF format",
			"Headroom runs .safetensors",
			"Download the model in MLX's or Hugging Face's format: a folder of .safetensors files.")
	case ".bin", ".pt", ".pth", ".onnx", ".h5", ".ckpt", ".npz":
		return problem.New(problem.UnknownArchitecture,
			shown(name)+" holds weights in a format that Headroom does not run",
			"it runs .safetensors",
			"Download the model in MLX's or Hugging Face's format.")
	case ".zip", ".tar", ".gz", ".tgz", ".zst", ".xz", ".7z", ".rar":
		return refusal(shown(name)+" is an archive", "",
			"Unpack it, then import the folder that was in it.")
	}
	return refusal(shown(name)+" is no part of a model", "",
		"Choose the folder that holds config.json and the .safetensors files.")
}

// shown makes a path safe for one line of text: what a terminal or a log would obey is written out.
func shown(path string) string {
	quoted := fmt.Sprintf("%q", path)
	if plain := quoted[1 : len(quoted)-1]; plain == path {
		return path
	}
	return quoted
}
