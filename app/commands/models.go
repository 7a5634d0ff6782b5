package commands

// The models on this machine: each with the memory that it needs and the memory that is available,
// then the unfinished, the damaged and the unsupported ones. Only headers are read; no model is
// loaded.

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/service"
	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Models is `headroom models`: listing (this file), import, download and delete
// (import.go, download.go, delete.go).
type Models struct {
	List     ModelsList     `cmd:"" default:"withargs" help:"List the models on this machine and whether they fit (the default)."`
	Import   ModelsImport   `cmd:"" help:"Copy, move or link models into Headroom's folder."`
	Search   ModelsSearch   `cmd:"" help:"Search the Hugging Face Hub for models."`
	Download ModelsDownload `cmd:"" help:"Download a model from the Hugging Face Hub, or resume a download."`
	Delete   ModelsDelete   `cmd:"" help:"Move a model to the Trash."`
	Token    ModelsToken    `cmd:"" help:"Save a Hugging Face token, which private and gated models need. It is read from stdin."`
}

// Help returns the end of the help text.
func (c *Models) Help() string {
	return "Supported architectures (model_type in config.json): " +
		strings.Join(engine.Supported(), ", ") + "."
}

// ModelsList is `headroom models list`, and `headroom models` without a subcommand.
type ModelsList struct {
	ModelFlags
	JSON bool `name:"json" help:"Print the list as JSON."`
}

// tasks says what a model is for that generates no text.
var tasks = map[modelfile.Task]string{
	modelfile.Embed:  " (embeddings)",
	modelfile.Rerank: " (reranker)",
}

