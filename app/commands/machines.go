package commands

// `headroom machines` works on the list of other machines, which running servers notice within
// seconds.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"headroom/app/control"
	"headroom/app/disk"
	"headroom/app/machines"
	"headroom/app/route"
	"headroom/app/service"
	"headroom/engine/problem"
)

// Machines is `headroom machines`.
type Machines struct {
	List   MachinesList   `cmd:"" default:"1" help:"List the other machines (the default)."`
	Add    MachinesAdd    `cmd:"" help:"Add a Headroom, or a server with OpenAI's API, by its address."`
	Set    MachinesSet    `cmd:"" help:"Change a machine. What no flag names stays as it is."`
	Remove MachinesRemove `cmd:"" aliases:"rm,delete" help:"Remove a machine, and its API key."`
	Check  MachinesCheck  `cmd:"" help:"Ask the machines for their models, and say what is wrong."`
}

// MachinesList is `headroom machines list`.
type MachinesList struct {
	JSON bool `name:"json" help:"Print JSON, for scripts."`
}

// MachinesAdd is `headroom machines add`.
type MachinesAdd struct {
	URL         string   `arg:"" name:"address" help:"Address: studio.local:11811, where the port may be left out, or the base URL of a server with OpenAI's API."`
	Name        string   `help:"Name by which you tell the machine from others. Default: its host name." placeholder:"NAME"`
	Kind        string   `help:"What answers there: headroom or openai. Default: it is asked." enum:",headroom,openai" default:"" placeholder:"KIND"`
	Model       []string `help:"Model of the machine that is used; may be repeated. Default: all." placeholder:"ID" sep:"none"`
	APIKey      string   `name:"api-key" env:"HEADROOM_MACHINE_KEY" help:"API key that the machine wants. Others on this machine can see a command's flags: prefer the variable or --api-key-file." placeholder:"KEY"`
	APIKeyFile  string   `name:"api-key-file" type:"path" help:"File with the key, instead of --api-key." placeholder:"FILE"`
	Certificate string   `help:"SHA-256 of the only TLS certificate to accept, for an https address." placeholder:"HEX"`
}

// MachinesSet is `headroom machines set`.
type MachinesSet struct {
	Name      string   `arg:"" help:"Name or ID of the machine."`
	Rename    string   `help:"New name of the machine." placeholder:"NAME"`
	Off       *bool    `help:"Send the machine nothing; =false: use it again." placeholder:"BOOL"`
	Model     []string `help:"Model of the machine that is used; may be repeated." placeholder:"ID" sep:"none" xor:"models"`
	AllModels bool     `help:"Use all models of the machine." xor:"models"`

	APIKeyFile string `name:"api-key-file" type:"path" help:"File with another API key for the machine. If no flag names a change, the key may be in $HEADROOM_MACHINE_KEY instead." placeholder:"FILE"`
}

// MachinesRemove is `headroom machines remove`.
type MachinesRemove struct {
	Name string `arg:"" help:"Name or ID of the machine."`
}

// MachinesCheck is `headroom machines check`.
type MachinesCheck struct {
	Names []string `arg:"" optional:"" name:"name" help:"Names or IDs. Default: all machines."`
	JSON  bool     `name:"json" help:"Print JSON, for scripts."`
}

// openMachines opens the other machines of this user. The error is a Problem.
func openMachines() (*machines.Store, error) {
	dir, err := control.SettingsDir()
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "The other machines cannot be found", "")
	}
	return machines.Open(dir)
}

// Run prints the table.
func (c *MachinesList) Run(t *terminal) error {
	store, err := openMachines()
	if err != nil {
		return err
	}
	list := store.List()
	switch {
	case c.JSON:
		return printJSON(t.out, struct {
			Machines []machines.Machine `json:"machines"`
		}{append([]machines.Machine{}, list...)})
	case len(list) == 0:
		fmt.Fprintln(t.out, "There are no other machines. Add one: headroom machines add ADDRESS")
		return nil
	}
	table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tKIND\tADDRESS\tMODELS\tSTATE\tID")
	for _, m := range list {
		models, state := "all", "on"
		if len(m.Models) > 0 {
			models = strings.Join(m.Models, ", ")
		}
		if m.Off {
			state = "off"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(m.Name), m.Kind, m.URL,
			oneLine(models), state, m.ID)
	}
	return table.Flush()
}

