// Package tray decides what Headroom's menu-bar icon shows. menu.go and words.go make the icon,
// tooltip and menu of a state. draw.go updates the native menu. The package links no tray library;
// the program that links one implements Native.
//
// In every state the menu has the same rows in the same order, at most 12 and two separators,
// because rows of a native menu can only be appended. A row without content is hidden. A row that
// does not change is not redrawn.
package tray

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"headroom/app/host"
	"headroom/app/memory"
	"headroom/app/places"
	"headroom/app/update"
)

// State is everything that icon and menu show.
type State struct {
	host.State
	Models []host.Model
	Recent []string // IDs of the models that ran, the last one first
	Watch  host.ModelsWatch
	Chats  []Chat // the latest first
	// Downloads are running or waiting.
	Downloads []Download
	Figure    Figure // shown beside the icon
	// Notice is a message, such as that another port is used; "" for none.
	Notice  string
	CanCopy bool // a click can copy text to the clipboard
	Update  update.Known
}

// Chat is a conversation of the Chat page.
type Chat struct{ ID, Title string }

// Download is a download of a model.
type Download struct {
	Title                 string
	DoneBytes, TotalBytes int64         // TotalBytes is 0 if it is not known
	Left                  time.Duration // estimated; negative: not known
}

// Figure is what is shown beside the icon; "": nothing.
type Figure string

// The figures.
const (
	FigureSpeed  Figure = "speed"  // while a model answers
	FigureMemory Figure = "memory" // available for a model
)

// Item is a row of the menu.
type Item struct {
	Title     string
	Tooltip   string
	Disabled  bool
	Checked   bool
	Hidden    bool
	Separator bool // only at the top level; the other fields are zero
	Click     Action
	Submenu   []Item // its length may change
}

// Verb is the kind of an Action.
type Verb string

// The verbs.
const (
	Nothing Verb = ""
	Start   Verb = "start"  // Text: the ID of the model, "" for the last one
	Stop    Verb = "stop"   // Text: the ID of the model, "" for all
	Copy    Verb = "copy"   // Text: the text to copy
	Pause   Verb = "pause"  // pauses the watching of folders
	Resume  Verb = "resume" // resumes it
	Open    Verb = "open"   // Text: the place in the window, as in its address; "": as it was left
	Quit    Verb = "quit"
)

// Action is what a click does: a verb and its argument.
type Action struct {
	Verb Verb
	Text string
}

// maxModels is how many models the submenu lists, so that it fits on a screen. The window lists
// all.
const maxModels = 20

// menuFor returns the menu for a state.
func menuFor(s State) []Item {
	return []Item{
		{Title: stateLine(s), Disabled: true, Tooltip: s.Engine.Device},
		detail(s),
		engineSwitch(s),
		{Title: "Models", Submenu: models(s), Disabled: len(s.Models) == 0},
		{Title: "Chats", Submenu: chats(s)},
		downloads(s),
		{Separator: true},
		memoryLine(s),
		cacheLine(s),
		endpoint(s),
		watching(s),
		{Separator: true},
		{Title: "Open Headroom", Click: Action{Verb: Open}},
		{Title: "Quit Headroom", Click: Action{Verb: Quit}},
	}
}

// detail returns the row for an error, a notice, a power measure or an update. A click opens the
// window, which has the details. Without any of them, the row has the drafts of the model in front.
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
	if u := s.Update; s.Notice == "" && u.Version != "" {
		return Item{Title: updateLine(u), Tooltip: "Click to see it in Settings.",
			Click: Action{Open, places.Settings}}
	}
	if text := drafts(s.Engine); s.Notice == "" && text != "" {
		return Item{Title: text, Tooltip: draftsTooltip(s.Engine), Disabled: true}
	}
	return Item{Title: shorten(s.Notice, 64), Tooltip: s.Notice, Hidden: s.Notice == "",
		Click: Action{Verb: Open}}
}

func engineSwitch(s State) Item {
	switch s.Engine.Status {
	case host.Loading:
		return Item{Title: "Cancel Loading", Click: Action{Verb: Stop}}
	case host.Ready, host.Busy, host.IdleUnloaded:
		if loadedBeside(s) > 0 {
			return Item{Title: "Stop All Models", Click: Action{Verb: Stop}}
		}
		return Item{Title: "Stop Engine", Click: Action{Verb: Stop}}
	case host.Failed:
		if s.Engine.RetryAtUnixMs > 0 { // it is loaded again without a click, but later
			return Item{Title: "Try Now", Click: Action{Start, s.Engine.Model}}
		}
		return Item{Title: "Try Again", Click: Action{Start, s.Engine.Model}}
	}
	return Item{Title: "Start Engine", Click: Action{Verb: Start}}
}

