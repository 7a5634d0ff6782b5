package library

// Where models lie on disk. Folders are looked at two levels deep, without opening the models in
// them; a folder that is incomplete is found too, so that the list can say what is missing.

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// folder is a place that looks like a model.
type folder struct {
	id     string
	name   string // the ID that it has among all others
	dir    string // absolute
	origin Origin
	// at lists dir; nil where there is nothing to list, and foreign says what it is.
	at      *listing
	parts   []file   // of a download, that lie elsewhere than in dir
	foreign *foreign // what another program keeps in a form of its own
}

// real tells one place from another, by whatever path a scan came to it.
func (f folder) real() string {
	if f.at == nil {
		return f.dir
	}
	return f.at.real
}

// scanRoot finds models in a root folder. It knows four layouts, the first three mixed as they
// come:
//
//	root/config.json, root/name/config.json, root/publisher/name/config.json   plain folders; LM Studio, oMLX
//	root/models--org--name/snapshots/<commit>/config.json                      Hugging Face's hub cache
//	root/name.gguf                                                             loose files
//	root/manifests/<registry>/<namespace>/<name>/<tag>, root/blobs             Ollama
func (f *folders) scanRoot(root string) []folder {
	f.left = mostFolders
	l := f.at(root)
	if looksLikeModel(l) {
		return []folder{f.plain(filepath.Base(root), l)}
	}
	if l.hasDir("manifests") && l.hasDir("blobs") {
		return f.ollama(l)
	}
	found := looseGGUF(l)
	for _, name := range l.dirs {
		dir := f.sub(l, name)
		if id, ok := hubID(name); ok {
			if one, ok := f.hub(id, dir); ok {
				found = append(found, one)
			}
			continue
		}
		if looksLikeModel(dir) {
			found = append(found, f.plain(name, dir))
			continue
		}
		if one, ok := ggufFolder(name, dir); ok {
			found = append(found, one)
			continue
		}
		for _, inner := range dir.dirs {
			if in := f.sub(dir, inner); looksLikeModel(in) {
				found = append(found, f.plain(name+"/"+inner, in))
			} else if one, ok := ggufFolder(name+"/"+inner, in); ok {
				found = append(found, one)
			}
		}
	}
	slices.SortFunc(found, func(a, b folder) int { return cmp.Compare(a.id, b.id) })
	return found
}

// folderAt recognises one folder that somebody named: a model, a model inside the hub cache, or the
// hub's folder around it.
func (f *folders) folderAt(dir string) (folder, bool) {
	f.left = mostFolders
	l := f.at(dir)
	if id, ok := hubID(filepath.Base(dir)); ok {
		if one, ok := f.hub(id, l); ok {
			return one, true
		}
	}
	if !looksLikeModel(l) {
		return ggufFolder(filepath.Base(dir), l)
	}
	if snapshots := filepath.Dir(dir); filepath.Base(snapshots) == "snapshots" {
		if id, ok := hubID(filepath.Base(filepath.Dir(snapshots))); ok {
			return folder{id: id, dir: dir, at: l,
				parts: f.blobParts(f.at(filepath.Dir(snapshots)))}, true
		}
	}
	return f.plain(filepath.Base(dir), l), true
}

// plain is a folder that holds a model. Hugging Face's tools, told to download into a folder, keep
// what is on its way in a hidden folder of it.
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

// looksLikeModel tells a model's folder, complete or not: it has a config.json or weights, or a
// part of them.
func looksLikeModel(l *listing) bool {
	return slices.ContainsFunc(l.files, func(f file) bool {
		return f.name == configName || isWeights(f.name) || isWeights(partOf(f.name))
	})
}

// hubID reads "models--org--name" as "org/name".
func hubID(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "models--")
	if !ok || rest == "" {
		return "", false
	}
	return strings.Replace(rest, "--", "/", 1), true
}

// hub recognises models--org--name and picks its snapshot: the commit that refs/main names, else
// the one that changed last. A download in progress has no usable snapshot yet; it is listed all
// the same, for its error.
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
			if one, ok := ggufFolder(id, s); ok {
				return one, true
			}
		}
		if len(all) > 0 {
			newest = all[0]
		}
	}
	if len(parts) == 0 {
		return folder{}, false // a repository of something else: a tokenizer, a data set
	}
	if newest == nil {
		newest = dir
	}
	return folder{id: id, dir: dir.path, at: newest, parts: parts}, true
}

// mainCommit is what refs/main names; "" if nothing.
func (f *folders) mainCommit(dir *listing) string {
	const mostBytes = 1 << 10
	if !dir.hasDir("refs") {
		return ""
	}
	return remembered(f.sub(dir, "refs"), "main", mostBytes,
		func(text []byte) string { return strings.TrimSpace(string(text)) })
}

// blobParts are the blobs that are still on their way.
func (f *folders) blobParts(dir *listing) []file {
	if !dir.hasDir("blobs") {
		return nil
	}
	return f.sub(dir, "blobs").matching(isPart)
}