// Run adds the machine once it has answered.
func (c *MachinesAdd) Run(ctx context.Context, t *terminal) error {
	store, err := openMachines()
	if err != nil {
		return err
	}
	secret, err := machineKey(c.APIKey, c.APIKeyFile)
	if err != nil {
		return err
	}
	m := machines.Machine{Name: c.Name, Kind: machines.Kind(c.Kind), Models: c.Model,
		URL: machines.WithPort(machines.Kind(c.Kind), c.URL), Certificate: c.Certificate}
	if m.Certificate != "" && !strings.Contains(m.URL, "://") {
		m.URL = "https://" + m.URL
	}
	found, err := route.Probe(ctx, m, secret, nil)
	if err != nil {
		return err
	}
	if err := checkNew(ctx, found, store, secret); err != nil {
		return err
	}
	m.Kind = found.Kind
	if m, err = store.Add(m, secret); err != nil {
		return err
	}
	what := "a server with OpenAI's API"
	if m.Kind == machines.Headroom {
		what = "a Headroom"
	}
	fmt.Fprintf(t.out, "%s at %s was added: %s with %s.\n", m.Name, m.URL, what,
		numberOf(len(found.Models), "model"))
	for _, id := range m.Models {
		if !hasModel(found.Models, id) {
			fmt.Fprintf(t.err, "It has no model %s now.\n", id)
		}
	}
	return nil
}

// checkNew returns a Problem if the machine that was found is a running server with these settings,
// or was added already. secret is the API key of the machine.
func checkNew(ctx context.Context, found route.Found, store *machines.Store, secret string) error {
	self := false
	eachServer(func(s runningServer) bool {
		here, _ := route.Probe(ctx, machines.Machine{Kind: machines.Headroom, URL: s.url}, secret,
			nil) // one that does not answer is another one
		self = found.ID != "" && here.ID == found.ID
		return !self
	})
	if self {
		return route.ErrSelf
	}
	return route.CheckNew(ctx, found, store, service.Certificate)
}

func hasModel(list []route.Model, id string) bool {
	for _, m := range list {
		if strings.EqualFold(m.ID, id) {
			return true
		}
	}
	return false
}

// usesModel reports whether a machine that is used for some models, or for all if there are none,
// is used for one.
func usesModel(used []string, id string) bool {
	return len(used) == 0 || slices.ContainsFunc(used,
		func(one string) bool { return strings.EqualFold(one, id) })
}

// numberOf returns a number with its noun.
func numberOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// machineKey returns the API key in a file; without one, key.
func machineKey(key, file string) (string, error) {
	if file == "" {
		return key, nil
	}
	const most = 4096
	data, _, err := disk.Read(file, most)
	if err == nil && strings.TrimSpace(string(data)) == "" {
		err = errors.New("the file is empty")
	}
	if err != nil {
		return "", problem.Wrap(problem.BadRequest, err, "The machine's API key could not be read",
			"--api-key-file needs a file with one line: the key.")
	}
	return strings.TrimSpace(string(data)), nil
}

// Run changes the machine.
func (c *MachinesSet) Run(t *terminal) error {
	// A variable that happens to be set must not change the key beside something else.
	variable := ""
	unnamed := c.Rename == "" && c.Off == nil && len(c.Model) == 0 && !c.AllModels
	if unnamed {
		variable = os.Getenv("HEADROOM_MACHINE_KEY")
	}
	key, err := machineKey(variable, c.APIKeyFile)
	if err != nil {
		return err
	}
	if unnamed && key == "" {
		return problem.New(problem.BadRequest, "There is nothing to change", "",
			"Name what to change: headroom machines set NAME --off. See --help.")
	}
	store, err := openMachines()
	if err != nil {
		return err
	}
	m, err := store.Named(c.Name)
	if err != nil {
		return err
	}
	if c.Rename != "" {
		m.Name = c.Rename
	}
	if c.Off != nil {
		m.Off = *c.Off
	}
	if len(c.Model) > 0 || c.AllModels {
		m.Models = c.Model
	}
	if key != "" {
		if err := store.SetSecret(m.ID, key); err != nil {
			return err
		}
	}
	if err := store.Set(m); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "The machine %s was changed.\n", m.Name)
	return nil
}

