package tray

// Drawing: a menu as data becomes the system's menu. Native rows cannot be removed or reordered, so
// the top level is fixed; rows change in place and are hidden when unused. Only differences are
// drawn.

import (
	"context"
	"sync"
	"time"

	"headroom/app/host"
)

// Native is the system's status item. Rows are appended and never removed.
type Native interface {
	SetIcon(Icon)
	SetTooltip(string)
	Append() Row
	AppendSeparator()
}

// Row is a row of the native menu.
type Row interface {
	// Show displays the item. Its fields Hidden, Click and Submenu are ignored.
	Show(Item)
	Hide()
	// Append adds a row to the submenu.
	Append() Row
	// Clicks receives a value for each click while the caller is receiving; other clicks are
	// dropped.
	Clicks() <-chan struct{}
}

// Source provides the states that Follow draws.
type Source interface {
	State() host.State
	Subscribe() (changed <-chan struct{}, done func())
}

// Tray keeps a native status item in line with the state.
type Tray struct {
	native Native
	act    func(Action)

	icon    Icon
	tooltip string
	rows    []*drawn
}

// New returns a Tray with nothing drawn. A click calls act on the goroutine of its row.
func New(native Native, act func(Action)) *Tray { return &Tray{native: native, act: act} }

// drawn is a native row and the item it shows. Rows of the top level are created once, those of a
// submenu as needed.
type drawn struct {
	native  Row // nil for a separator
	shown   Item
	submenu []*drawn

	mu      sync.Mutex
	click   Action // read by the row's goroutine
	clicked bool   // since it was drawn: GTK toggles a check mark on a click
}

// Draw updates what differs from the state. It must be called from one goroutine.
func (t *Tray) Draw(s State) {
	if icon := iconFor(s.Engine.Status); icon != t.icon {
		t.icon = icon
		t.native.SetIcon(icon)
	}
	if text := tooltip(s); text != t.tooltip {
		t.tooltip = text
		t.native.SetTooltip(text)
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
	t.keep(d, item)
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
	t.keep(d, item)
}

// keep stores the item that the row shows and updates its submenu.
func (t *Tray) keep(d *drawn, item Item) {
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

// Follow looks at the state at least this often, because changes of requests, speed and memory are
// not signalled, and at most this often, because loading signals every percent.
const (
	busyLook = 500 * time.Millisecond
	idleLook = 2 * time.Second
	rest     = 100 * time.Millisecond
)

// Follow draws the states of the source until ctx ends. extend adds what the source does not know.
func (t *Tray) Follow(ctx context.Context, source Source, extend func(host.State) State) {
	changed, done := source.Subscribe()
	defer done()
	for {
		s := source.State()
		t.Draw(extend(s))
		look := idleLook
		if s.Engine.Status == host.Ready || s.Engine.Status == host.Busy {
			look = busyLook
		}
		if !pause(ctx, rest, nil) || !pause(ctx, look-rest, changed) {
			return
		}
	}
}

// pause waits for d, or less if wake gets a value, and reports whether ctx still runs.
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
