package base

import (
	"fmt"
	"io/fs"
	"sync"

	"headroom/metal"
	"headroom/metal/msl"
)

// Library keeps the pipelines of one source, and is embedded in the library type of each device. P
// is the device's pipeline type, a pointer. Several goroutines may call a Library's methods.
type Library[P metal.Pipeline] struct {
	name    string
	program *msl.Program
	create  func(Function) (P, error)

	mu        sync.Mutex
	pipelines map[string]P
}

// ReadSource inlines the includes of a source and parses it. It returns the text to compile.
func ReadSource(name, source string, headers fs.FS) (text string, program *msl.Program, err error) {
	if text, err = msl.Inline(headers, name, source); err != nil {
		return "", nil, err
	}
	program, err = msl.Parse(name, text)
	return text, program, err
}

// NewLibrary returns a Library of program. create makes a pipeline. It is called once for each
// kernel and set of function constants, by one goroutine at a time. Errors begin with name.
func NewLibrary[P metal.Pipeline](name string, program *msl.Program,
	create func(Function) (P, error)) *Library[P] {
	return &Library[P]{name: name, program: program, create: create, pipelines: map[string]P{}}
}

// Program implements metal.Library.
func (l *Library[P]) Program() *msl.Program { return l.program }

// Pipeline implements metal.Library.
func (l *Library[P]) Pipeline(
	kernel string, constants ...metal.ConstantValue,
) (metal.Pipeline, error) {
	k := l.program.Kernel(kernel)
	if k == nil {
		return nil, fmt.Errorf("%s has no kernel %s; it has %s", l.name, kernel,
			l.program.KernelNames())
	}
	bits, err := constantBits(l.program, constants)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", l.name, kernel, err)
	}
	key := fmt.Sprint(kernel, bits)
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := l.pipelines[key]; ok {
		return p, nil
	}
	p, err := l.create(Function{kernel: k, program: l.program, constants: bits})
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", l.name, kernel, err)
	}
	l.pipelines[key] = p
	return p, nil
}
