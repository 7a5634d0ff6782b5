package commands

// `headroom keys` works on the file of keys, which running servers notice with the next request.

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"headroom/app/control"
	"headroom/app/keys"
	"headroom/app/library"
	"headroom/app/service"
	"headroom/engine/problem"
)

// Keys is `headroom keys`.
type Keys struct {
	List   KeysList   `cmd:"" default:"1" help:"List the API keys, their limits and their use (the default)."`
	Add    KeysAdd    `cmd:"" help:"Make an API key and print it, this once: only its hash is stored."`
	Set    KeysSet    `cmd:"" help:"Change the name or the limits of an API key. What no flag names stays as it is."`
	Remove KeysRemove `cmd:"" aliases:"rm,delete" help:"Remove an API key. Requests that use it end at once."`
}

// KeysList is `headroom keys list`.
type KeysList struct {
	JSON bool `name:"json" help:"Print JSON, for scripts."`
}

// KeysAdd is `headroom keys add`.
type KeysAdd struct {
	Name               string   `arg:"" help:"Name by which you tell the key from others: laptop."`
	Model              []string `help:"Model that the key may use, as models lists it; may be repeated. Default: all." placeholder:"NAME" sep:"none"`
	RequestsPerMinute  int      `help:"Most requests in a minute. Default: any number." placeholder:"N"`
	ConcurrentRequests int      `help:"Most requests at once. Default: any number." placeholder:"N"`
	Batch              bool     `help:"Let the key's requests wait until those of others run."`
	ModelsDir          []string `help:"Another folder to look for models in, up to four levels deep; may be repeated." placeholder:"DIR" sep:"none" type:"path"`
}

// KeysSet is `headroom keys set`.
type KeysSet struct {
	Name               string   `arg:"" help:"Name or ID of the key."`
	Rename             string   `help:"New name of the key." placeholder:"NAME"`
	Model              []string `help:"Model that the key may use, as models lists it; may be repeated." placeholder:"NAME" sep:"none" xor:"models"`
	AllModels          bool     `help:"Let the key use all models." xor:"models"`
	RequestsPerMinute  *int     `help:"Most requests in a minute; 0: any number." placeholder:"N"`
	ConcurrentRequests *int     `help:"Most requests at once; 0: any number." placeholder:"N"`
	Batch              *bool    `help:"Let the key's requests wait until those of others run; =false: do not." placeholder:"BOOL"`
	ModelsDir          []string `help:"Another folder to look for models in, up to four levels deep; may be repeated." placeholder:"DIR" sep:"none" type:"path"`
}

// KeysRemove is `headroom keys remove`.
type KeysRemove struct {
	Name string `arg:"" help:"Name or ID of the key."`
}

// openKeys opens the keys of this user. The error is a Problem.
func openKeys() (*keys.Store, error) {
	dir, err := control.SettingsDir()
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "The API keys cannot be found", "")
	}
	store, err := keys.Open(dir)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "The API keys cannot be used", "")
	}
	return store, nil
}

// Run prints the table.
func (c *KeysList) Run(ctx context.Context, t *terminal) error {
	list, err := keyList(ctx)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printJSON(t.out, list)
	case len(list.Keys) == 0:
		fmt.Fprintln(t.out, "There are no named API keys. Make one: headroom keys add NAME")
		return nil
	}
	now := time.Now()
	table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tMODELS\tPER MINUTE\tAT ONCE\tPRIORITY\tREQUESTS\tPROMPT TOKENS\t"+
		"GENERATED\tLAST USE\tID")
	for _, k := range list.Keys {
		models, priority := "all", "interactive"
		if len(k.Models) > 0 {
			models = strings.Join(k.Models, ", ")
		}
		if k.Priority == keys.Batch {
			priority = "batch"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", oneLine(k.Name),
			oneLine(models), limit(k.RequestsPerMinute), limit(k.ConcurrentRequests), priority,
			k.Requests, k.PromptTokens, k.GeneratedTokens, ago(now, k.LastUsedAtUnixMs), k.ID)
	}
	return table.Flush()
}

// limit returns a limit in words.
func limit(n int) string {
	if n == 0 {
		return "any"
	}
	return strconv.Itoa(n)
}

