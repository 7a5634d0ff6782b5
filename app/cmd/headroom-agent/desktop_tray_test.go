//go:build e2e

package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"headroom/app/tray"
)

// trayItem is the agent's icon on the session bus: an org.kde.StatusNotifierItem, whose menu is a
// com.canonical.dbusmenu.
type trayItem struct {
	p    *program
	item dbus.BusObject
	bar  dbus.BusObject
}

// trayItem waits until the panel has an icon of the agent's process.
func (p *program) trayItem() *trayItem {
	p.t.Helper()
	conn, err := dbus.ConnectSessionBus()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	i := &trayItem{p: p}
	p.eventually("the panel has the agent's icon", func() bool {
		watcher := conn.Object("org.kde.StatusNotifierWatcher", "/StatusNotifierWatcher")
		var items []string
		if watcher.StoreProperty("org.kde.StatusNotifierWatcher.RegisteredStatusNotifierItems",
			&items) != nil {
			return false
		}
		for _, name := range items {
			bus, path, _ := strings.Cut(name, "/")
			var pid uint32
			call := conn.BusObject().Call("org.freedesktop.DBus.GetConnectionUnixProcessID", 0, bus)
			if call.Store(&pid) == nil && int(pid) == p.command.Process.Pid {
				i.item = conn.Object(bus, dbus.ObjectPath("/"+path))
			}
		}
		if i.item == nil {
			return false
		}
		var menu dbus.ObjectPath
		if i.item.StoreProperty("org.kde.StatusNotifierItem.Menu", &menu) != nil {
			return false
		}
		i.bar = conn.Object(i.item.Destination(), menu)
		return true
	})
	return i
}

// showsIcon waits until the panel shows the icon: the item names a file that contains it.
func (i *trayItem) showsIcon(want tray.Icon) {
	i.p.t.Helper()
	i.p.eventually("the icon is "+string(want), func() bool {
		var path string
		if i.item.StoreProperty("org.kde.StatusNotifierItem.IconName", &path) != nil {
			return false
		}
		data, err := os.ReadFile(path)
		return err == nil && bytes.Equal(data, want.Coloured())
	})
}

// node is a row of the menu, as GetLayout returns it: (ia{sv}av).
type node struct {
	ID         int32
	Properties map[string]dbus.Variant
	Children   []dbus.Variant
}

func (n node) text(name string) string {
	s, _ := n.Properties[name].Value().(string)
	return s
}

// flag returns a Boolean property of a row. D-Bus omits properties that have their default value.
func (n node) flag(name string) bool {
	v, given := n.Properties[name]
	b, _ := v.Value().(bool)
	return !given || b
}

func (n node) enabled() bool { return n.flag("enabled") }

func (n node) checked() bool {
	state, _ := n.Properties["toggle-state"].Value().(int32)
	return state == 1
}

// label returns the row's label. In dbusmenu, two underscores stand for one, and a single one marks
// a keyboard shortcut.
func (n node) label() string {
	if n.text("type") == "separator" {
		return "-"
	}
	return strings.ReplaceAll(n.text("label"), "__", "_")
}

func (n node) visible() []node {
	var rows []node
	for _, child := range n.Children {
		var row node
		if dbus.Store([]any{child.Value()}, &row) == nil && row.flag("visible") {
			rows = append(rows, row)
		}
	}
	return rows
}

func (n node) labels() []string {
	var labels []string
	for _, row := range n.visible() {
		labels = append(labels, row.label())
	}
	return labels
}

// find returns the first visible row whose label matches, also in submenus.
func (n node) find(label *regexp.Regexp) (node, bool) {
	for _, row := range n.visible() {
		if label.MatchString(row.label()) {
			return row, true
		}
		if sub, ok := row.find(label); ok {
			return sub, true
		}
	}
	return node{}, false
}

func whole(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }

func (n node) row(t *testing.T, pattern string) node {
	t.Helper()
	row, ok := n.find(whole(pattern))
	if !ok {
		t.Fatalf("no row %q among %q", pattern, n.labels())
	}
	return row
}

func (i *trayItem) menu() node {
	i.p.t.Helper()
	var revision uint32
	var root node
	if err := i.bar.Call("com.canonical.dbusmenu.GetLayout", 0, int32(0), int32(-1),
		[]string{}).Store(&revision, &root); err != nil {
		i.p.t.Fatal(err)
	}
	return root
}

// waitRow waits for a visible row with the label.
func (i *trayItem) waitRow(pattern string) node {
	i.p.t.Helper()
	var row node
	i.p.eventually("the menu has a row "+pattern, func() (ok bool) {
		row, ok = i.menu().find(whole(pattern))
		return ok
	})
	return row
}

// click waits for an enabled row and clicks it.
func (i *trayItem) click(pattern string) {
	i.p.t.Helper()
	var row node
	i.p.eventually("the row "+pattern+" can be clicked", func() (ok bool) {
		row, ok = i.menu().find(whole(pattern))
		return ok && row.enabled()
	})
	if err := i.bar.Call("com.canonical.dbusmenu.Event", 0, row.ID, "clicked", dbus.MakeVariant(""),
		uint32(0)).Err; err != nil {
		i.p.t.Fatal(err)
	}
}
