package commands

// A model that is moved to the Trash: `headroom models delete`. It says first what goes and what
// uses it. A running server does it, as its window does, because it knows whether the model is in
// use. Without one, the command does it itself.

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"headroom/app/control"
	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// ModelsDelete is `headroom models delete`.
type ModelsDelete struct {
	Model     string   `arg:"" help:"Model to delete: a name of the list of models, or a folder in a models folder. MODEL+ADAPTER deletes that adapter alone." placeholder:"NAME"`
	Folder    string   `help:"Which one to delete of a model that is in several folders." placeholder:"DIR" type:"path"`
	Yes       bool     `help:"Delete without asking."`
	ModelsDir []string `help:"Another folder to look for models in; may be repeated." placeholder:"DIR" sep:"none" type:"path"`
}

// Run says what goes, asks, and moves the model to the Trash.
func (c *ModelsDelete) Run(ctx context.Context, t *terminal) error {
	s := service.OpenSettings().Get()
	lib := libraryOf(c.ModelsDir)
	models := lib.Scan()
	m, a, err := host.ResolveAdapted(lib, models, c.Model, aliases(s))
	if a != nil {
		return c.deleteAdapter(ctx, t, lib, models, m.ID, *a)
	}
	// A model that is damaged or not complete is deleted, too.
	if m.ID == "" || err != nil && m.Err == nil {
		return err
	}
	place, err := c.place(&m)
	if err != nil {
		return err
	}
	if name := inUse(ctx, m.ID); name != "" {
		return problem.New(problem.Busy, "Nothing was deleted", m.ID+" is loaded by the server at "+
			name, "Stop the model there first.")
	}
	c.show(t.err, &m, place, usesOf(&m, models, s))
	if err := c.agreed(ctx, t); err != nil {
		return err
	}
	if err := remove(ctx, lib, m, place); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s was moved to the Trash.\n", oneLine(place))
	return nil
}

// agreed asks, unless --yes is given.
func (c *ModelsDelete) agreed(ctx context.Context, t *terminal) error {
	if c.Yes {
		return nil
	}
	if !canAsk(t) {
		return problem.New(problem.BadRequest, "Nothing was deleted", "nobody can be asked",
			"Add --yes to delete it.")
	}
	if yes, err := askYes(ctx, t, "Move it to the Trash?", false); err != nil || !yes {
		return cmp.Or(err, error(exitProblem))
	}
	return nil
}

// deleteAdapter moves one adapter of a model to the Trash, and leaves the model.
func (c *ModelsDelete) deleteAdapter(ctx context.Context, t *terminal, lib *library.Library,
	models []library.Model, model string, a engine.Adapter) error {
	if c.Folder != "" && !same(c.Folder, a.Dir) {
		return problem.New(problem.NotFound, "The adapter is not in "+c.Folder, "",
			"It is in "+a.Dir+".")
	}
	if name := inUse(ctx, model); name != "" {
		return problem.New(problem.Busy, "Nothing was deleted", model+" is loaded by the server "+
			"at "+name+", and may use the adapter", "Stop the model there first.")
	}
	fmt.Fprintf(t.err, "%s: %s\nThe model %s stays.\n",
		oneLine(model+server.AdapterSign+a.Name), oneLine(a.Dir), oneLine(model))
	if err := c.agreed(ctx, t); err != nil {
		return err
	}
	if err := lib.RemoveAdapter(a.Dir, models); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s was moved to the Trash.\n", oneLine(a.Dir))
	return nil
}

// place returns the folder to delete.
func (c *ModelsDelete) place(m *library.Model) (string, error) {
	if m.Bundled {
		return "", problem.New(problem.BadRequest, "The bundled model cannot be deleted",
			"it is a part of the program", "")
	}
	if c.Folder == "" && len(m.Places) < 2 {
		return m.Dir, nil
	}
	var all []string
	for _, p := range m.Places {
		if p.Dir == filepath.Clean(c.Folder) || c.Folder != "" && same(p.Dir, c.Folder) {
			return p.Dir, nil
		}
		all = append(all, "--folder "+quoteWord(p.Dir))
	}
	if c.Folder == "" {
		return "", problem.New(problem.BadRequest, m.ID+" is in several folders", "",
			"Say which one to delete: "+strings.Join(all, " or "))
	}
	return "", problem.New(problem.NotFound, m.ID+" is not in "+c.Folder, "",
		"It is in: "+strings.Join(all, ", "))
}

// show prints what goes with the model.
func (c *ModelsDelete) show(out io.Writer, m *library.Model, place string, uses []string) {
	size := ""
	if m.SizeBytes > 0 {
		size = ", " + formatBytes(m.SizeBytes)
	}
	fmt.Fprintf(out, "%s%s: %s\n", oneLine(m.ID), size, oneLine(place))
	for _, p := range m.Places {
		if p.Dir == place && p.Origin == library.HuggingFace {
			fmt.Fprintln(out, "It is in the cache of the hub, which other programs use. All its "+
				"snapshots go.")
		}
	}
	for _, use := range uses {
		fmt.Fprintln(out, oneLine(use))
	}
}

// usesOf returns sentences about what needs the model or goes with it.
func usesOf(m *library.Model, models []library.Model, s settings.Settings) (uses []string) {
	for _, a := range m.Adapters {
		name := m.ID + server.AdapterSign + a.Name
		if library.Contains([]string{m.Dir}, a.Dir) {
			uses = append(uses, "The adapter "+name+" is in its folder and goes with it.")
		} else {
			uses = append(uses, "The adapter "+name+" cannot be used without it.")
		}
	}
	if s.DefaultModel != "" && m.HasName(s.DefaultModel) {
		uses = append(uses, "It is the default model of the settings.")
	}
	for _, other := range models {
		drafter := s.ForModel(other.ID).DraftModel
		if drafter != "" && other.ID != m.ID && (m.HasName(drafter) ||
			strings.EqualFold(m.Name, drafter) || slices.Contains(s.ForModel(m.ID).Aliases,
			drafter) || drafter == m.Dir) {
			uses = append(uses, "It is the draft model of "+other.ID+".")
		}
	}
	return uses
}

// inUse returns the address of a running server that has the model loaded or loads it; "": none.
func inUse(ctx context.Context, id string) (address string) {
	eachServer(func(s runningServer) bool {
		var state host.State
		if s.ask(ctx, askTimeout, http.MethodGet, "control/state", &state) != nil {
			return true
		}
		for _, e := range state.Engines {
			if e.Model == id && (e.Status == host.Ready || e.Status == host.Loading) {
				address = s.url
			}
		}
		return address == ""
	})
	return address
}

// remove has a running server move the folder of the model to the Trash, or does it itself.
func remove(ctx context.Context, lib *library.Library, m library.Model, place string) (err error) {
	done := false
	eachServer(func(s runningServer) bool {
		err = s.send(ctx, deleteTimeout, http.MethodPost, "control/models/"+
			url.PathEscape(m.ID)+"/remove", control.PlaceRequest{Path: place}, nil)
		if code := problem.From(err).Code; err != nil && (code == problem.ModelNotFound ||
			code == problem.NotFound) {
			err = nil // it looks into other folders
			return true
		}
		done = true
		return false
	})
	if done {
		return err
	}
	return lib.Remove(m, place)
}
