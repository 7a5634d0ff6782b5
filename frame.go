package main

// The window's frame: where it is, how large, how far it is zoomed, and which place it shows. Pages
// call it as window.go.main.Frame (frontend/src/lib/host.ts), and get its commands as events.

import (
	"context"
	"fmt"
	"os"
	goruntime "runtime"
	"sync"

	"github.com/wailsapp/wails/v2/pkg/options"
	"github.com/wailsapp/wails/v2/pkg/runtime"

	"headroom/app/window"
)

// Frame is the window's frame.
type Frame struct {
	context context.Context
	file    string

	mu    sync.Mutex
	look  window.Look
	place string // where the page begins; it is used once
}

func newFrame(a *window.Agent) *Frame {
	return &Frame{file: a.State, look: window.ReadLook(a.State), place: a.Place}
}

// The event that carries a command to the page, and the one that carries a place.
const (
	commandEvent = "headroom:command"
	placeEvent   = "headroom:place"
)

// The background of the pages; tokens.css has the same colours as --bg.
var (
	lightColour = options.RGBA{R: 0xF4, G: 0xF6, B: 0xF6, A: 0xFF}
	darkColour  = options.RGBA{R: 0x17, G: 0x1B, B: 0x1B, A: 0xFF}
)

// colour returns the colour of the window before the page's first paint. On a Mac it is that of the
// visual effect view, which follows the system's appearance, so the window itself has none.
func (f *Frame) colour() *options.RGBA {
	switch {
	case goruntime.GOOS == "darwin":
		return &options.RGBA{}
	case f.look.Dark:
		return &darkColour
	}
	return &lightColour
}

// Place returns where the page begins, once; "" is where it was left.
func (f *Frame) Place() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	place := f.place
	f.place = ""
	return place
}

// SetDark tells whether the page is dark, for the colour at the next start.
func (f *Frame) SetDark(dark bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look.Dark = dark
}

// SetZoom sets the zoom of the page, 1 for none. It returns false where the system cannot.
func (f *Frame) SetZoom(factor float64) bool { return setZoom(factor) }

// send sends a command of the menu to the page.
func (f *Frame) send(command string) {
	if f.context != nil {
		runtime.EventsEmit(f.context, commandEvent, command)
	}
}

// open places the window and shows it for the first time.
func (f *Frame) open() {
	placeSettings()
	f.mu.Lock()
	look := f.look
	f.mu.Unlock()
	if screens, err := runtime.ScreenGetAll(f.context); err == nil {
		for _, s := range screens {
			if s.IsCurrent && look.On(s.Size.Width, s.Size.Height) {
				runtime.WindowSetPosition(f.context, look.X, look.Y)
			}
		}
	}
	if look.Maximized {
		runtime.WindowMaximise(f.context)
	}
	f.show("")
}

// show shows the window and brings it to the front, even when it is minimized or hidden, and goes
// to a place in it.
func (f *Frame) show(place string) {
	runtime.WindowShow(f.context)
	runtime.WindowUnminimise(f.context) // on Linux this raises the window
	if place != "" {
		runtime.EventsEmit(f.context, placeEvent, place)
	}
}

// save keeps the look for the next start.
func (f *Frame) save() {
	f.mu.Lock()
	defer f.mu.Unlock()
	look := f.look
	look.Maximized = runtime.WindowIsMaximised(f.context)
	if !look.Maximized && !runtime.WindowIsMinimised(f.context) {
		look.Width, look.Height = runtime.WindowGetSize(f.context)
		look.X, look.Y = runtime.WindowGetPosition(f.context)
		look.Placed = true
	}
	if err := look.Save(f.file); err != nil {
		fmt.Fprintln(os.Stderr, "headroom-window: the size of the window is not kept:", err)
	}
}
