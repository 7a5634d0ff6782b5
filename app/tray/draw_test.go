package tray

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/host"
)

// native is a fake that behaves as systray does on Linux: Show makes a hidden row visible.
type native struct {
	mu      sync.Mutex
	icon    Icon
	tooltip string
	title   string
	rows    []*nativeRow
	updates int           // calls that draw something
	drawn   chan struct{} // receives a value for each SetIcon; nil: none
}

type nativeRow struct {
	tray    *native
	item    Item
	hidden  bool
	submenu []*nativeRow
	clicks  chan struct{}
}

func (n *native) SetIcon(i Icon) {
	n.mu.Lock()
	n.icon = i
	n.updates++
	n.mu.Unlock()
	if n.drawn != nil {
		n.drawn <- struct{}{}
	}
}

func (n *native) SetTooltip(s string) { n.tooltip = s; n.updates++ }
func (n *native) SetTitle(s string)   { n.title = s; n.updates++ }
func (n *native) AppendSeparator() {
	n.rows = append(n.rows, &nativeRow{item: Item{Separator: true}})
}
func (n *native) Append() Row {
	r := &nativeRow{tray: n, clicks: make(chan struct{})}
	n.rows = append(n.rows, r)
	return r
}
func (r *nativeRow) Append() Row {
	sub := &nativeRow{tray: r.tray, clicks: make(chan struct{})}
	r.submenu = append(r.submenu, sub)
	return sub
}
func (r *nativeRow) Show(i Item)             { r.item, r.hidden = i, false; r.tray.updates++ }
func (r *nativeRow) Hide()                   { r.hidden = true; r.tray.updates++ }
func (r *nativeRow) Clicks() <-chan struct{} { return r.clicks }

// row returns a visible row. The titles are its path: those of the rows that lead to it, then its
// own. The test fails if there is no such row.
func (n *native) row(t *testing.T, titles ...string) *nativeRow {
	t.Helper()
	rows := n.rows
	for depth, title := range titles {
		i := slices.IndexFunc(rows,
			func(r *nativeRow) bool { return !r.hidden && r.item.Title == title })
		if i < 0 {
			t.Fatalf("no row %q in\n%s", titles[:depth+1], picture(items(n.rows), ""))
		}
		if depth == len(titles)-1 {
			return rows[i]
		}
		rows = rows[i].submenu
	}
	panic("row: no title")
}

// timeout is longer than any step takes on a loaded machine.
const timeout = 30 * time.Second

// click clicks a row. The test fails if no goroutine receives the click.
func (r *nativeRow) click(t *testing.T) {
	t.Helper()
	select {
	case r.clicks <- struct{}{}:
	case <-time.After(timeout):
		t.Fatalf("no goroutine receives a click on %q", r.item.Title)
	}
}

// items returns the rows as items, with Hidden set for hidden rows.
func items(rows []*nativeRow) []Item {
	var list []Item
	for _, r := range rows {
		i := r.item
		i.Hidden, i.Submenu = r.hidden, items(r.submenu)
		list = append(list, i)
	}
	return list
}

// After each of many changes of the state, the visible rows are those of menuFor.
func TestDraw(t *testing.T) {
	n := &native{}
	tray := New(n, func(Action) {})
	fewer := func(s *State) { s.Models = s.Models[:1] }
	states := []State{
		state(host.Stopped, nil), state(host.Loading, nil), state(host.Ready, fewer),
		state(host.Busy, nil),
		state(host.Failed, failed), state(host.Stopped, func(s *State) { s.Notice = "n" }),
		state(host.Stopped, fewer),
		state(host.Stopped, func(s *State) { s.Models = append(s.Models, host.Model{ID: "new"}) }),
		{}, state(host.Ready, nil),
	}
	for i, s := range states {
		tray.Draw(s)
		got, want := picture(items(n.rows), ""), picture(menuFor(s), "")
		if got != want {
			t.Fatalf("step %d: got\n%s\nwant\n%s", i, got, want)
		}
		if n.icon != iconFor(s.Engine.Status) || n.tooltip != tooltip(s) {
			t.Errorf("step %d: icon %s, tooltip %q", i, n.icon, n.tooltip)
		}
	}
}

