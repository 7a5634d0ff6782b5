package selftest

// The report as text: the device, the failures, the notes and the figures. For a bug report, every
// source, pipeline and check is added.

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"headroom/kernels/gpu"
	"headroom/metal/probe"
)

// Write writes the report to out. If all is true, it includes every source, pipeline and check.
func (r *Report) Write(out io.Writer, all bool) error {
	w := &printer{out: out}
	form := map[bool]string{true: "short form", false: "full form"}[r.Short]
	if len(r.Checks) == 0 {
		form = "without checks"
	}
	w.line("Headroom %s self-test, %s, %s", r.Version, form,
		r.Began.UTC().Format("2006-01-02 15:04 UTC"))
	w.line("%s; %s", r.System, cmp.Or(r.Facts.System, "unknown system"))
	r.device(w)
	if len(r.Checks) > 0 {
		r.verdict(w)
		r.notes(w)
		r.figures(w)
	}
	r.writeFigures(w)
	r.writeTuned(w)
	if all && len(r.Checks) > 0 {
		r.details(w)
	}
	return w.err
}

// printer writes lines and keeps the first error.
type printer struct {
	out io.Writer
	err error
}

func (w *printer) line(format string, arguments ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, format+"\n", arguments...)
	}
}

// table prints rows of tab-separated cells in aligned columns.
func (w *printer) table(rows []string) {
	t := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, row)
	}
	if err := t.Flush(); w.err == nil {
		w.err = err
	}
}

func (r *Report) device(w *printer) {
	f := r.Facts
	w.line("GPU: %s; families %s; unified memory %t", f.Name, strings.Join(f.Families, ", "),
		f.UnifiedMemory)
	limit := "not limited"
	if f.RecommendedMaxWorkingSetSize > 0 {
		limit = gib(f.RecommendedMaxWorkingSetSize)
	}
	w.line("working set %s; largest buffer %s; threadgroup memory %d bytes; pages of %d bytes",
		limit, gib(f.MaxBufferLength), f.MaxThreadgroupMemoryLength, f.PageBytes)
}

func gib(bytes uint64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/(1<<30)) }

func (r *Report) verdict(w *printer) {
	failed := r.Failures()
	w.line("")
	if r.Passed() {
		w.line("PASSED: %d checks in %s", len(r.Checks), r.Took.Round(100*time.Millisecond))
	} else {
		w.line("FAILED: %d of %d checks in %s", len(failed), len(r.Checks),
			r.Took.Round(100*time.Millisecond))
	}
	for _, group := range []string{groupProbes, groupKernels, groupLimits, groupDemo} {
		passed, tried := 0, 0
		for _, c := range r.Checks {
			if c.Group == group {
				tried++
				if c.Err == nil {
					passed++
				}
			}
		}
		w.line("  %-20s %d of %d", group, passed, tried)
	}
	for _, c := range failed {
		w.line("FAILED %s, %s: %v", c.Group, c.Name, c.Err)
	}
}

// notes prints each note on passed checks once, with the names of its checks, and then the
// compiler's messages.
func (r *Report) notes(w *printer) {
	var order []string
	names := map[string][]string{}
	for _, c := range r.Checks {
		if c.Note != "" && c.Err == nil {
			if names[c.Note] == nil {
				order = append(order, c.Note)
			}
			names[c.Note] = append(names[c.Note], c.Name)
		}
	}
	for _, note := range order {
		w.line("note: %s: %s", shortList(names[note]), note)
	}
	for _, s := range r.Sources {
		if s.Log != "" {
			w.line("note: the compiler on %s: %s", s.Name, s.Log)
		}
	}
}

func shortList(names []string) string {
	const maxNames = 3
	if len(names) <= maxNames {
		return strings.Join(names, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(names[:maxNames], "; "), len(names)-maxNames)
}

func (r *Report) figures(w *printer) {
	var compile time.Duration
	for _, s := range r.Sources {
		compile += s.Compile
	}
	w.line("")
	w.line("compiling: %d sources, %d pipelines, %s", len(r.Sources), len(r.Pipelines),
		compile.Round(time.Millisecond))
	if t := r.Times; t.Encode > 0 {
		w.line("an empty dispatch: %s from recording to result, %s of it on the GPU", t.Empty,
			t.EmptyOnGPU)
		w.line("recording %d dispatches: %s; %s until they had run", probe.Dispatches, t.Encode,
			t.Run)
	}
	if n := r.Numbers; n.Sum != "" {
		w.line("arithmetic: a*b+c %s; denormal numbers %s; largest errors: exp %.2f ULP, "+
			"1/x %.2f, sqrt %.2f; simd_sum adds %s",
			map[bool]string{true: "contracted", false: "not contracted"}[n.Contracts],
			map[bool]string{true: "kept", false: "flushed"}[n.Denormals],
			n.Exp, n.Divide, n.Sqrt, n.Sum)
	}
	if len(r.Speeds) > 0 {
		rows := []string{"one row times a matrix\tMB\ttime\tGB/s"}
		for _, s := range r.Speeds {
			rows = append(rows, fmt.Sprintf("%s\t%.1f\t%s\t%.1f", s.Name, float64(s.Bytes)/1e6,
				s.Took.Round(time.Microsecond), s.GBPerSecond))
		}
		w.line("")
		w.table(rows)
	}
}

func (r *Report) details(w *printer) {
	rows := []string{"source\tcompiled in"}
	sources := slices.SortedFunc(slices.Values(r.Sources),
		func(a, b gpu.SourceReport) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range sources {
		rows = append(rows, fmt.Sprintf("%s\t%s", s.Name, s.Compile.Round(time.Microsecond)))
	}
	w.line("")
	w.table(rows)
	rows = []string{"kernel\tsource\tconstants\tsimdgroup\tthreads used\tallowed\t" +
		"threadgroup bytes: static\tdynamic"}
	for _, p := range r.Pipelines {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d", p.Kernel, p.Source,
			p.Constants, p.Facts.ThreadExecutionWidth, p.Threads,
			p.Facts.MaxTotalThreadsPerThreadgroup, p.Facts.StaticThreadgroupMemoryLength,
			p.ThreadgroupBytes))
	}
	w.line("")
	w.table(rows)
	w.line("")
	for _, c := range r.Checks {
		word := "passed"
		if c.Err != nil {
			word = "FAILED"
		}
		w.line("%s %s, %s%s", word, c.Group, c.Name,
			map[bool]string{true: "", false: ": " + c.Note}[c.Note == "" || c.Err != nil])
	}
}
