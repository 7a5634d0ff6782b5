// Package tray decides what the tray shows: icon, tooltip and menu for a state (menu.go, words.go),
// and which strokes bring a drawn tray up to date (draw.go). It links no tray library: the program
// that has one implements Native.
//
// Invariants: the menu has the same rows in the same order whatever the state, since trays only
// append (a row that says nothing now is hidden); at most 12 of them; nothing is redrawn that looks
// the same.
package tray

import (
	"cmp"
	"slices"
	"strings"

	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
)

// State is all that the tray shows.
type State struct {
	host.State
	Models []host.Model
	Recent []string // models that ran, by ID, the last one first
	Watch  host.ModelsWatch
	// what a person should know besides, such as that another port is used; "": nothing
	Notice  string
	CanCopy bool // text can be put on the clipboard
}

// Item is a row of the menu.
type Item struct {
	Title     string
	Tooltip   string
	Disabled  bool
	Checked   bool
	Hidden    bool
	Separator bool // a line; the other fields are zero. Not in a submenu.
	Click     Action
	Submenu   []Item // appended to as needed; surplus rows are hidden
}

// Verb is what a click does.
type Verb string

// The verbs.
const (
	Nothing Verb = ""
	Start   Verb = "start" // Text: the model's ID, "" for the last one
	Stop    Verb = "stop"
	Copy    Verb = "copy"  // Text: what to copy
	Pause   Verb = "pause" // watching folders
	Resume  Verb = "resume"
	Open    Verb = "open"
	Quit    Verb = "quit"
)

// Action is a verb and what it is about.
type Action struct {
	Verb Verb
	Text string
}

// mostModels keeps the submenu on the screen; the window lists the rest.
const mostModels = 20

// menuFor is the menu of a state.
func menuFor(s State) []Item {
	return []Item{
		{Title: stateLine(s), Disabled: true, Tooltip: s.Engine.Device},
		detail(s),
		engineSwitch(s),
		{Title: "Models", Submenu: models(s), Disabled: len(s.Models) == 0},
		{Separator: true},
		{Title: room(s.Memory), Disabled: true,
			Tooltip: "What a new model could take. Reported by the system; 1 GB = 2^30 bytes."},
		cacheLine(s),
		endpoint(s),
		watching(s),
		{Separator: true},
		{Title: "Open Headroom", Click: Action{Verb: Open}},
		{Title: "Quit Headroom", Click: Action{Verb: Quit}},
	}
}

// detail says why something is not as it should be, or what is done about battery and heat; a click
// opens the window, which says it in full.
func detail(s State) Item {
	if e := s.Engine.Error; s.Engine.Status == host.Failed && e != nil {
		text := e.Why
		if text == "" {
			text = e.Message
		}
		return Item{Title: shorten(sentence(text), 64),
			Tooltip: strings.Join([]string{sentence(e.Message), sentence(e.Why), sentence(e.Fix)},
				" "), Click: Action{Verb: Open}}
	}
	if m := s.Power.Measures; s.Notice == "" && len(m) > 0 {
		return Item{Title: m[0].Title, Tooltip: measures(m), Click: Action{Verb: Open}}
	}
	return Item{Title: shorten(s.Notice, 64), Tooltip: s.Notice, Hidden: s.Notice == "",
		Click: Action{Verb: Open}}
}

func engineSwitch(s State) Item {
	switch s.Engine.Status {
	case host.Loading:
		return Item{Title: "Cancel Loading", Click: Action{Verb: Stop}}
	case host.Ready, host.Busy, host.IdleUnloaded:
		return Item{Title: "Stop Engine", Click: Action{Verb: Stop}}
	case host.Failed:
		return Item{Title: "Try Again", Click: Action{Start, s.Engine.Model}}
	}
	return Item{Title: "Start Engine", Click: Action{Verb: Start}}
}

// models has a row for each model, the one that runs first, then those that ran last. One click
// loads and starts a model; the one that runs, or is being loaded, has the mark, and a click
// unloads it. What is downloading or damaged cannot be clicked; what can never be started is left
// to the window.
func models(s State) []Item {
	var items []Item
	listed := slices.DeleteFunc(slices.Clone(s.Models),
		func(m host.Model) bool { return m.State == library.NotLoadable })
	isCurrent := func(m host.Model) bool {
		return m.ID == s.Engine.Model &&
			s.Engine.Status != host.Failed
	}
	rank := func(m host.Model) int {
		if isCurrent(m) {
			return -1
		}
		if i := slices.Index(s.Recent, m.ID); i >= 0 {
			return i
		}
		return len(s.Recent)
	}
	slices.SortStableFunc(listed,
		func(a, b host.Model) int { return cmp.Compare(rank(a), rank(b)) })
	for i, m := range listed {
		if i == mostModels {
			items = append(items, Item{Title: plural(len(listed)-i, "more model") + " in Headroom",
				Click: Action{Verb: Open}})
			break
		}
		item := Item{Title: modelLine(m, s.Memory), Tooltip: modelTooltip(m),
			Disabled: m.Fits == memory.No || m.Error != "", Click: Action{Start, m.ID}}
		if isCurrent(m) {
			item.Checked, item.Disabled, item.Click = true, false, Action{Verb: Stop}
			item.Tooltip += "; a click unloads it"
		}
		items = append(items, item)
	}
	return items
}

// cacheLine is the cache on disk, if there is one.
func cacheLine(s State) Item {
	return Item{Title: cacheSize(s.Cache), Disabled: true, Hidden: !s.Cache.On,
		Tooltip: "What is kept of conversations on disk. 1 GB = 10^9 bytes."}
}

// watching has the list of models follow the disk, or rest.
func watching(s State) Item {
	switch {
	case s.Watch.Paused:
		return Item{Title: "Resume Watching Folders", Tooltip: "New models are not noticed now.",
			Click: Action{Verb: Resume}}
	case s.Watch.On:
		return Item{Title: "Pause Watching Folders",
			Tooltip: "New models are noticed by themselves.", Click: Action{Verb: Pause}}
	}
	return Item{Title: "Watching Folders", Hidden: true}
}

// endpoint shows the address. Where nothing can be copied, the click opens the window, in which it
// can be selected.
func endpoint(s State) Item {
	url := s.Endpoint.URL
	switch {
	case url == "":
		return Item{Title: "No endpoint yet", Disabled: true}
	case !s.CanCopy:
		return Item{Title: url, Tooltip: "The address for OpenAI clients.",
			Click: Action{Verb: Open}}
	}
	return Item{Title: "Copy " + url, Tooltip: "The address for OpenAI clients; a click copies it.",
		Click: Action{Copy, url}}
}