// Run prints the table.
func (c *ModelsList) Run(t *terminal) error {
	meter := &memory.Meter{}
	reading, err := meter.Read()
	if err != nil {
		return problem.Wrap(problem.Internal, err, "The available memory could not be measured", "")
	}
	file := service.OpenSettings()
	l := c.library(file)
	models := l.Scan()
	room := reading.HeadroomBytes(memory.EngineBytes{}, memory.EngineBytes{})
	if c.JSON {
		return printJSON(t.out, documentOf(models, reading, room))
	}
	fmt.Fprintf(t.out, "%s of %s of memory are available for a model.\n\n", memory.Text(room),
		memory.Text(reading.TotalBytes))
	table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tARCHITECTURE\tQUANTIZATION\tSIZE\tNEEDS\tFITS")
	for _, m := range models {
		if m.Err == nil {
			d := m.Description
			need := host.EstimateNeed(d, room)
			architecture := d.Architecture + tasks[d.Task]
			if d.Drafts {
				architecture += " (MTP)"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(m.ID), architecture,
				d.Quantization, formatBytes(d.SizeBytes), memory.Text(need),
				memory.Fits(need, room))
			printAdapters(table, m)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	printUnusable(t, models, library.Downloading, "Not complete yet")
	printUnusable(t, models, library.Broken, "Damaged")
	printUnusable(t, models, library.NotLoadable, "Not supported")
	printUnusable(t, models, library.Drafter, "Draft for other models")
	printBeyondVocabulary(t, models)
	printBlocks(t, models)
	printCopies(t, models, file.Get().Configured)
	printAliases(t, models, aliases(file.Get()))
	printDraftModels(t, models, func(id string) string {
		return cmp.Or(c.DraftModel, file.Get().ForModel(id).DraftModel)
	})
	heading := "\nNot searched:\n"
	for _, note := range slices.Concat(library.Unreadable(c.ModelsDir), l.Notes()) {
		fmt.Fprintf(t.out, "%s  %s\n", heading, oneLine(note))
		heading = ""
	}
	if len(models) == 1 {
		fmt.Fprintln(t.out,
			"\nOnly the bundled model was found. Headroom looks in these folders, and in those of "+
				"--models-dir and HEADROOM_MODELS:")
		for _, root := range l.Roots() {
			fmt.Fprintln(t.out, "  "+oneLine(root))
		}
	}
	return nil
}

// printAdapters prints a row for each adapter of a model, with the name by which requests mean it.
func printAdapters(table io.Writer, m library.Model) {
	for _, a := range m.Adapters {
		kind := "LoRA"
		if a.Info.DoRA {
			kind = "DoRA"
		}
		fmt.Fprintf(table, "  %s\t%s, rank %d\t\t%s\t\t\n",
			oneLine(m.ID+server.AdapterSign+a.Name), kind, a.Info.Rank, formatBytes(a.SizeBytes))
	}
}

// printUnusable prints why the models of a state cannot be used. Reasons are too long for the
// table.
func printUnusable(t *terminal, models []library.Model, state library.State, heading string) {
	heading = "\n" + heading + ":\n"
	for _, m := range models {
		if m.State == state {
			fmt.Fprintf(t.out, "%s  %s%s: %v\n", heading, oneLine(m.ID), progress(m.Download),
				oneLine(m.Err.Error()))
			heading = ""
		}
	}
}

// printBeyondVocabulary lists the models whose tokenizer has tokens that the model lacks. They run,
// but refuse text with such a token.
func printBeyondVocabulary(t *terminal, models []library.Model) {
	heading := "\nWith a tokenizer of more tokens than the model has:\n"
	for _, m := range models {
		if d := m.Description; m.Err == nil && d.BeyondVocabulary != "" {
			fmt.Fprintf(t.out, "%s  %s: %s\n", heading, oneLine(m.ID),
				oneLine(d.BeyondVocabulary))
			heading = ""
		}
	}
}

// printBlocks says which models run without their block that drafts tokens, and why.
func printBlocks(t *terminal, models []library.Model) {
	heading := "\nWithout their block that drafts tokens:\n"
	for _, m := range models {
		if d := m.Description; m.Err == nil && d.BlockUnused != "" {
			fmt.Fprintf(t.out, "%s  %s: %s\n", heading, oneLine(m.ID), oneLine(d.BlockUnused))
			heading = ""
		}
	}
}

// progress describes how far a download is.
func progress(d *library.Download) string {
	switch {
	case d == nil || d.DoneBytes == 0 && d.TotalBytes == 0:
		return ""
	case d.TotalBytes == 0:
		return fmt.Sprintf(" (%s so far)", formatBytes(d.DoneBytes))
	}
	return fmt.Sprintf(" (%s of %s)", formatBytes(d.DoneBytes), formatBytes(d.TotalBytes))
}

// printAliases lists the aliases that have no effect.
func printAliases(t *terminal, models []library.Model, aliases func(id string) []string) {
	heading := "\nAliases without effect:\n"
	for _, sentence := range library.WithoutEffect(models, aliases) {
		fmt.Fprintf(t.out, "%s  %s\n", heading, oneLine(sentence))
		heading = ""
	}
}

// printDraftModels lists the draft models of models, and why one cannot draft. drafter returns the
// name of a model's; "": it has none.
func printDraftModels(t *terminal, models []library.Model, drafter func(id string) string) {
	heading := "\nDraft models:\n"
	for _, m := range models {
		name, why := drafter(m.ID), m.Description.DraftModelUnused
		if name == "" || m.Err != nil {
			continue
		}
		line := fmt.Sprintf("%s: %s", m.ID, name)
		if why != "" {
			line += ", which is not used: " + why
		}
		fmt.Fprintf(t.out, "%s  %s\n", heading, oneLine(line))
		heading = ""
	}
}

// printCopies lists the models that exist in several folders, and the settings of copies that have
// no effect.
func printCopies(t *terminal, models []library.Model, configured func(id string) bool) {
	heading := "\nIn several folders:\n"
	for _, m := range models {
		if len(m.Places) > 1 {
			fmt.Fprintf(t.out, "%s  %s, %s each\n", heading, oneLine(m.ID),
				formatBytes(m.SizeBytes))
			heading = ""
			for _, p := range m.Places {
				fmt.Fprintf(t.out, "    %s\n", oneLine(p.Dir))
			}
			for _, id := range m.Copies {
				if configured(id) {
					fmt.Fprintf(t.out, "    The settings of %s have no effect, but for its "+
						"aliases: move them to %s.\n", oneLine(id), oneLine(m.ID))
				}
			}
		}
	}
}
