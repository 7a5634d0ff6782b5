package commands

// A folder on the hub: `headroom upload`, and --upload-repo of convert and fuse.

import (
	"context"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"headroom/app/hub"
	"headroom/app/jobs"
	"headroom/app/service"
	"headroom/engine/convert"
	"headroom/engine/problem"
)

// Upload is `headroom upload`.
type Upload struct {
	Folder string `arg:"" optional:"" help:"Folder of a model or an adapter." placeholder:"FOLDER"`
	Repo   string `arg:"" optional:"" help:"Repository: org/name. One that does not exist is made, and is private." placeholder:"ORG/NAME"`
	DryRun bool   `help:"Show what would change at the hub, and send nothing."`
	UploadFlags

	// As mlx_lm.upload is called.
	Path       string `hidden:"" type:"path"`
	UploadRepo string `hidden:""`
}

// arguments returns the folder and the repository. As in mlx-lm, the folder is mlx_model if only
// the flag for the repository is given.
func (c *Upload) arguments() (folder, repo string, err error) {
	folderByDefault := ""
	if c.UploadRepo != "" {
		folderByDefault = convertedFolder
	}
	all, err := argumentsOf([]string{c.Folder, c.Repo}, []argumentFlag{
		{"folder", "path", c.Path, folderByDefault}, {"repo", "upload-repo", c.UploadRepo, ""}})
	if err != nil {
		return "", "", err
	}
	return kong.ExpandPath(all[0]), all[1], nil
}

// Validate rejects missing arguments. kong calls it.
func (c *Upload) Validate() error {
	_, _, err := c.arguments()
	return err
}

// UploadFlags are those of an upload.
type UploadFlags struct {
	Public bool `help:"Make a new repository public."`
	Yes    bool `help:"Replace files of the repository without asking."`
	HubFlags
}

// ConvertUpload are the flags of convert and fuse that upload the result.
type ConvertUpload struct {
	UploadRepo string `help:"Upload the result to this repository, as headroom upload does." placeholder:"ORG/NAME"`
	UploadFlags
}

// check checks, before the result is made, that it can be uploaded.
func (f *ConvertUpload) check(ctx context.Context) error {
	if f.UploadRepo == "" {
		if f.Public || f.Yes || f.Endpoint != "" {
			return problem.New(problem.BadRequest, "--upload-repo is missing",
				"--public, --yes and --endpoint are about an upload",
				"Name a repository, or leave them out.")
		}
		return nil
	}
	client, err := f.client(service.OpenSettings().Get())
	if err != nil {
		return err
	}
	return client.CanUpload(ctx, f.UploadRepo)
}

// run uploads the result, if a repository is named.
func (f *ConvertUpload) run(ctx context.Context, t *terminal, dir string) error {
	if f.UploadRepo == "" {
		return nil
	}
	return (&Upload{Folder: dir, Repo: f.UploadRepo, UploadFlags: f.UploadFlags}).Run(ctx, t)
}

// Run shows what will change, asks before it replaces files, and uploads. A second run goes on
// where the first was stopped.
func (c *Upload) Run(ctx context.Context, t *terminal) (err error) {
	if c.Folder, c.Repo, err = c.arguments(); err != nil {
		return err
	}
	c.Path, c.UploadRepo = "", ""
	if convert.Unfinished(c.Folder) {
		return problem.New(problem.BadRequest, "The model in "+c.Folder+" is not complete",
			"a conversion into the folder was stopped", "Run that conversion again first.")
	}
	client, err := c.client(service.OpenSettings().Get())
	if err != nil {
		return err
	}
	var plan *hub.UploadPlan
	err = c.watch(ctx, t, func(ctx context.Context, p *jobs.Progress) (err error) {
		plan, err = client.PlanUpload(ctx, hub.UploadRequest{ID: c.Repo, Dir: c.Folder,
			Public: c.Public}, p)
		return err
	})
	if err != nil {
		return err
	}
	c.show(t, client, plan)
	if c.DryRun {
		return nil
	}
	if n, _ := plan.Count(hub.FileReplaced); n > 0 && !c.Yes {
		question := fmt.Sprintf("Replace %s of %s?", count(n, "file"), c.Repo)
		if yes, err := askYes(ctx, t, question, false); err != nil {
			return err
		} else if !yes {
			return problem.New(problem.Exists, "Nothing was uploaded",
				"files of "+c.Repo+" would be replaced",
				"Add --yes to replace them, or name another repository.")
		}
	}
	var done hub.Uploaded
	err = c.watch(ctx, t, func(ctx context.Context, p *jobs.Progress) (err error) {
		done, err = client.Upload(ctx, plan, p)
		return err
	})
	if err != nil {
		return err
	}
	report := fmt.Sprintf("%s: ", c.Repo)
	if done.Address != "" {
		fmt.Fprintf(t.out, "%s%s were sent: %s\n", report, formatBytes(done.Sent), done.Address)
	} else {
		fmt.Fprintf(t.out, "%sall files are there already: %s/%s\n", report, client.Endpoint(),
			c.Repo)
	}
	if len(done.Ignored) > 0 {
		fmt.Fprintln(t.err, "Not sent, because of the repository's .gitignore: "+
			printable(few(done.Ignored)))
	}
	return nil
}

