package tray

// Drawing: the items that menuFor returns become the native menu. Native rows cannot be removed or
// reordered. So the rows of the top level are fixed, they change in place, and unused rows are
// hidden. Only differences are drawn.

import (
	"context"
	"slices"
	"sync"
	"time"

	"headroom/app/host"
)

// Native is the native icon with its menu. Rows are appended and never removed.
type Native interface {
	SetIcon(Icon)
	SetTooltip(string)
	SetTitle(string) // the text beside the icon
	Append() Row
	AppendSeparator()
}

// Row is a row of the native menu.
type Row interface {
	// Show displays the item. It ignores the fields Hidden, Click and Submenu.
	Show(Item)
	Hide()
	// Append adds a row to the submenu.
	Append() Row
	// Clicks returns a channel that receives a value for each click. A click is dropped if the
	// caller is not receiving.
	Clicks() <-chan struct{}
}

// Source provides the states that Follow draws. *host.Host implements it.
type Source interface {
	State() host.State
	Subscribe() (changed <-chan struct{}, done func())
}

// Tray draws states in a native menu.
type Tray struct {
	native Native
	act    func(Action)

	icon    Icon
	tooltip string
	title   string
	rows    []*drawn
}

// New returns a Tray that has drawn nothing. A click calls act, in a goroutine of the clicked row.
func New(native Native, act func(Action)) *Tray { return &Tray{native: native, act: act} }

// drawn is a native row and the item that it shows. Rows of the top level are created once, rows of
// a submenu when they are needed.
type drawn struct {
	native  Row // nil for a separator
	shown   Item
	submenu []*drawn

	mu      sync.Mutex
	click   Action // used by the row's goroutine
	clicked bool   // since the last update: GTK toggles the checkmark of a clicked row
}

// Draw updates the icon, the tooltip and the rows that differ from the state's. It must be called
// from one goroutine.
func (t *Tray) Draw(s State) {
	if icon := iconFor(overall(s)); icon != t.icon {
		t.icon = icon
		t.native.SetIcon(icon)
	}
	if text := tooltip(s); text != t.tooltip {
		t.tooltip = text
		t.native.SetTooltip(text)
	}
	if text := title(s); text != t.title {
		t.title = text
		t.native.SetTitle(text)
	}
	menu := menuFor(s)
	if t.rows == nil {
		for _, item := range menu {
			t.rows = append(t.rows, t.add(item, t.native.Append, t.native.AppendSeparator))
		}
		return
	}
	for i, item := range menu {
		t.update(t.rows[i], item)
	}
}

// add appends a row and its submenu.
func (t *Tray) add(item Item, appendRow func() Row, appendSeparator func()) *drawn {
	if item.Separator {
		appendSeparator()
		return &drawn{shown: item}
	}
	d := &drawn{native: appendRow()}
	go func() {
		for range d.native.Clicks() {
			d.mu.Lock()
			click := d.click
			d.clicked = true
			d.mu.Unlock()
			if click.Verb != Nothing {
				t.act(click)
			}
		}
	}()
	d.native.Show(item)
	if item.Hidden {
		d.native.Hide()
	}
	t.setItem(d, item)
	return d
}

func (t *Tray) update(d *drawn, item Item) {
	if d.native == nil {
		return
	}
	d.mu.Lock()
	clicked := d.clicked
	d.clicked = false
	d.mu.Unlock()
	switch {
	case item.Hidden && !d.shown.Hidden:
		d.native.Hide()
	case !item.Hidden && (clicked || !looksLike(d.shown, item)):
		d.native.Show(item)
	}
	t.setItem(d, item)
}

// setItem stores the item that the row shows and updates its submenu.
func (t *Tray) setItem(d *drawn, item Item) {
	d.mu.Lock()
	d.click = item.Click
	d.mu.Unlock()
	d.shown = item
	for i, sub := range item.Submenu {
		if i == len(d.submenu) {
			d.submenu = append(d.submenu, t.add(sub, d.native.Append, nil))
		} else {
			t.update(d.submenu[i], sub)
		}
	}
	for i := len(item.Submenu); i < len(d.submenu); i++ {
		t.update(d.submenu[i], Item{Hidden: true})
	}
}

func looksLike(a, b Item) bool {
	return a.Title == b.Title && a.Tooltip == b.Tooltip && a.Disabled == b.Disabled &&
		a.Checked == b.Checked && a.Hidden == b.Hidden
}

// The intervals at which Follow draws. Changes of requests, speed and memory are not signalled, so
// it also draws without a signal. While a model loads, every percent is signalled, so it waits
// between two signals.
const (
	busyInterval  = 500 * time.Millisecond // without a signal, while a model is loaded
	idleInterval  = 2 * time.Second        // without a signal, otherwise
	leastInterval = 100 * time.Millisecond
)

// Follow draws the states of the source until ctx ends. extend adds to a host.State the other
// fields of State.
func (t *Tray) Follow(ctx context.Context, source Source, extend func(host.State) State) {
	changed, done := source.Subscribe()
	defer done()
	for {
		s := source.State()
		t.Draw(extend(s))
		interval := idleInterval
		if slices.ContainsFunc(append(s.Engines, s.Engine), func(e host.EngineState) bool {
			return e.Status == host.Ready || e.Status == host.Busy
		}) {
			interval = busyInterval
		}
		if !pause(ctx, leastInterval, nil) || !pause(ctx, interval-leastInterval, changed) {
			return
		}
	}
}

// pause waits for d, or until wake receives a value. It returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-wake:
	}
	return true
}
