package gpu

// Reports of a device for `headroom selftest` and bug reports: compiled sources, pipelines and the
// limits of their dispatches, and memory that had to be copied.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/metal"
)

// SourceReport describes a compiled source.
type SourceReport struct {
	Name    string
	Compile time.Duration
	Log     string // the compiler's warnings
}

// PipelineReport describes a pipeline and its largest dispatches.
type PipelineReport struct {
	Source, Kernel   string
	Constants        string // values of the function constants, such as "aligned=true type=2"
	Facts            metal.PipelineFacts
	Threads          int // largest threadgroup dispatched
	ThreadgroupBytes int // largest length of [[threadgroup(0)]]
}

// Sources returns the compiled sources, sorted by name.
func (d *Device) Sources() []SourceReport {
	var all []SourceReport
	for s, library := range d.context.libraries {
		all = append(all, SourceReport{Name: s.Name, Compile: d.context.compiling[s],
			Log: library.Log()})
	}
	slices.SortFunc(all, func(a, b SourceReport) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Pipelines returns the pipelines, sorted by source, kernel and function constants.
func (d *Device) Pipelines() []PipelineReport {
	var all []PipelineReport
	for k, r := range d.context.pipelines {
		var constants []string
		for _, c := range k.constants {
			constants = append(constants, fmt.Sprintf("%s=%v", c.Name, c.Value))
		}
		all = append(all, PipelineReport{Source: k.source.Name, Kernel: k.name,
			Constants: strings.Join(constants, " "),
			Facts:     r.pipeline.Facts(), Threads: r.threads,
			ThreadgroupBytes: r.threadgroupBytes})
	}
	slices.SortFunc(all, func(a, b PipelineReport) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Kernel, b.Kernel),
			cmp.Compare(a.Constants, b.Constants))
	})
	return all
}

// Copied returns how many bytes WrapBuffer had to copy because Metal refused to wrap them, and the
// first error. The error is nil if nothing was copied.
func (d *Device) Copied() (bytes int64, reason error) { return d.copied, d.copyReason }
