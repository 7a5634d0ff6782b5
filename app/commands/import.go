package commands

import (
	"context"
	"fmt"
	"slices"

	"headroom/app/importer"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/app/service"
	"headroom/engine"
	"headroom/engine/problem"
)

// ModelsImport is `headroom models import`.
type ModelsImport struct {
	Paths     []string `arg:"" name:"path" help:"Model folders, folders that hold several of them, or the files of one model. A GGUF file is converted to MLX's format." type:"path"`
	Copy      bool     `xor:"mode" help:"Copy the files (the default). Where the file system can, the copy shares blocks with the original."`
	Move      bool     `xor:"mode" help:"Move the files."`
	Link      bool     `xor:"mode" help:"Create a link; the files stay where they are."`
	To        string   `help:"Folder to import into. Default: the settings' importFolder, or Headroom's own." placeholder:"DIR" type:"path"`
	Name      string   `help:"Name of the imported model: \"name\" or \"org/name\". Only for a single model." placeholder:"NAME"`
	DryRun    bool     `help:"Print what would happen and change nothing."`
	ModelsDir []string `help:"Another folder with models that are already known; may be repeated." placeholder:"DIR" sep:"none" type:"path"`
}

func (c *ModelsImport) mode() importer.Mode {
	switch {
	case c.Move:
		return importer.Move
	case c.Link:
		return importer.Link
	}
	return importer.Copy
}

// Run imports the models, one after another. It skips those that cannot be imported.
func (c *ModelsImport) Run(ctx context.Context, t *terminal) error {
	s := service.OpenSettings().Get()
	root, err := service.ImportFolder(c.To, s)
	if err != nil {
		return err
	}
	known := library.New(library.Roots(
		append(append(c.ModelsDir, s.ModelFolders...), s.ImportFolder)), engine.Options{},
		engine.Describe)
	im := importer.New(importer.Options{Root: root, Describe: engine.Describe, Known: known.Scan})
	plan := im.Plan(c.Paths, c.mode(), c.Name)
	if n := len(plan.Importable()); c.Name != "" && n > 1 {
		return problem.New(problem.BadRequest,
			fmt.Sprintf("%d models cannot have the same name", n),
			"--name was given", "Import them one at a time, or leave out --name.")
	}
	var failed error
	for _, item := range plan.Items {
		if item.Refused != nil {
			name := item.Name
			if name == "" {
				name = item.Source
			}
			fmt.Fprintf(t.err, "Not imported: %s\n", clip(name, 200))
			failed = exitCode(report(item.Refused, t.err))
		}
	}
	list := jobs.NewList()
	defer list.Close()
	for _, item := range plan.Importable() {
		if c.DryRun {
			fmt.Fprintln(t.out, oneLine(forecast(item)))
			continue
		}
		job, err := watchJob(ctx, t.err, list, list.Start(im.Job(item)).ID)
		if err != nil {
			fmt.Fprintf(t.err,
				"Stopped. The copied files of %s are kept; run the same command to resume.\n",
				oneLine(item.Name))
			return err
		}
		if job.State == jobs.Failed {
			fmt.Fprintf(t.err, "Not imported: %s\n", oneLine(item.Name))
			failed = exitCode(report(job.Err, t.err))
			continue
		}
		fmt.Fprintf(t.out, "%s: %s\n", oneLine(item.Name), oneLine(job.Result))
	}
	if !slices.Contains(known.Roots(), root) && !c.DryRun {
		fmt.Fprintf(t.err,
			"Headroom does not look in %s by default: name it with --models-dir, or as "+
				"importFolder in the settings.\n", root)
	}
	return failed
}

// forecast describes what an import would do.
func forecast(item importer.Item) string {
	switch {
	case item.Converts:
		return fmt.Sprintf("%s: converted from %s to %s in MLX's format", item.Name, item.Source,
			formatBytes(item.Bytes))
	case item.Mode == importer.Link:
		return fmt.Sprintf("%s: link to %s; nothing is copied", item.Name, item.Source)
	case item.WrittenBytes == 0:
		return fmt.Sprintf("%s: %s, moved within one disk; nothing is copied", item.Name,
			formatBytes(item.Bytes))
	case item.Clones:
		return fmt.Sprintf("%s: %s, copied; the copy can share blocks with the original", item.Name,
			formatBytes(item.Bytes))
	}
	return fmt.Sprintf("%s: %s, copied", item.Name, formatBytes(item.Bytes))
}
