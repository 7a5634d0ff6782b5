package library

// Finding models in a root. A scan goes from folder to folder, up to MaxDepth levels deep, and does
// not enter the folders of models. Incomplete models are found too, so that the list can show what
// is missing.

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"headroom/engine/modelfile"
)

// folder is a folder, or file, that looks like a model.
type folder struct {
	id      string // from its path: "org/name" or the folder's name
	name    string // unique ID in the list
	dir     string // absolute
	origin  Origin
	at      *listing // of dir; nil for a single file, which is always foreign
	parts   []file   // unfinished downloads outside dir
	foreign *foreign // nil if the engine can run the format
}

// real returns the real path, which identifies the folder.
func (f folder) real() string {
	if f.at == nil {
		return f.dir
	}
	return f.at.real
}

// MaxDepth is how many levels below a root a scan looks for models. It finds llm/mlx/org/name in
// the folder above llm, and Hugging Face's cache in the folder above hub.
const MaxDepth = 4

// scanRoot finds the models in a root. It knows four layouts, which a root may mix on any level:
//
//	root/[[publisher/]name/]config.json                    plain folders; LM Studio, oMLX
//	root/models--org--name/snapshots/<commit>/config.json  Hugging Face's hub cache
//	root/name.gguf                                         loose files
//	root/manifests/<registry>/<namespace>/<name>/<tag>     Ollama, with root/blobs
//
// Folders near the root come first, because the number of folders is limited.
func (f *folders) scanRoot(root string) []folder {
	f.left, f.full = maxFolders, false
	var found []folder
	level := []place{{id: filepath.Base(root), at: f.at(root)}}
	for depth := 0; len(level) > 0; depth++ {
		var next []place
		for _, p := range level {
			models, enter := f.visit(p, depth == 0)
			found = append(found, models...)
			if enter == nothing || depth == MaxDepth {
				continue
			}
			for _, name := range p.at.dirs {
				if isOtherRepository(name) {
					continue
				}
				id := name
				if depth > 0 {
					id = filepath.Base(p.id) + "/" + name
				}
				next = append(next, place{id, f.sub(p.at, name), max(enter, p.only)})
			}
		}
		level = next
	}
	if f.full {
		f.notes = append(f.notes, fmt.Sprintf("%s has more than %d folders. Models in the others "+
			"are not found: name the folder that contains them.", root, maxFolders))
	}
	slices.SortStableFunc(found, func(a, b folder) int { return cmp.Compare(a.id, b.id) })
	return found
}

// place is a folder that a scan visits.
type place struct {
	id   string // of the model that the folder would be: "publisher/name" or "name"
	at   *listing
	only scope // what counts as a model there
}

// scope says which folders below another folder are models of their own.
type scope int

const (
	anything scope = iota
	// wholeModels are folders with config.json and weights, or with GGUF files. Others are parts of
	// the model above, such as its ONNX files.
	wholeModels
	nothing
)

// visit returns the models of one folder, and what to look for in its subfolders. A folder with a
// stray file of a model, such as one loose .safetensors or config.json, is listed with the reason
// why it is none, and does not hide the models below it. The folder of a training is not listed
// before it has an adapter.
func (f *folders) visit(p place, isRoot bool) ([]folder, scope) {
	l := p.at
	if !isRoot && isTraining(l) {
		return nil, nothing
	}
	if id, ok := hubID(filepath.Base(l.path)); ok {
		if one, ok := f.hub(id, l); ok {
			return []folder{one}, nothing
		}
		return nil, nothing
	}
	if l.hasDir("manifests") && l.hasDir("blobs") {
		return f.ollama(l), nothing
	}
	var found []folder
	one, ok := f.folder(p.id, l)
	switch {
	case isRoot && ok && one.foreign != nil:
		found = looseGGUF(l)
	case isRoot && ok && !looksLikeModel(l):
		// A folder of models is none because of a .bin file, or of a folder called onnx.
	case ok && (p.only == anything || one.foreign != nil || isWhole(l)):
		found = []folder{one}
		if isRoot {
			found = append(found, looseGGUF(l)...)
		}
	}
	switch {
	case isWhole(l) || l.hasFile(pipelineName):
		return found, nothing
	case ok && (hasDescription(l) || !isRoot && (one.foreign != nil || isForeignModel(l))):
		return found, wholeModels
	}
	return found, anything
}

// isWhole reports whether a folder has config.json and a language model's weights, or the beginning
// of a download of them. Its subfolders are parts of the model.
func isWhole(l *listing) bool {
	return l.hasFile(configName) && slices.ContainsFunc(l.files, func(f file) bool {
		return f.name == indexName || modelfile.IsModelWeights(f.name) || isWeights(partOf(f.name))
	})
}

// hasDescription reports whether a folder has a file that describes one model.
func hasDescription(l *listing) bool {
	return slices.ContainsFunc(l.files, func(f file) bool {
		return f.name == configName || modelfile.IsWhole(f.name)
	})
}

