package commands

// What can run here: every model found, with what it needs next to what the machine has left, then
// what is still on its way, damaged, or of a kind that does not run here. Reads headers only;
// nothing is loaded.

import (
	"fmt"
	"text/tabwriter"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine/problem"
)

// Models is `headroom models`: what is here (this file), and what brings more (import.go,
// download.go).
type Models struct {
	List     ModelsList     `cmd:"" default:"withargs" help:"What is on this machine, and whether it fits; what models alone means."`
	Import   ModelsImport   `cmd:"" help:"Bring models into Headroom's folder, by a copy, a move or a link."`
	Search   ModelsSearch   `cmd:"" help:"Look for models on the Hugging Face hub."`
	Download ModelsDownload `cmd:"" help:"Download a model from the Hugging Face hub, or go on with one."`
	Token    ModelsToken    `cmd:"" help:"Keep the hub's token, which private and gated models need; read from the input."`
}

// ModelsList is `headroom models list`, and `headroom models` with flags of its own.
type ModelsList struct {
	ModelFlags
}

// Run prints the table.
func (c *ModelsList) Run(t *terminal) error {
	meter := &memory.Meter{}
	reading, err := meter.Read()
	if err != nil {
		return problem.Wrap(problem.Internal, err, "The memory cannot be measured", "")
	}
	l := c.library(openSettings())
	models := l.Scan()
	room := reading.HeadroomBytes(memory.EngineBytes{})
	fmt.Fprintf(t.out, "%s of %s memory can go to a model.\n\n", gigabytes(room),
		gigabytes(reading.TotalBytes))
	table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tARCHITECTURE\tQUANTIZATION\tSIZE\tNEEDS\tFITS")
	for _, m := range models {
		if m.Err == nil {
			d := m.Description
			need := d.Need.TotalBytes()
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", m.ID, d.Architecture, d.Quantization,
				gigabytes(d.SizeBytes), gigabytes(need), memory.Fits(need, room))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	printUnusable(t, models, library.Downloading, "Not complete yet")
	printUnusable(t, models, library.Broken, "Damaged")
	printUnusable(t, models, library.NotLoadable, "Not of a kind that runs here")
	printCopies(t, models)
	if len(models) == 1 {
		fmt.Fprintln(t.out,
			"\nNothing but the bundled model. Headroom looks in these folders; --models-dir or "+
				"HEADROOM_MODELS add more:")
		for _, root := range l.Roots() {
			fmt.Fprintln(t.out, "  "+root)
		}
	}
	return nil
}

// printUnusable says why those of a state cannot be used, after the table: reasons are long.
func printUnusable(t *terminal, models []library.Model, state library.State, heading string) {
	heading = "\n" + heading + ":\n"
	for _, m := range models {
		if m.State == state {
			fmt.Fprintf(t.out, "%s  %s%s: %v\n", heading, m.ID, progress(m.Download), m.Err)
			heading = ""
		}
	}
}

// progress words how far a download is.
func progress(d *library.Download) string {
	switch {
	case d == nil || d.DoneBytes == 0 && d.TotalBytes == 0:
		return ""
	case d.TotalBytes == 0:
		return fmt.Sprintf(" (%s so far)", gigabytes(d.DoneBytes))
	}
	return fmt.Sprintf(" (%s of %s)", gigabytes(d.DoneBytes), gigabytes(d.TotalBytes))
}

// printCopies names the models that lie in several places: one of them would do.
func printCopies(t *terminal, models []library.Model) {
	heading := "\nIn several places:\n"
	for _, m := range models {
		if len(m.Places) > 1 {
			fmt.Fprintf(t.out, "%s  %s, %s each\n", heading, m.ID, gigabytes(m.SizeBytes))
			heading = ""
			for _, p := range m.Places {
				fmt.Fprintf(t.out, "    %s\n", p.Dir)
			}
		}
	}
}

// gigabytes words a size as the system's own monitor does: GB of 2^30 bytes, with decimals that
// still say something.
func gigabytes(bytes int64) string {
	gb := float64(bytes) / (1 << 30)
	if gb < 0.1 {
		return fmt.Sprintf("%.3f GB", gb)
	}
	return fmt.Sprintf("%.1f GB", gb)
}
