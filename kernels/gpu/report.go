package gpu

// What a device has done so far, for `headroom selftest` and bug reports: sources compiled,
// pipelines made and how far dispatches went towards their limits, and memory that had to be
// copied.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/metal"
)

// SourceReport is a source that was compiled.
type SourceReport struct {
	Name    string
	Compile time.Duration
	Log     string // what the compiler said, "" if nothing
}

// PipelineReport is a pipeline that was made, with the most that a dispatch asked of it.
type PipelineReport struct {
	Source, Kernel   string
	Constants        string // the values of its function constants, as "aligned=true type=2"
	Facts            metal.PipelineFacts
	Threads          int // of the largest threadgroup dispatched
	ThreadgroupBytes int // of [[threadgroup(0)]], the most that was set
}

// Sources are the sources compiled so far, by name.
func (d *Device) Sources() []SourceReport {
	var all []SourceReport
	for s, library := range d.context.libraries {
		all = append(all, SourceReport{Name: s.Name, Compile: d.context.compiling[s],
			Log: library.Log()})
	}
	slices.SortFunc(all, func(a, b SourceReport) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Pipelines are the pipelines made so far, by source and kernel.
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

// Copied is how much of what WrapBuffer was given had to be copied, as Metal would not have it
// where it lies, and Metal's first reason; nil if nothing was copied.
func (d *Device) Copied() (bytes int64, reason error) { return d.copied, d.copyReason }