// loadedBeside counts the models that are loaded or loading besides the one in front.
func loadedBeside(s State) (n int) {
	for _, e := range s.Engines {
		if e.Model != s.Engine.Model && takesMemory(e.Status) {
			n++
		}
	}
	return n
}

func takesMemory(s host.Status) bool {
	return s == host.Loading || s == host.Ready || s == host.Busy
}

// models returns a row for each model: the loaded ones first, then the recent ones. A click loads a
// model. Loaded and loading models have a checkmark, and a click unloads them. The rows of
// downloading and damaged models are disabled. Models that can never run have no row.
func models(s State) []Item {
	var items []Item
	listed := slices.DeleteFunc(slices.Clone(s.Models),
		func(m host.Model) bool { return m.State.IsNoModel() })
	isCurrent := func(m host.Model) bool {
		return m.ID == s.Engine.Model && s.Engine.Status != host.Failed ||
			slices.ContainsFunc(s.Engines, func(e host.EngineState) bool {
				return e.Model == m.ID && takesMemory(e.Status)
			})
	}
	rank := func(m host.Model) int {
		switch {
		case m.ID == s.Engine.Model && isCurrent(m):
			return -2
		case isCurrent(m):
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
		if i == maxModels {
			items = append(items, Item{Title: plural(len(listed)-i, "more model") + " in Headroom",
				Click: Action{Verb: Open}})
			break
		}
		item := Item{Title: modelLine(m, s), Tooltip: modelTooltip(m),
			Disabled: m.Fits == memory.No || m.Error != "", Click: Action{Start, m.ID}}
		if isCurrent(m) {
			item.Checked, item.Disabled, item.Click = true, false, Action{Stop, m.ID}
			item.Tooltip += ". Click to unload."
		}
		items = append(items, item)
	}
	return items
}

// maxChats is how many conversations the submenu lists.
const maxChats = 8

// chats returns the rows that begin a conversation and that open the latest ones.
func chats(s State) []Item {
	items := []Item{{Title: "New Chat", Click: Action{Open, places.NewChat}}}
	for _, c := range s.Chats[:min(len(s.Chats), maxChats)] {
		items = append(items, Item{Title: shorten(cmp.Or(c.Title, "Untitled"), 48),
			Tooltip: c.Title, Click: Action{Open, places.Chat(c.ID)}})
	}
	return items
}

// downloads returns the row of the downloads, hidden without any.
func downloads(s State) Item {
	return Item{Title: downloadLine(s.Downloads), Hidden: len(s.Downloads) == 0,
		Tooltip: "Click to see it on the Models page.", Click: Action{Open, places.Models}}
}

// memoryLine returns the row of the memory: its bar, and what is available or, while memory is
// short, what to unload. A click then opens the page that does it.
func memoryLine(s State) Item {
	text := available(s.Memory)
	item := Item{Disabled: true, Tooltip: memoryTooltip(s.Memory)}
	if s.Pressure.Level.Short() {
		text = pressure(s.Pressure)
		item = Item{Tooltip: "Click to see it on the Memory page.",
			Click: Action{Open, places.Memory}}
	}
	item.Title = strings.TrimSpace(memoryBar(s.Memory) + "  " + text)
	return item
}

// cacheLine returns the row for the size of the cache on SSD, hidden without a cache.
func cacheLine(s State) Item {
	return Item{Title: cacheSize(s.Cache), Disabled: true, Hidden: !s.Cache.On,
		Tooltip: "Cached conversations on disk. 1 GB = 10^9 bytes."}
}

// watching returns the row that pauses or resumes the watching of folders.
func watching(s State) Item {
	switch {
	case s.Watch.Paused:
		return Item{Title: "Resume Watching Folders",
			Tooltip: "New models are not found until you scan for them.",
			Click:   Action{Verb: Resume}}
	case s.Watch.On:
		return Item{Title: "Pause Watching Folders",
			Tooltip: "New models are found automatically.", Click: Action{Verb: Pause}}
	}
	return Item{Title: "Watching Folders", Hidden: true}
}

// endpoint returns the row with the address. A click copies it, or opens the window if there is no
// clipboard.
func endpoint(s State) Item {
	url := s.Endpoint.URL
	switch {
	case url == "":
		return Item{Title: "No endpoint yet", Disabled: true}
	case !s.CanCopy:
		return Item{Title: url, Tooltip: "The address for OpenAI clients.",
			Click: Action{Verb: Open}}
	}
	return Item{Title: "Copy " + url, Tooltip: "The address for OpenAI clients. Click to copy.",
		Click: Action{Copy, url}}
}
