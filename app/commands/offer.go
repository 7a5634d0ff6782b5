package commands

// A model that is named and not on this machine: run and chat say how large it is and whether it
// fits, ask, download it and go on.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"headroom/app/host"
	"headroom/app/hub"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// OfferFlags are the flags of commands that download a model if it is not on this machine.
type OfferFlags struct {
	Yes bool `help:"Download a model that is not on this machine without asking."`
	HubFlags
}

// canAsk reports whether there is a person who can be asked. Tests replace it.
var canAsk = func(t *terminal) bool { return isTerminal(t.in) && isTerminal(t.err) }

// load starts a model and waits until it is loaded, as load does. A model of the hub that is not on
// this machine, or not complete, is downloaded first: with --yes, or if a person says so. asks
// means that stdin may be read for that.
func (f *OfferFlags) load(ctx context.Context, h *host.Host, s *settings.File, m *ModelFlags,
	name string, t *terminal, asks bool) error {
	missing := h.Start(name)
	if a, base := adapterNamed(h, name, missing); base != "" && !m.promptCaches {
		if m.Adapter != "" {
			return problem.New(problem.BadRequest, name+" names an adapter, and --adapter another",
				"", "Leave one of them out.")
		}
		m.Adapter, name = a, base
		missing = h.Start(name)
	}
	if missing == nil {
		return awaitModel(ctx, h, s, t.err)
	}
	if hub.CheckID(name) != nil || !absent(h, name, missing) {
		return blameSettings(missing, s, name)
	}
	if !f.Yes && !(asks && canAsk(t)) {
		p := *problem.From(missing)
		p.Fix = "To download it, add --yes, or run: headroom models download " + name
		return &p
	}
	if err := f.obtain(ctx, name, m.options(s.Get(), name), s.Get(), t); err != nil {
		return err
	}
	h.RescanModels()
	return load(ctx, h, s, name, t.err)
}

// adapterNamed returns the folder of the adapter and the ID of the model that a name means, as in
// "model+adapter"; "": there are none. err is the error of starting a model with that name.
func adapterNamed(h *host.Host, name string, err error) (dir, base string) {
	if err == nil || problem.From(err).Code != problem.ModelNotFound ||
		!strings.Contains(name, server.AdapterSign) {
		return "", ""
	}
	for _, m := range h.Models(0).Models {
		for _, a := range m.Adapters {
			if strings.EqualFold(a.ID, name) {
				return a.Path, m.ID
			}
		}
	}
	return "", ""
}

// absent reports whether a model with the ID of the hub is not on this machine, or only a part of
// it is. err is the error of starting it.
func absent(h *host.Host, id string, err error) bool {
	if problem.From(err).Code == problem.ModelNotFound {
		return true
	}
	return slices.ContainsFunc(h.Models(0).Models,
		func(m host.Model) bool { return m.ID == id && m.State == library.Downloading })
}

// obtain downloads a model, after saying what it takes. The error is a Problem, or ctx's.
func (f *OfferFlags) obtain(ctx context.Context, id string, o engine.Options, s settings.Settings,
	t *terminal) error {
	client, err := f.client(s)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.err, "%s is not on this machine. Looking for it at %s.\n", id, client.Endpoint())
	r, err := client.Repository(ctx, id, "")
	if err != nil {
		return err
	}
	needed, err := client.Needed(r)
	if err != nil {
		return err
	}
	var bytes int64
	for _, file := range needed {
		bytes += max(file.Size, 0)
	}
	fits, sentence, err := fit(ctx, client, r, needed, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.err, "It has %s. %s", formatBytes(bytes), sentence)
	switch {
	case f.Yes && !fits:
		return problem.New(problem.DoesNotFit, id+" was not downloaded",
			"it does not fit in memory",
			"To download it all the same, run: headroom models download "+id)
	case !f.Yes:
		if yes, err := askYes(ctx, t, "Download it?", fits); err != nil || !yes {
			if err == nil {
				err = exitProblem // nobody needs to hear that
			}
			return err
		}
	}
	_, err = download(ctx, t.err, client, hub.Request{ID: id})
	return err
}

var fitWords = map[memory.Fit]string{memory.Yes: "fits", memory.Tight: "just fits",
	memory.No: "does not fit"}

// fit reports whether a model of the hub fits in memory, and says so in a line. The error is a
// Problem: it cannot run here, or ctx's.
func fit(ctx context.Context, client *hub.Client, r hub.Repository, needed []hub.File,
	o engine.Options) (fits bool, sentence string, err error) {
	config, err := client.Config(ctx, r.ID, r.Commit)
	if err != nil {
		return false, "", err
	}
	reading, err := new(memory.Meter).Read()
	if err != nil {
		return true, "\n", nil
	}
	room := reading.HeadroomBytes(memory.EngineBytes{}, memory.EngineBytes{})
	d, err := library.DescribeSource(engine.Random(config), o)
	need, least := host.EstimateNeed(d, room), ""
	switch {
	case err != nil && problem.From(err).Code == problem.UnknownArchitecture:
		return false, "", err
	case err != nil: // its config.json alone does not tell, as that of a model in 16 bits
		need, least = weightBytes(needed), "at least "
	}
	how := memory.Fits(need, room)
	words := fitWords[how]
	if least != "" && how != memory.No {
		words = "may fit"
	}
	return how != memory.No, fmt.Sprintf("It needs %s%s of memory and %s: %s are available.\n",
		least, memory.Text(need), words, memory.Text(room)), nil
}

// weightBytes returns the size of the files with weights.
func weightBytes(files []hub.File) (bytes int64) {
	for _, f := range files {
		if strings.HasSuffix(f.Path, ".safetensors") {
			bytes += max(f.Size, 0)
		}
	}
	return bytes
}

// askYes asks a question that is answered with yes or no. An empty answer is the default.
func askYes(ctx context.Context, t *terminal, question string, byDefault bool) (bool, error) {
	choice := "[y/N]"
	if byDefault {
		choice = "[Y/n]"
	}
	fmt.Fprintf(t.err, "%s %s ", question, choice)
	line, err := abandonable(ctx, func() (string, error) { return readLine(t.in) })
	switch {
	case errors.Is(err, io.EOF) && line == "": // Ctrl-D
		fmt.Fprintln(t.err)
		return false, nil
	case err != nil && !errors.Is(err, io.EOF):
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "":
		return byDefault, nil
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// readLine reads a line and nothing after it: the rest of the input is not for this question.
func readLine(in io.Reader) (string, error) {
	var line strings.Builder
	for b := make([]byte, 1); ; {
		n, err := in.Read(b)
		if n == 1 && b[0] == '\n' {
			return line.String(), nil
		}
		line.Write(b[:n])
		if err != nil {
			return line.String(), err
		}
	}
}
