package main

// The menu, drawn by systray. Package tray decides what it shows and is tested without a screen.
// This file only calls systray and works around some behaviour of GTK.

import (
	"github.com/getlantern/systray"

	"headroom/app/tray"
)

// nativeTray implements the tray with systray. It is used by one goroutine.
type nativeTray struct{}

// pictures has each icon as a template and in colour. It is never freed, because on Linux systray
// passes the bytes to GLib without copying them.
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
func (nativeTray) SetTitle(text string)   { systray.SetTitle(text) }
func (nativeTray) AppendSeparator()       { systray.AddSeparator() }

func (nativeTray) Append() tray.Row { return &nativeRow{item: systray.AddMenuItem("", "")} }

// nativeRow stores what it shows, because systray redraws a row whenever a property is set.
type nativeRow struct {
	item           *systray.MenuItem
	hidden         bool
	title, tooltip string
}

// Append adds a row that can have a checkmark. On Linux, systray must know that when it creates the
// row.
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
	// Always set the checkmark, because GTK toggles the checkmark of a clicked row.
	if i.Checked {
		r.item.Check()
	} else {
		r.item.Uncheck()
	}
}
