package library

// Models that are not folders of safetensors: GGUF files and Ollama's store. They are listed with
// the reason. Of all other folders that the engine cannot run, the engine says what they are.

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// foreign is a model in a format that the engine cannot run.
type foreign struct {
	format    string // as shown to users: "GGUF"
	sizeBytes int64  // 0: not known
	changed   time.Time
	missing   string // what is not downloaded yet, for Problem.Why; "": nothing
}

// problem returns why the model cannot be loaded.
func (f *foreign) problem() *problem.Problem { return modelfile.Format(f.format, f.missing) }

const (
	formatGGUF    = "GGUF"
	formatOllama  = "Ollama's"
	maxManifest   = 1 << 20
	ollamaLibrary = "library" // Ollama's default namespace, which its model names omit
)

// ggufFolder returns a folder of GGUF files as one model. The files may be variants, shards or
// both.
func ggufFolder(id string, l *listing) (folder, bool) {
	files := l.matching(func(name string) bool { return isGGUF(name) || isGGUF(partOf(name)) })
	if len(files) == 0 {
		return folder{}, false
	}
	return folder{id: id, dir: l.path, at: l, foreign: ofFiles(files)}, true
}

// looseGGUF returns the GGUF files directly in a root. The shards of a model are one entry.
func looseGGUF(l *listing) []folder {
	var found []folder
	var sets = map[string][]file{}
	var order []string
	for _, f := range l.matching(isGGUF) {
		set := strings.TrimSuffix(f.name, filepath.Ext(f.name))
		if m := shardName.FindStringSubmatch(f.name); m != nil {
			set = m[1]
		}
		if sets[set] == nil {
			order = append(order, set)
		}
		sets[set] = append(sets[set], f)
	}
	for _, set := range order {
		found = append(found, folder{id: set, dir: filepath.Join(l.path, sets[set][0].name),
			foreign: ofFiles(sets[set])})
	}
	return found
}

func ofFiles(files []file) *foreign {
	f := &foreign{format: formatGGUF}
	for _, one := range files {
		f.sizeBytes += max(one.size, 0)
		if one.changed.After(f.changed) {
			f.changed = one.changed
		}
		if isPart(one.name) {
			f.missing = one.name + " is still downloading"
		}
	}
	return f
}

// ollama returns the models of Ollama's manifests: <registry>/<namespace>/<name>/<tag>.
func (f *folders) ollama(root *listing) []folder {
	var found []folder
	blobs := f.sub(root, "blobs")
	manifests := f.sub(root, "manifests")
	for _, registry := range manifests.dirs {
		in := f.sub(manifests, registry)
		for _, space := range in.dirs {
			names := f.sub(in, space)
			for _, name := range names.dirs {
				tags := f.sub(names, name)
				for _, tag := range tags.files {
					id := name + ":" + tag.name
					if space != ollamaLibrary {
						id = space + "/" + id
					}
					m := parseFile(tags, tag.name, maxManifest, parseManifest)
					if len(m.digests) == 0 {
						continue
					}
					found = append(found, folder{id: id, dir: filepath.Join(tags.path, tag.name),
						foreign: m.among(blobs)})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b folder) int { return strings.Compare(a.id, b.id) })
	return found
}

// manifest is the part of an Ollama manifest that names its blobs.
type manifest struct {
	digests   []string // as "sha256:..."
	sizeBytes int64
}

// parseManifest parses an OCI manifest. If the text is not a manifest, the result has no digests.
func parseManifest(text []byte) manifest {
	var m manifest
	var document struct {
		Layers []struct {
			Digest string `json:"digest"`
			Size   int64  `json:"size"`
		} `json:"layers"`
	}
	if json.Unmarshal(text, &document) != nil {
		return m
	}
	for _, layer := range document.Layers {
		kind, hex, ok := strings.Cut(layer.Digest, ":")
		if !ok || kind == "" || hex == "" || layer.Size < 0 ||
			m.sizeBytes+layer.Size < m.sizeBytes {
			return manifest{}
		}
		m.digests = append(m.digests, layer.Digest)
		m.sizeBytes += layer.Size
	}
	return m
}

// among returns the manifest's model. It counts the blobs that are missing.
func (m manifest) among(blobs *listing) *foreign {
	f := &foreign{format: formatOllama, sizeBytes: m.sizeBytes}
	missing := 0
	for _, digest := range m.digests {
		if !blobs.hasFile(strings.Replace(digest, ":", "-", 1)) {
			missing++
		}
	}
	if missing > 0 {
		f.missing = fmt.Sprintf("%d of %d files missing", missing, len(m.digests))
	}
	return f
}