// isOtherRepository reports whether name is a folder of Hugging Face's cache that has no model.
func isOtherRepository(name string) bool {
	return strings.HasPrefix(name, "datasets--") || strings.HasPrefix(name, "spaces--")
}

// folderAt returns the model at dir: a model's folder, a snapshot of the hub cache, or a repository
// of the hub cache.
func (f *folders) folderAt(dir string) (folder, bool) {
	f.left = maxFolders
	l := f.at(dir)
	if id, ok := hubID(filepath.Base(dir)); ok {
		if one, ok := f.hub(id, l); ok {
			return one, true
		}
	}
	if !looksLikeModel(l) {
		return f.folder(filepath.Base(dir), l)
	}
	if snapshots := filepath.Dir(dir); filepath.Base(snapshots) == "snapshots" {
		if id, ok := hubID(filepath.Base(filepath.Dir(snapshots))); ok {
			return folder{id: id, dir: dir, at: l,
				parts: f.blobParts(f.at(filepath.Dir(snapshots)))}, true
		}
	}
	return f.plain(filepath.Base(dir), l), true
}

// plain returns a folder that contains a model. Hugging Face's tools, when they download into a
// folder, keep unfinished files in a hidden folder inside it.
func (f *folders) plain(id string, l *listing) folder {
	one := folder{id: id, dir: l.path, at: l}
	cache := f.sub(l, ".cache")
	if hub := "huggingface"; cache.hasDir(hub) {
		if in := f.sub(cache, hub); in.hasDir("download") {
			one.parts = f.sub(in, "download").matching(isPart)
		}
	}
	return one
}

// folder returns the model in a folder, of whatever kind.
func (f *folders) folder(id string, l *listing) (folder, bool) {
	if looksLikeModel(l) {
		return f.plain(id, l), true
	}
	if one, ok := ggufFolder(id, l); ok {
		return one, true
	}
	if isForeignModel(l) {
		return f.plain(id, l), true
	}
	return folder{}, false
}

// looksLikeModel reports whether a folder has a config.json, weights, or unfinished weights, or is
// a model that its subfolders are parts of.
func looksLikeModel(l *listing) bool {
	return slices.ContainsFunc(l.files, func(f file) bool {
		return f.name == configName || isWeights(f.name) || isWeights(partOf(f.name)) ||
			modelfile.IsWhole(f.name)
	})
}

// isForeignModel reports whether a folder has weights in a format that the engine does not run. The
// engine says which.
func isForeignModel(l *listing) bool {
	return slices.ContainsFunc(l.files, func(f file) bool { return modelfile.IsForeign(f.name) }) ||
		slices.ContainsFunc(l.dirs, modelfile.IsForeign)
}

// hubID returns "org/name" for "models--org--name". For other names it returns false.
func hubID(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "models--")
	if !ok || rest == "" {
		return "", false
	}
	return strings.Replace(rest, "--", "/", 1), true
}

// hub returns the model in models--org--name. Its snapshot is the commit of refs/main, or else the
// one that changed last. A download without a usable snapshot is returned too.
func (f *folders) hub(id string, dir *listing) (folder, bool) {
	parts := f.blobParts(dir)
	var newest *listing
	if dir.hasDir("snapshots") {
		snapshots := f.sub(dir, "snapshots")
		all := make([]*listing, len(snapshots.dirs))
		for i, name := range snapshots.dirs {
			all[i] = f.sub(snapshots, name)
		}
		main := f.mainCommit(dir)
		slices.SortStableFunc(all, func(a, b *listing) int {
			if isMain := filepath.Base(a.path) == main; isMain != (filepath.Base(b.path) == main) {
				if isMain {
					return -1
				}
				return 1
			}
			return b.changed().Compare(a.changed())
		})
		for _, s := range all {
			if looksLikeModel(s) {
				return folder{id: id, dir: s.path, at: s, parts: parts}, true
			}
		}
		for _, s := range all {
			if one, ok := f.folder(id, s); ok {
				return one, true
			}
		}
		if len(all) > 0 {
			newest = all[0]
		}
	}
	if len(parts) == 0 {
		return folder{}, false // not a model: a tokenizer, a dataset
	}
	if newest == nil {
		newest = dir
	}
	return folder{id: id, dir: dir.path, at: newest, parts: parts}, true
}

// mainCommit returns the commit of refs/main; "" if there is none.
func (f *folders) mainCommit(dir *listing) string {
	const maxBytes = 1 << 10
	if !dir.hasDir("refs") {
		return ""
	}
	return parseFile(f.sub(dir, "refs"), "main", maxBytes,
		func(text []byte) string { return strings.TrimSpace(string(text)) })
}

// blobParts returns the unfinished blobs.
func (f *folders) blobParts(dir *listing) []file {
	if !dir.hasDir("blobs") {
		return nil
	}
	return f.sub(dir, "blobs").matching(isPart)
}