// Run removes the machine.
func (c *MachinesRemove) Run(t *terminal) error {
	store, err := openMachines()
	if err != nil {
		return err
	}
	m, err := store.Remove(c.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "The machine %s was removed. Requests that it answers now go on.\n", m.Name)
	return nil
}

// checked is what `headroom machines check` says of a machine.
type checked struct {
	Name   string        `json:"name"`
	URL    string        `json:"url"`
	Off    bool          `json:"off,omitempty"`
	Models []route.Model `json:"models"`
	// Used are the models that the machine is used for; none: all. Missing are those of them that
	// it does not have.
	Used    []string `json:"used_models,omitempty"`
	Missing []string `json:"missing_models,omitempty"`
	Room    int64    `json:"room_bytes,omitempty"`
	Millis  float64  `json:"milliseconds,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// Run asks all machines at once. It fails if one of them does that is on.
func (c *MachinesCheck) Run(ctx context.Context, t *terminal) error {
	store, err := openMachines()
	if err != nil {
		return err
	}
	list := store.List()
	if len(c.Names) > 0 {
		list = nil
		for _, name := range c.Names {
			m, err := store.Named(name)
			if err != nil {
				return err
			}
			list = append(list, m)
		}
	}
	answers := make([]checked, len(list))
	var asking sync.WaitGroup
	for i, m := range list {
		asking.Go(func() { answers[i] = check(ctx, store, m) })
	}
	asking.Wait()
	failed := 0
	for _, a := range answers {
		if a.Error != "" && !a.Off {
			failed++
		}
	}
	if c.JSON {
		err = printJSON(t.out, struct {
			Machines []checked `json:"machines"`
		}{answers})
	} else {
		printChecked(t, answers)
	}
	if err == nil && failed > 0 {
		err = problem.New(problem.Upstream,
			fmt.Sprintf("%d of %s cannot be used", failed, numberOf(len(list), "machine")), "", "")
	}
	return err
}

func check(ctx context.Context, store *machines.Store, m machines.Machine) checked {
	a := checked{Name: m.Name, URL: m.URL, Off: m.Off, Models: []route.Model{}, Used: m.Models}
	secret, err := store.Secret(m)
	if err == nil {
		var found route.Found
		found, err = route.Probe(ctx, m, secret, service.Certificate)
		a.Models, a.Room = append(a.Models, found.Models...), found.RoomBytes
		a.Millis = float64(found.Took.Round(100*time.Microsecond)) / float64(time.Millisecond)
	}
	if err != nil {
		a.Error = err.Error()
		return a
	}
	for _, id := range m.Models {
		if !hasModel(a.Models, id) {
			a.Missing = append(a.Missing, id)
		}
	}
	return a
}

func printChecked(t *terminal, answers []checked) {
	if len(answers) == 0 {
		fmt.Fprintln(t.out, "There are no other machines. Add one: headroom machines add ADDRESS")
	}
	for _, a := range answers {
		name := oneLine(a.Name)
		if a.Off {
			name += " (off: it is sent nothing)"
		}
		if a.Error != "" {
			fmt.Fprintf(t.out, "%s: %s\n", name, oneLine(a.Error))
			continue
		}
		fmt.Fprintf(t.out, "%s answers in %.1f ms: %s\n", name, a.Millis,
			numberOf(len(a.Models), "model"))
		for _, id := range a.Missing {
			fmt.Fprintf(t.out, "  It has no model %s, which it is set to be used for.\n",
				oneLine(id))
		}
		for _, m := range a.Models {
			state := ""
			if m.Loaded {
				state = ", in memory"
			}
			if m.Requests > 0 {
				state += ", " + numberOf(m.Requests, "request")
			}
			if !usesModel(a.Used, m.ID) {
				state += ", not used"
			}
			fmt.Fprintf(t.out, "  %s%s\n", oneLine(m.ID), state)
		}
	}
}