// watch runs a part of the upload and shows its progress.
func (c *Upload) watch(ctx context.Context, t *terminal,
	work func(context.Context, *jobs.Progress) error) error {
	list := jobs.NewList()
	defer list.Close()
	job, err := watchJob(ctx, t.err, list, list.Start(jobs.Spec{Kind: hub.UploadJob, Title: c.Repo,
		Work: func(ctx context.Context, p *jobs.Progress) (string, error) {
			return "", work(ctx, p)
		}}).ID)
	if err != nil {
		fmt.Fprintln(t.err, "Stopped. Run the same command to go on.")
		return err
	}
	return job.Err
}

// maxShown is the most files of which a line is shown.
const maxShown = 40

// show prints what an upload changes.
func (c *Upload) show(t *terminal, client *hub.Client, plan *hub.UploadPlan) {
	who := "public"
	if plan.Private {
		who = "private"
	}
	if plan.Create {
		who = "new " + who
	}
	fmt.Fprintf(t.err, "%s at %s, a %s repository:\n", plan.ID, client.Endpoint(), who)
	shown := 0
	for _, f := range plan.Files {
		if f.State == hub.FileReplaced || f.State == hub.FileNew && shown < maxShown {
			shown++
			fmt.Fprintf(t.err, "  %-8s  %9s  %s\n", f.State, formatBytes(f.Size),
				printable(clip(f.Path, 100)))
		}
	}
	for _, state := range []hub.UploadState{hub.FileNew, hub.FileReplaced, hub.FileSame} {
		if n, bytes := plan.Count(state); n > 0 {
			fmt.Fprintf(t.err, "%s: %s, %s\n", uploadWords[state], count(n, "file"),
				formatBytes(bytes))
		}
	}
	if len(plan.Hidden) > 0 {
		fmt.Fprintln(t.err, "Hidden, and not sent: "+printable(few(plan.Hidden)))
	}
	if c.Public && !plan.Create && plan.Private {
		fmt.Fprintln(t.err, "The repository stays private: --public is for new ones.")
	}
	if left := plan.LeftWeights(); len(left) > 0 {
		fmt.Fprintf(t.err, "Warning: the repository keeps weights that the folder does not "+
			"have, and programs may load them too: %s. Delete them on its page at the hub.\n",
			printable(few(left)))
	} else if n := len(plan.Left); n > 0 {
		fmt.Fprintf(t.err, "Only in the repository, and stays: %s\n", printable(few(plan.Left)))
	}
	if !hasCard(plan) {
		fmt.Fprintln(t.err, "There is no README.md, so the model's page will have no card.")
	}
}

var uploadWords = map[hub.UploadState]string{hub.FileNew: "New", hub.FileReplaced: "To be replaced",
	hub.FileSame: "The same, and not sent"}

// hasCard reports whether the repository has a card after the upload.
func hasCard(plan *hub.UploadPlan) bool {
	for _, f := range plan.Files {
		if f.Path == "README.md" {
			return true
		}
	}
	for _, name := range plan.Left {
		if name == "README.md" {
			return true
		}
	}
	return false
}

// few returns the first names of a list.
func few(names []string) string {
	const most = 5
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}
