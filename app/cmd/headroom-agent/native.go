package main

// The system's tray behind the interface of package tray. What to show is decided there and tested
// without a screen; here are only the calls of systray and the quirks of GTK.

import (
	"github.com/getlantern/systray"

	"headroom/app/tray"
)

// nativeTray is the tray that systray draws. Everything here is called by one goroutine.
type nativeTray struct{}

// pictures are kept for good: on Linux systray hands the bytes to GLib without copying them.
var pictures = func() map[tray.Icon][2][]byte {
	all := map[tray.Icon][2][]byte{}
	for _, icon := range tray.Icons {
		all[icon] = [2][]byte{icon.Template(), icon.Coloured()}
	}
	return all
}()

func (nativeTray) SetIcon(i tray.Icon) {
	p := pictures[i]
	systray.SetTemplateIcon(p[0], p[1])
}

func (nativeTray) SetTooltip(text string) { systray.SetTooltip(text) }
func (nativeTray) AppendSeparator()       { systray.AddSeparator() }

func (nativeTray) Append() tray.Row { return &nativeRow{item: systray.AddMenuItem("", "")} }

// nativeRow remembers what it shows, since systray redraws the row for each of its properties.
type nativeRow struct {
	item           *systray.MenuItem
	hidden         bool
	title, tooltip string
}

// Append makes rows that can have a mark, which on Linux must be known beforehand.
func (r *nativeRow) Append() tray.Row {
	return &nativeRow{item: r.item.AddSubMenuItemCheckbox("", "", false)}
}

func (r *nativeRow) Clicks() <-chan struct{} { return r.item.ClickedCh }

func (r *nativeRow) Hide() {
	r.hidden = true
	r.item.Hide()
}

func (r *nativeRow) Show(i tray.Item) {
	if r.hidden {
		r.hidden = false
		r.item.Show()
	}
	if i.Title != r.title {
		r.title = i.Title
		r.item.SetTitle(i.Title)
	}
	if i.Tooltip != r.tooltip {
		r.tooltip = i.Tooltip
		r.item.SetTooltip(i.Tooltip)
	}
	if i.Disabled && !r.item.Disabled() {
		r.item.Disable()
	} else if !i.Disabled && r.item.Disabled() {
		r.item.Enable()
	}
	// Always: GTK changes the mark of a row that is clicked without telling.
	if i.Checked {
		r.item.Check()
	} else {
		r.item.Uncheck()
	}
}
