package commands

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"headroom/app/hub"
	"headroom/app/jobs"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine/problem"
)

// HubFlags select the hub.
type HubFlags struct {
	Endpoint string `help:"Address of the hub or a mirror. Default: the settings' hubEndpoint, HF_ENDPOINT, or https://huggingface.co." placeholder:"URL"`
}

func (f *HubFlags) client(s settings.Settings) (*hub.Client, error) {
	return service.NewHub(cmp.Or(f.Endpoint, s.HubEndpoint), new(hub.Tokens))
}

// ModelsSearch is `headroom models search`.
type ModelsSearch struct {
	Words []string `arg:"" help:"Words in the model's name."`
	Limit int      `help:"Maximum number of results." default:"20"`
	HubFlags
}

// Run prints the models that the hub finds.
func (c *ModelsSearch) Run(ctx context.Context, t *terminal) error {
	client, err := c.client(service.OpenSettings().Get())
	if err != nil {
		return err
	}
	words := strings.Join(c.Words, " ")
	found, err := client.Search(ctx, hub.Query{Words: words, Limit: c.Limit})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		fmt.Fprintf(t.out,
			"%s has no .safetensors model with %q in its name.\n", client.Endpoint(), words)
		return nil
	}
	table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tARCHITECTURE\tFORMAT\tDOWNLOADS\tSUPPORTED")
	for _, m := range found {
		format, supported := "Hugging Face", "yes"
		if slices.Contains(m.Tags, "mlx") {
			format = "MLX"
		}
		switch {
		case !client.Runs(m.ModelType):
			supported = "no"
		case m.ModelType == "":
			supported = "?"
		case m.Gated:
			supported = "yes, after its terms are accepted"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", m.ID, clip(m.ModelType, 30), format, m.Downloads,
			supported)
	}
	return table.Flush()
}

// ModelsDownload is `headroom models download`.
type ModelsDownload struct {
	Model    string   `arg:"" help:"Name on the hub: org/name."`
	Revision string   `help:"Branch, tag or commit. Default: main."`
	File     []string `help:"Download this file instead of those that the model needs; may be repeated." sep:"none"`
	List     bool     `help:"List the files and download nothing."`
	HubFlags
}

// Run downloads the model and shows the progress. A second run resumes the first.
func (c *ModelsDownload) Run(ctx context.Context, t *terminal) error {
	client, err := c.client(service.OpenSettings().Get())
	if err != nil {
		return err
	}
	if c.List {
		return c.list(ctx, t, client)
	}
	job, err := download(ctx, t.err, client,
		hub.Request{ID: c.Model, Revision: c.Revision, Files: c.File})
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s: %s\n", c.Model, job.Result)
	return nil
}

// download runs a download to its end and shows its progress.
func download(ctx context.Context, errOut io.Writer, client *hub.Client, q hub.Request) (jobs.Job,
	error) {
	list := jobs.NewList()
	defer list.Close()
	job, err := watchJob(ctx, errOut, list, list.Start(client.Job(q)).ID)
	if err != nil {
		fmt.Fprintf(errOut, "Stopped at %s. Run the same command to resume.\n",
			formatBytes(job.DoneBytes))
		return job, err
	}
	if job.State == jobs.Failed {
		return job, job.Err
	}
	return job, nil
}

// list prints the files of the repository and marks those that would be downloaded.
func (c *ModelsDownload) list(ctx context.Context, t *terminal, client *hub.Client) error {
	r, err := client.Repository(ctx, c.Model, c.Revision)
	if err != nil {
		return err
	}
	chosen, refused := client.Needed(r)
	table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	total := int64(0)
	for _, f := range r.Files {
		mark, size := "", "?"
		if slices.Contains(chosen, f) {
			mark = "*"
			total += max(f.Size, 0)
		}
		if f.Size >= 0 {
			size = formatBytes(f.Size)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", mark, size, clip(f.Path, 100))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	fmt.Fprintf(t.out, "%s, %s: the model needs the files marked *.\n",
		count(len(chosen), "file"), formatBytes(total))
	return nil
}

// ModelsToken is `headroom models token`.
type ModelsToken struct {
	Remove bool `help:"Remove the saved token."`
}

// Run saves the token from stdin and prints where.
func (c *ModelsToken) Run(t *terminal) error {
	tokens := new(hub.Tokens)
	if c.Remove {
		if _, err := tokens.Save(""); err != nil {
			return err
		}
		fmt.Fprintln(t.out, "The saved token was removed.")
		return nil
	}
	switch _, source := tokens.Token(); source {
	case hub.NoToken:
	case hub.TokenEnvironment:
		fmt.Fprintln(t.err, "HF_TOKEN is set in the environment. It overrides the saved token.")
	default:
		fmt.Fprintf(t.err, "There is already a token %s. The new token replaces it.\n",
			tokenPlace(source))
	}
	token, err := readSecret(t, "Token, from the hub's settings page: ")
	if err != nil {
		return problem.Wrap(problem.BadRequest, err, "No token was read from stdin",
			"Send it on one line.")
	}
	source, err := tokens.Save(token)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "The token is %s.\n", tokenPlace(source))
	return nil
}

func tokenPlace(source hub.TokenSource) string {
	switch source {
	case hub.TokenEnvironment:
		return "in the environment, as HF_TOKEN"
	case hub.TokenKeychain:
		return "in the system's keychain"
	}
	return "in the token file of Hugging Face's tools"
}

// readSecret reads a line. A terminal does not echo it.
func readSecret(t *terminal, prompt string) (string, error) {
	if file, ok := t.in.(*os.File); ok && isTerminal(file) {
		fmt.Fprint(t.err, prompt)
		text, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(t.err)
		return string(text), err
	}
	line, err := bufio.NewReader(io.LimitReader(t.in, 4096)).ReadString('\n')
	if line = strings.TrimSpace(line); line != "" {
		return line, nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return "", err
}