// keyList asks a running server, which knows the use of the last minute, or else reads the files.
func keyList(ctx context.Context) (list control.APIKeyList, err error) {
	asked := false
	eachServer(func(s runningServer) bool {
		asked = s.ask(ctx, askTimeout, http.MethodGet, "control/keys", &list) == nil
		return !asked
	})
	if asked && len(list.Keys) > 0 { // otherwise the file may be damaged
		return list, nil
	}
	store, err := openKeys()
	if err != nil {
		return list, err
	}
	return control.KeysOf(store), nil
}

// Run makes the key. Standard output gets its text alone, for scripts.
func (c *KeysAdd) Run(t *terminal) error {
	store, err := openKeys()
	if err != nil {
		return err
	}
	limits := keys.Limits{RequestsPerMinute: c.RequestsPerMinute,
		ConcurrentRequests: c.ConcurrentRequests}
	if c.Batch {
		limits.Priority = keys.Batch
	}
	if limits.Models, err = modelIDs(c.Model, c.ModelsDir); err != nil {
		return err
	}
	k, text, err := store.Add(c.Name, limits)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.err, "The API key %q was made. Save it now: only its hash is stored. Requests "+
		"to the endpoint need a key from now on.\n", k.Name)
	_, err = fmt.Fprintln(t.out, text)
	return err
}

// Run changes the key.
func (c *KeysSet) Run(t *terminal) error {
	if c.Rename == "" && len(c.Model) == 0 && !c.AllModels && c.RequestsPerMinute == nil &&
		c.ConcurrentRequests == nil && c.Batch == nil {
		return problem.New(problem.BadRequest, "There is nothing to change", "",
			"Name a limit: headroom keys set NAME --requests-per-minute 60. See --help.")
	}
	store, err := openKeys()
	if err != nil {
		return err
	}
	k, err := store.Named(c.Name)
	if err != nil {
		return err
	}
	limits := k.Limits
	if limits.Models, err = modelIDs(c.Model, c.ModelsDir); err != nil {
		return err
	} else if len(c.Model) == 0 && !c.AllModels {
		limits.Models = k.Limits.Models
	}
	for to, sent := range map[*int]*int{&limits.RequestsPerMinute: c.RequestsPerMinute,
		&limits.ConcurrentRequests: c.ConcurrentRequests} {
		if sent != nil {
			*to = *sent
		}
	}
	if c.Batch != nil {
		limits.Priority = map[bool]keys.Priority{true: keys.Batch}[*c.Batch]
	}
	if k, err = store.Set(k.ID, cmp.Or(c.Rename, k.Name), limits); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "The API key %q was changed.\n", k.Name)
	return nil
}

// modelIDs returns the IDs of the models with these names, which may also be in dirs. The error is
// a Problem.
func modelIDs(names, dirs []string) (ids []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	s := service.OpenSettings()
	for _, sentence := range library.Unreadable(dirs) {
		slog.Warn(sentence)
	}
	flags := ModelFlags{ModelsDir: dirs}
	models := flags.library(s).Scan()
	for _, name := range names {
		meant := library.Meant(models, name, aliases(s.Get()))
		if len(meant) == 0 {
			err := library.NotFound(name, models, aliases(s.Get()))
			err.Fix = "Use one of these. Models elsewhere are found with --models-dir, with " +
				"modelFolders in the settings, or with HEADROOM_MODELS." // not by their folder
			return nil, err
		}
		ids = append(ids, meant[0].ID)
	}
	return ids, nil
}

// Run removes the key.
func (c *KeysRemove) Run(ctx context.Context, t *terminal) error {
	store, err := openKeys()
	if err != nil {
		return err
	}
	removed, left, err := store.Remove(c.Name)
	if err != nil {
		return err
	}
	// Servers look at the file with each request. This one ends the requests that are running.
	eachServer(func(s runningServer) bool {
		_ = s.ask(ctx, askTimeout, http.MethodGet, "control/keys", nil)
		return true
	})
	fmt.Fprintf(t.out, "The API key %q was removed.\n", removed.Name)
	if left == 0 && removed.Certificate == "" {
		fmt.Fprintln(t.out, "No named API key is left. Unless the settings or the command line "+
			"have a key, a server that only this computer can reach needs none now. One that "+
			"--host opens to the network answers 401 to everybody, or needs none with "+
			"--no-api-key.")
	}
	return nil
}
