// Package original recovers the original of a GGUF file: the folder in Hugging Face's layout that
// it was made of.
//
//	metadata --architectures.go, config.go, rope.go--> config.json
//	         --texts.go--> tokenizer.json, chat template, generation_config.json
//	tensors  --names.go--> tensors under the names of MLX's classes
//
// One architecture is one row of a table. A tensor that a row does not know is refused, and so is a
// known key whose value config.json cannot have: otherwise, the model would answer badly.
//
// Source: llama.cpp, convert_hf_to_gguf.py and src/llama-model.cpp; transformers' config classes.
package original

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"headroom/engine/gguf"
	"headroom/engine/problem"
)

// Model is an original. Its methods are safe for concurrent use.
type Model struct {
	File    *gguf.File
	Tensors []Tensor // sorted by name

	files map[string][]byte
}

// Tensor is a tensor of an original, made of rows of a tensor of the file.
type Tensor struct {
	Name  string
	Shape []int
	From  *gguf.Tensor
	// Add is added to each element.
	Add float32

	order   func(row int) int       // see Row; nil: the order of the file
	columns func(column int) int    // see Column; nil: the order of the file
	run     int                     // columns stay together in runs of this length
	value   func(x float32) float32 // what an element becomes; nil: it stays
}

// Row returns the row of the file that is row i of the original. The elements of a vector count as
// rows.
func (t *Tensor) Row(i int) int {
	if t.order == nil {
		return i
	}
	return t.order(i)
}

// Column returns the column of the file that is column i of the original.
func (t *Tensor) Column(i int) int {
	if t.columns == nil {
		return i
	}
	return t.columns(i)
}

// Permuted reports whether Row changes the order, or leaves out rows.
func (t *Tensor) Permuted() bool { return t.order != nil }

// Run returns the length of the runs in which Column moves columns; 0: it moves none.
func (t *Tensor) Run() int { return t.run }

// Changes reports whether Change changes elements.
func (t *Tensor) Changes() bool { return t.value != nil || t.Add != 0 }

// Change turns elements of the file into those of the original.
func (t *Tensor) Change(elements []float32) {
	for i, x := range elements {
		if t.value != nil {
			x = t.value(x)
		}
		elements[i] = x + t.Add
	}
}

// rows returns the number of rows of t; the elements of a vector count as rows.
func (t *Tensor) rows() int {
	if len(t.From.Shape) == 1 {
		return t.From.Cols()
	}
	return t.From.Rows()
}

// Open opens the model whose file is at path, or of which this is one of several files. The caller
// must close its File. Errors are Problems.
func Open(path string) (*Model, error) {
	file, err := gguf.Open(path)
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err, "This GGUF file cannot be read",
			"Download it again.")
	}
	m := &Model{File: file, files: map[string][]byte{}}
	if err := m.read(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return m, nil
}

// read sets the tensors and the files.
func (m *Model) read() error {
	row, name, err := m.architecture()
	if err != nil {
		return err
	}
	if err := m.checkTypes(); err != nil {
		return err
	}
	b := &builder{Model: m, row: row, prefix: name + ".", config: map[string]any{}}
	b.nameTensors()
	b.build()
	if b.err != nil {
		return b.err
	}
	slices.SortFunc(m.Tensors, func(x, y Tensor) int { return strings.Compare(x.Name, y.Name) })
	m.put("config.json", b.config)
	return m.readTexts(b)
}

// architecture returns the row of the file's architecture, and its name.
func (m *Model) architecture() (*architecture, string, error) {
	name := m.File.Metadata.Text("general.architecture")
	kind := m.File.Metadata.Text("general.type")
	switch {
	case kind == "adapter":
		return nil, "", refuse("This is an adapter, not a whole model",
			"general.type in the file is adapter", "Choose the file of the model.")
	case kind == "mmproj" || name == "clip":
		return nil, "", refuse("This is the part of a model that reads images, not a whole model",
			"general.architecture in the file is "+name, "Choose the file of the model.")
	}
	row, ok := architectures[name]
	if !ok {
		return nil, "", refuse(fmt.Sprintf("Headroom cannot convert GGUF files of the "+
			"architecture %.40q", name), "it converts "+strings.Join(Architectures(), ", "),
			"Download the model in MLX's or Hugging Face's format: a folder of .safetensors files.")
	}
	return row, name, nil
}

// checkTypes refuses types that cannot be read.
func (m *Model) checkTypes() error {
	refused, first := 0, ""
	var why gguf.Type
	for _, t := range m.File.Tensors {
		if !t.Type.Readable() {
			if refused++; refused == 1 {
				first, why = t.Name, t.Type
			}
		}
	}
	if refused == 0 {
		return nil
	}
	return refuse("GGUF files with the type "+why.String()+" cannot be converted",
		fmt.Sprintf("%s: %s; %d of %d tensors have such a type", first, why.Why(), refused,
			len(m.File.Tensors)),
		"Choose a file of the model with other types: "+
			strings.Join(gguf.ReadableNames(), ", ")+". Q4_K_M and Q8_0 have only these.")
}

// Architectures returns the names of the architectures that are known, sorted.
func Architectures() []string { return slices.Sorted(maps.Keys(architectures)) }

func refuse(message, why, fix string) error {
	return problem.New(problem.UnknownArchitecture, message, why, fix)
}

// ReadFile returns one of the files beside the weights. If there is none, the error wraps
// fs.ErrNotExist.
func (m *Model) ReadFile(name string) ([]byte, error) {
	data, ok := m.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return data, nil
}

// FileNames returns the names of these files, sorted.
func (m *Model) FileNames() []string { return slices.Sorted(maps.Keys(m.files)) }
