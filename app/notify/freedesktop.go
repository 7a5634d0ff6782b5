//go:build !darwin

package notify

// Notifications of Linux desktops: org.freedesktop.Notifications on the session bus
// (https://specifications.freedesktop.org/notification-spec/latest/protocol.html).

import (
	"context"
	"errors"
	"fmt"
	"html"
	"slices"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

// New returns the desktop's notification service. It connects when the first notice is shown.
func New() Service { return &freedesktop{connect: sessionBus} }

func sessionBus() (*dbus.Conn, error) { return dbus.ConnectSessionBus() }

const (
	busName      = "org.freedesktop.Notifications"
	busPath      = "/org/freedesktop/Notifications"
	busInterface = "org.freedesktop.Notifications"
	defaultClick = "default" // the action ID of a click on the notice itself
	startClick   = "open"    // the action ID of the button
	callTime     = 5 * time.Second
)

type freedesktop struct {
	connect func() (*dbus.Conn, error)

	mu      sync.Mutex // held during Notify, so that its ID is in shown before a click is handled
	conn    *dbus.Conn // nil until the first notice
	buttons bool       // the server supports actions
	markup  bool       // the server parses bodies as markup
	shown   map[uint32]notice
	closed  bool
}

// notice is a notice that the server shows.
type notice struct {
	key     string
	clicked func()
}

func (f *freedesktop) Show(n Notice, clicked func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("notifications are closed")
	}
	if err := f.ensureConnected(); err != nil {
		return err
	}
	var replaced uint32 // 0: none
	for id, s := range f.shown {
		if s.key == n.Key {
			replaced = id
		}
	}
	actions, body := []string{}, n.Body
	if f.buttons {
		actions = []string{defaultClick, n.Label, startClick, n.Label}
	}
	if f.markup {
		body = html.EscapeString(body)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var id uint32
	const defaultTimeout = int32(-1) // the server chooses how long the notice stays
	err := f.server().CallWithContext(ctx, busInterface+".Notify", 0, "Headroom", replaced, "",
		n.Title, body, actions,
		map[string]dbus.Variant{"desktop-entry": dbus.MakeVariant("headroom")},
		defaultTimeout).Store(&id)
	if err != nil {
		return fmt.Errorf("showing a notification over D-Bus: %w", err)
	}
	delete(f.shown, replaced)
	f.shown[id] = notice{n.Key, clicked}
	return nil
}

func (f *freedesktop) server() dbus.BusObject { return f.conn.Object(busName, busPath) }

// ensureConnected connects to the session bus unless it is connected. The caller holds mu.
func (f *freedesktop) ensureConnected() error {
	if f.conn != nil && f.conn.Connected() {
		return nil
	}
	conn, err := f.connect()
	if err != nil {
		return fmt.Errorf("connecting to the session bus: %w", err)
	}
	if err := conn.AddMatchSignal(dbus.WithMatchInterface(busInterface)); err != nil {
		conn.Close()
		return fmt.Errorf("listening for clicks: %w", err)
	}
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	go f.listen(signals)
	f.conn, f.shown = conn, map[uint32]notice{}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var capabilities []string
	call := f.server().CallWithContext(ctx, busInterface+".GetCapabilities", 0)
	if call.Store(&capabilities) != nil {
		capabilities = nil // Notify will report the error
	}
	f.buttons = slices.Contains(capabilities, "actions")
	f.markup = slices.Contains(capabilities, "body-markup")
	return nil
}

// listen handles clicks until the connection ends, which closes signals.
func (f *freedesktop) listen(signals <-chan *dbus.Signal) {
	for s := range signals {
		if len(s.Body) < 2 {
			continue
		}
		id, _ := s.Body[0].(uint32) // 0 is never a valid ID
		f.mu.Lock()
		clicked := f.shown[id].clicked
		if s.Name == busInterface+".NotificationClosed" {
			delete(f.shown, id)
		}
		f.mu.Unlock()
		if s.Name == busInterface+".ActionInvoked" && clicked != nil {
			go clicked()
		}
	}
}

func (f *freedesktop) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.conn == nil {
		return
	}
	for id := range f.shown {
		f.server().Go(busInterface+".CloseNotification", dbus.FlagNoReplyExpected, nil, id)
	}
	_ = f.conn.Close()
	f.conn = nil
}
