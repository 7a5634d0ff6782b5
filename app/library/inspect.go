package library

// The state of a model. Cheap checks come first: missing shards and unfinished downloads. Only a
// folder that seems complete is described by the engine, which reads the headers and checks the
// shards and their sizes. If the engine refuses it, refused finds out why, because a file that is
// still being copied looks broken until its end has arrived.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// State is the state of a model on disk.
type State string

// The states of a model. Only a ready model can be loaded.
const (
	Ready       State = "ready"
	Downloading State = "downloading"  // incomplete; Model.UpdatedAt shows whether it progresses
	Broken      State = "broken"       // its files are damaged
	NotLoadable State = "not_loadable" // the engine does not support its architecture or format
	Drafter     State = "drafter"      // no model, but what drafts tokens for one
)

// IsNoModel reports whether nothing would make the files of this state a model that can be loaded.
func (s State) IsNoModel() bool { return s == NotLoadable || s == Drafter }

// Download is the progress of an incomplete model.
type Download struct {
	DoneBytes  int64    // present so far, unfinished files included
	TotalBytes int64    // 0: not known
	Missing    []string // shards, from the index or from the names of other shards
	Parts      []string // unfinished files
}

// inspect sets the state of the model in a folder, and the fields that depend on it.
func (s *scanner) inspect(m *Model, f folder) {
	if f.foreign != nil {
		m.State, m.Err, m.SizeBytes, m.UpdatedAt = NotLoadable, f.foreign.problem(),
			f.foreign.sizeBytes, f.foreign.changed
		m.GGUF = f.foreign.format == formatGGUF && f.foreign.missing == ""
		return
	}
	weights := f.at.matching(isWeights)
	for _, file := range f.at.files {
		if file.changed.After(m.UpdatedAt) {
			m.UpdatedAt = file.changed
		}
	}
	for _, file := range f.parts {
		if file.changed.After(m.UpdatedAt) {
			m.UpdatedAt = file.changed
		}
	}
	for _, file := range weights {
		m.SizeBytes += file.size
	}
	if len(weights) == 0 { // those of another format
		for _, file := range f.at.matching(modelfile.IsForeign) {
			if !modelfile.IsWhole(file.name) {
				m.SizeBytes += file.size
			}
		}
	}
	index := parseFile(f.at, indexName, modelfile.LimitOf(indexName).Bytes, parseIndex)
	d := Download{DoneBytes: m.SizeBytes, TotalBytes: index.totalBytes,
		Missing: missingShards(f.at, index)}
	unfinished := f.at.matching(func(name string) bool { return f.at.awaits(name) })
	for _, part := range slices.Concat(unfinished, f.parts) {
		d.Parts = append(d.Parts, part.name)
		if !strings.HasSuffix(part.name, aria2Suffix) { // its bytes are in the real file
			d.DoneBytes += max(part.size, 0)
		}
	}
	if len(d.Missing) > 0 || len(unfinished) > 0 ||
		len(f.parts) > 0 && !f.at.hasFile(configName) {
		m.incomplete(d)
		return
	}
	m.Description, m.Err = s.describer.folder(f, s.options(m.ID), s)
	if m.Err == nil {
		m.State = Ready
		if m.Description.SizeBytes > m.SizeBytes {
			m.SizeBytes = m.Description.SizeBytes
		}
		return
	}
	m.refused(d, f, weights)
}

// refused sets the state of a model that the engine cannot describe; m.Err has the reason.
func (m *Model) refused(d Download, f folder, weights []file) {
	if len(f.parts) > 0 {
		m.incomplete(d)
		return
	}
	if problem.From(m.Err).Code == problem.UnknownArchitecture {
		m.State = NotLoadable
		m.GGUF = len(weights) == 0 && len(f.at.matching(isGGUF)) > 0
		if engine.IsDrafter(m.Source) {
			m.State = Drafter
		}
		return
	}
	if !f.at.hasFile(configName) {
		m.State = Broken
		m.Err = problem.New(problem.ModelBroken, "The model is incomplete",
			"config.json is missing", "Finish the download, or download the model again.")
		return
	}
	short := Download{}
	for _, file := range weights {
		want, pointer := f.at.expectedBytes(file)
		if pointer {
			m.State, m.Err = Broken,
				problem.New(problem.ModelBroken, "The weights are missing",
					file.name+" is only a Git LFS pointer",
					"Run git lfs pull in the folder, or download the model again.")
			return
		}
		if want > file.size {
			short.Parts = append(short.Parts, file.name)
		}
		short.DoneBytes += file.size
		short.TotalBytes += max(want, file.size)
	}
	if len(short.Parts) > 0 {
		why := m.Err // the engine's error has the sizes
		m.incomplete(short)
		m.Err = why
		return
	}
	m.State = Broken
}

// incomplete sets the state Downloading.
func (m *Model) incomplete(d Download) {
	if d.TotalBytes > 0 {
		d.TotalBytes = max(d.TotalBytes, d.DoneBytes)
	}
	m.State, m.Download, m.Description = Downloading, &d, engine.Description{}
	var why []string
	if n := len(d.Missing); n > 0 {
		why = append(why, fmt.Sprintf("%d %s missing (%s)", n, plural(n, "file is", "files are"),
			few(d.Missing)))
	}
	if n := len(d.Parts); n > 0 {
		why = append(why, fmt.Sprintf("%d %s incomplete", n, plural(n, "file is", "files are")))
	}
	m.Err = problem.New(problem.ModelBroken, "The model is not complete yet",
		strings.Join(why, ", "),
		"Wait for the download, or resume it in the program that started it.")
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// few joins names, at most three of them.
func few(names []string) string {
	const most = 3
	if rest := len(names) - most; rest > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), rest)
	}
	return strings.Join(names, ", ")
}