func TestDrawOnlyDifferences(t *testing.T) {
	n := &native{}
	tray := New(n, func(Action) {})
	tray.Draw(state(host.Ready, nil))
	before := n.updates
	tray.Draw(state(host.Ready, nil))
	if n.updates != before {
		t.Errorf("%d updates for the same state", n.updates-before)
	}
	tray.Draw(state(host.Ready, func(s *State) { s.Memory.HeadroomBytes, s.RoomBytes = 0, 0 }))
	// The row of the available memory, and the row of the large model, which repeats it.
	if got := n.updates - before; got != 2 {
		t.Errorf("%d updates, want 2", got)
	}
}

func TestClicks(t *testing.T) {
	n := &native{}
	done := make(chan Action)
	tray := New(n, func(a Action) { done <- a })
	for _, c := range []struct {
		status host.Status
		row    []string // its path; see native.row
		want   Action
	}{
		{host.Stopped, []string{"Start Engine"}, Action{Verb: Start}},
		{host.Ready, []string{"Stop Engine"}, Action{Verb: Stop}},
		{host.Ready, []string{"Models", "headroom-demo, 11.4 MB"},
			Action{Stop, "headroom-demo"}}, // it runs
		{host.Ready, []string{"Copy http://127.0.0.1:11811/v1"},
			Action{Copy, "http://127.0.0.1:11811/v1"}},
	} {
		tray.Draw(state(c.status, nil))
		row := n.row(t, c.row...)
		row.click(t)
		select {
		case got := <-done:
			if got != c.want {
				t.Errorf("%s, %q: a click does %v, want %v", c.status, c.row, got, c.want)
			}
		case <-time.After(timeout):
			t.Fatalf("%s, %q: a click does nothing", c.status, c.row)
		}
	}
}

// GTK toggles the checkmark of a clicked row. The next Draw corrects it.
func TestCheckmarkAfterClick(t *testing.T) {
	n := &native{}
	done := make(chan Action)
	tray := New(n, func(a Action) { done <- a })
	tray.Draw(state(host.Ready, nil))
	row := n.row(t, "Models", "headroom-demo, 11.4 MB")
	row.item.Checked = false
	row.click(t)
	<-done
	tray.Draw(state(host.Ready, nil))
	if !row.item.Checked {
		t.Error("the running model has lost its checkmark")
	}
}

// source is a fake host whose state the test sets.
type source struct {
	mu      sync.Mutex
	state   host.State
	changed chan struct{}
}

func (s *source) State() host.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}
func (s *source) Subscribe() (<-chan struct{}, func()) { return s.changed, func() {} }
func (s *source) set(status host.Status) {
	s.mu.Lock()
	s.state.Engine.Status = status
	s.mu.Unlock()
	s.changed <- struct{}{}
}

func TestFollow(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	n := &native{drawn: make(chan struct{})}
	s := &source{changed: make(chan struct{}, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		New(n, nil).Follow(ctx, s,
			func(h host.State) State { return State{State: h, Notice: "from extend"} })
	}()
	var icons []string
	for _, status := range []host.Status{"", host.Loading, host.Ready} {
		if status != "" {
			s.set(status)
		}
		<-n.drawn
		n.mu.Lock()
		icons = append(icons, string(n.icon))
		n.mu.Unlock()
	}
	stop()
	<-ended
	if got := strings.Join(icons, " "); got != "stopped loading ready" {
		t.Errorf("icons %s", got)
	}
	if got := fmt.Sprint(n.rows[1].item.Title); got != "from extend" {
		t.Errorf("the second row is %q", got)
	}
}
