package main

// The menus of the Mac's menu bar. A row sends a command to the page, which has the same commands
// for its keys and its palette (frontend/src/windowcommands.ts). Other systems have no menu: it
// would be a bar inside the window.

import (
	goruntime "runtime"

	"github.com/wailsapp/wails/v2/pkg/menu"
	"github.com/wailsapp/wails/v2/pkg/menu/keys"
)

// row is a row of a menu; the zero value is a separator.
type row struct {
	title   string
	command string
	key     *keys.Accelerator
}

// settingsKey is the key of Settings. By it placeSettings finds the row.
const settingsKey = ","

// The menus with Headroom's own rows. Wails adds the application's, Edit and Window: a Mac's own
// rows, which act on the text field in focus or on the window.
var (
	fileRows = []row{
		{"New Chat", "new-chat", keys.CmdOrCtrl("n")},
		{"New Private Chat", "new-private-chat", keys.Combo("n", keys.CmdOrCtrlKey, keys.ShiftKey)},
		{},
		{"Download a Model…", "download", nil},
		{"Import a Model…", "import", nil},
		{},
		{"Settings…", "page-settings", keys.CmdOrCtrl(settingsKey)},
		{},
		{"Close Window", "close", keys.CmdOrCtrl("w")},
	}
	findRows = []row{
		{"Find…", "find", keys.CmdOrCtrl("f")},
		{"Commands…", "palette", keys.CmdOrCtrl("k")},
	}
	viewRows = []row{
		{"Overview", "page-overview", keys.CmdOrCtrl("1")},
		{"Chat", "page-chat", keys.CmdOrCtrl("2")},
		{"Models", "page-models", keys.CmdOrCtrl("3")},
		{"Memory", "page-memory", keys.CmdOrCtrl("4")},
		{"Cache", "page-cache", keys.CmdOrCtrl("5")},
		{"Try", "page-try", keys.CmdOrCtrl("6")},
		{"Agents", "page-agents", keys.CmdOrCtrl("7")},
		{"Adapt", "page-adapt", keys.CmdOrCtrl("8")},
		{},
		{"Actual Size", "zoom-reset", keys.CmdOrCtrl("0")},
		{"Zoom In", "zoom-in", keys.CmdOrCtrl("+")},
		{"Zoom Out", "zoom-out", keys.CmdOrCtrl("-")},
	}
)

// applicationMenu returns the menus of the menu bar, nil where there is none. A click calls send
// with the row's command.
func applicationMenu(send func(command string)) *menu.Menu {
	if goruntime.GOOS != "darwin" {
		return nil
	}
	return macMenu(send)
}

func macMenu(send func(command string)) *menu.Menu {
	all := menu.NewMenu()
	all.Append(menu.AppMenu())
	add := func(title string, rows []row) {
		m := all.AddSubmenu(title)
		for _, r := range rows {
			if r.command == "" {
				m.AddSeparator()
				continue
			}
			m.AddText(r.title, r.key, func(*menu.CallbackData) { send(r.command) })
		}
	}
	add("File", fileRows)
	all.Append(menu.EditMenu())
	add("Find", findRows)
	add("View", viewRows)
	all.Append(menu.WindowMenu())
	return all
}