// awaits reports whether name is an unfinished file of the model and the complete file is missing.
// The complete file beside aria2's control file does not count: aria2 allocates it at the start.
func (l *listing) awaits(name string) bool {
	whole := partOf(name)
	return whole != "" && belongsToModel(whole) &&
		(!l.hasFile(whole) || strings.HasSuffix(name, aria2Suffix))
}

// index is the content of model.safetensors.index.json.
type index struct {
	shards     []string // sorted; nil without an index
	totalBytes int64    // of all tensors; 0: not known
}

// parseIndex parses the index. It returns an empty one on an error, which the engine reports later.
func parseIndex(text []byte) index {
	var document struct {
		Metadata struct {
			TotalSize float64 `json:"total_size"` // some writers write 1.5e+10
		} `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	if modelfile.LimitOf(indexName).Check(text) != nil ||
		json.Unmarshal(modelfile.Standard(text), &document) != nil {
		return index{}
	}
	var x index
	seen := map[string]bool{}
	for _, shard := range document.WeightMap {
		if shard == "" || strings.ContainsAny(shard, "/\\\x00") || seen[shard] {
			continue
		}
		seen[shard] = true
		x.shards = append(x.shards, shard)
	}
	slices.Sort(x.shards)
	if size := document.Metadata.TotalSize; size > 0 && size < math.MaxInt64/2 {
		x.totalBytes = int64(size)
	}
	return x
}

// missingShards returns the shards that are missing. The index names all shards. Without an index,
// the name of any shard implies the names of the others.
func missingShards(l *listing, x index) []string {
	return once(l, "missing", func() []string { return l.lacks(x) })
}

func (l *listing) lacks(x index) []string {
	expected := x.shards
	if expected == nil {
		sets := map[string]bool{}
		for _, f := range l.matching(isWeights) {
			if m := shardName.FindStringSubmatch(f.name); m != nil && !sets[m[1]+m[3]] {
				sets[m[1]+m[3]] = true
				expected = append(expected, siblings(f.name)...)
			}
		}
		slices.Sort(expected)
	}
	return slices.DeleteFunc(slices.Clone(expected), l.hasFile)
}

// expectedBytes returns the length of a weights file according to its header, 0 if unknown, and
// whether the file is a Git LFS pointer. The result is cached with the listing.
func (l *listing) expectedBytes(f file) (bytes int64, pointer bool) {
	type answer struct {
		bytes   int64
		pointer bool
	}
	a := once(l, "length of "+f.name, func() answer {
		bytes, pointer := readExpectedBytes(f.real, &l.headerBytes)
		return answer{bytes, pointer}
	})
	return a.bytes, a.pointer
}

// maxHeaderBytes bounds the headers that are read of a folder: a hostile one may have hundreds of
// large ones. All headers of DeepSeek-V3, with 163 files, have 11 MB.
const maxHeaderBytes = 32 << 20

// readExpectedBytes reads the header of the weights file at path. If the header is incomplete, it
// returns the length up to the header's end. It adds what it reads to read; beyond maxHeaderBytes
// the length is unknown.
func readExpectedBytes(path string, read *int64) (bytes int64, pointer bool) {
	const lengthBytes = 8
	file, info, err := modelfile.Open(path)
	if err != nil {
		return 0, false
	}
	defer file.Close()
	var length [lengthBytes]byte
	if n, _ := file.ReadAt(length[:], 0); n < lengthBytes {
		return lengthBytes, false
	}
	if string(length[:]) == "version " {
		return 0, true
	}
	n := binary.LittleEndian.Uint64(length[:])
	switch {
	case n > uint64(modelfile.SafetensorsHeader.Bytes):
		return 0, false
	case int64(n) > info.Size()-lengthBytes:
		// The tensors follow, but the rest of the header, with their sizes, is missing.
		return lengthBytes + int64(n), false
	}
	if *read += int64(n); *read > maxHeaderBytes {
		return 0, false
	}
	header := make([]byte, n)
	if _, err := file.ReadAt(header, lengthBytes); err != nil {
		return 0, false
	}
	end, ok := headerEnd(header)
	if !ok {
		return 0, false
	}
	return lengthBytes + int64(n) + end, false
}

// headerEnd returns the end of the last tensor, in bytes after the header.
func headerEnd(header []byte) (int64, bool) {
	var tensors map[string]json.RawMessage
	if modelfile.SafetensorsHeader.Check(header) != nil || json.Unmarshal(header, &tensors) != nil {
		return 0, false
	}
	end := int64(0)
	for name, text := range tensors {
		var t struct {
			Offsets []int64 `json:"data_offsets"`
		}
		if name == "__metadata__" {
			continue
		}
		if json.Unmarshal(text, &t) != nil || len(t.Offsets) != 2 || t.Offsets[1] < 0 ||
			t.Offsets[1] > math.MaxInt64/2 {
			return 0, false
		}
		end = max(end, t.Offsets[1])
	}
	return end, true
}

// changed returns the time of the folder's last change; zero if it is gone.
func (l *listing) changed() time.Time {
	if l.info == nil {
		return time.Time{}
	}
	return l.info.ModTime()
}
