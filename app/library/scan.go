package library

// Where models lie on disk. Folders are looked at two levels deep, without opening the models in them; a folder that is
// incomplete is found too, so that the list can say what is missing.

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// folder is a place that looks like a model.
type folder struct {
	id  string
	dir string // absolute
}

// mostEntries bounds how much of one folder is looked at: a root that somebody points at a home folder must not stall.
const mostEntries = 2000

// scanRoot finds models in a root folder. It knows three layouts, mixed as they come:
//
//	root/config.json, root/name/config.json, root/publisher/name/config.json   plain folders; LM Studio, oMLX
//	root/models--org--name/snapshots/<commit>/config.json                      Hugging Face's hub cache
func scanRoot(root string) []folder {
	if looksLikeModel(root) {
		return []folder{{filepath.Base(root), root}}
	}
	var found []folder
	for _, name := range subfolders(root) {
		dir := filepath.Join(root, name)
		if f, ok := hubFolder(dir); ok {
			found = append(found, f)
			continue
		}
		if looksLikeModel(dir) {
			found = append(found, folder{name, dir})
			continue
		}
		for _, inner := range subfolders(dir) {
			if d := filepath.Join(dir, inner); looksLikeModel(d) {
				found = append(found, folder{name + "/" + inner, d})
			}
		}
	}
	return found
}

// folderAt recognises one folder that somebody named: a model, a model inside the hub cache, or the hub's folder around it.
func folderAt(dir string) (folder, bool) {
	if f, ok := hubFolder(dir); ok {
		return f, true
	}
	if !looksLikeModel(dir) {
		return folder{}, false
	}
	if snapshots := filepath.Dir(dir); filepath.Base(snapshots) == "snapshots" {
		if id, ok := hubID(filepath.Base(filepath.Dir(snapshots))); ok {
			return folder{id, dir}, true
		}
	}
	return folder{filepath.Base(dir), dir}, true
}

// looksLikeModel tells a model's folder, complete or not: it has a config.json or weights.
func looksLikeModel(dir string) bool {
	if isFile(filepath.Join(dir, "config.json")) {
		return true
	}
	weights, _ := filepath.Glob(filepath.Join(globQuoted(dir), "*.safetensors"))
	return len(weights) > 0
}

// globQuoted makes a path match only itself.
func globQuoted(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// hubID reads "models--org--name" as "org/name".
func hubID(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "models--")
	if !ok || rest == "" {
		return "", false
	}
	return strings.Replace(rest, "--", "/", 1), true
}

// hubFolder recognises models--org--name and picks its snapshot: the commit that refs/main names, else the one that changed
// last. A download in progress has no usable snapshot yet; it is listed all the same, for its error.
func hubFolder(dir string) (folder, bool) {
	id, ok := hubID(filepath.Base(dir))
	if !ok {
		return folder{}, false
	}
	snapshots := filepath.Join(dir, "snapshots")
	if commit, err := os.ReadFile(filepath.Join(dir, "refs", "main")); err == nil {
		name := strings.TrimSpace(string(commit))
		if d := filepath.Join(snapshots, name); filepath.IsLocal(name) && looksLikeModel(d) {
			return folder{id, d}, true
		}
	}
	names := subfolders(snapshots)
	slices.SortFunc(names, func(a, b string) int {
		return changed(filepath.Join(snapshots, b)).Compare(changed(filepath.Join(snapshots, a)))
	})
	for _, name := range names {
		if d := filepath.Join(snapshots, name); looksLikeModel(d) {
			return folder{id, d}, true
		}
	}
	if unfinished, _ := filepath.Glob(filepath.Join(globQuoted(dir), "blobs", "*.incomplete")); len(unfinished) > 0 {
		return folder{id, dir}, true
	}
	return folder{}, false // a repository of something else: a tokenizer, a data set
}

// subfolders lists the folders in dir, links to folders included, hidden ones not.
func subfolders(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(mostEntries)
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool {
		if strings.HasPrefix(name, ".") {
			return true
		}
		info, err := os.Stat(filepath.Join(dir, name))
		return err != nil || !info.IsDir()
	})
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
