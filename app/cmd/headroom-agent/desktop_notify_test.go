//go:build e2e

package main

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// TestDesktopNotifies downloads a model and starts it with a click on the notification. Then it
// checks the notification of a failed download, and the setting that turns notifications off.
func TestDesktopNotifies(t *testing.T) {
	d := newDesktop(t)
	notifications := d.notifications()
	a := d.start("--no-start")
	a.trayItem()
	const id = "tiny/From-The-Hub-4bit"
	a.put("control/hub", `{"endpoint":"`+startHub(t, id)+`"}`)
	a.post("control/downloads", `{"id":"`+id+`"}`)
	notice := notifications.wait(id + " is downloaded")
	if len(notice.actions) != 4 || notice.actions[3] != "Start" ||
		!strings.Contains(notice.body, " is available.") {
		t.Errorf("the notification is %+v", notice)
	}
	notifications.click(notice)
	a.waitStatus("ready")
	if model := a.state().Engine.Model; model != id {
		t.Errorf("the click started %s", model)
	}

	t.Log("a download that fails")
	a.post("control/downloads", `{"id":"tiny/Not-There"}`)
	notice = notifications.wait("tiny/Not-There could not be downloaded")
	notifications.click(notice)
	w := a.waitWindow()
	w.close()
	d.eventually("the window program has ended", func() bool { return !alive(w.pid) })

	t.Log("the setting turns notifications off")
	a.put("control/settings", `{"notifications":false}`)
	before := notifications.count()
	a.post("control/downloads", `{"id":"tiny/Not-There-Either"}`)
	d.eventually("the second download has failed",
		func() bool { return strings.Count(a.get("control/jobs"), `"state":"failed"`) == 2 })
	a.put("control/settings", `{"notifications":true}`)
	a.post("control/downloads", `{"id":"tiny/Nor-There"}`)
	notifications.wait("tiny/Nor-There could not be downloaded")
	if got := notifications.count(); got != before+1 {
		t.Errorf("%d notifications, want %d", got, before+1)
	}
}

// notifications is a fake of the desktop's notification service.
type notifications struct {
	d    *desktop
	conn *dbus.Conn

	mu    sync.Mutex
	shown []desktopNotice
}

type desktopNotice struct {
	id          uint32
	title, body string
	actions     []string
}

func (d *desktop) notifications() *notifications {
	d.t.Helper()
	n := &notifications{d: d, conn: d.ownName("org.freedesktop.Notifications")}
	if err := n.conn.Export(n, "/org/freedesktop/Notifications",
		"org.freedesktop.Notifications"); err != nil {
		d.t.Fatal(err)
	}
	return n
}

// ownName returns a connection to the session bus that owns the name.
func (d *desktop) ownName(name string) *dbus.Conn {
	d.t.Helper()
	conn, err := dbus.ConnectSessionBus()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	reply, err := conn.RequestName(name, dbus.NameFlagDoNotQueue)
	if err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		d.t.Fatalf("requesting the name %s: %v, %v", name, reply, err)
	}
	return conn
}

// GetCapabilities and Notify are called over D-Bus.
func (n *notifications) GetCapabilities() ([]string, *dbus.Error) {
	return []string{"body", "actions"}, nil
}

func (n *notifications) Notify(_ string, _ uint32, _, title, body string, actions []string,
	_ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := uint32(len(n.shown) + 1)
	n.shown = append(n.shown, desktopNotice{id, title, body, actions})
	return id, nil
}

func (n *notifications) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.shown)
}

func (n *notifications) wait(title string) (found desktopNotice) {
	n.d.t.Helper()
	n.d.eventually("there is a notification "+title, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, one := range n.shown {
			if one.title == title {
				found = one
			}
		}
		return found.id != 0
	})
	return found
}

// click simulates a click on the notification.
func (n *notifications) click(notice desktopNotice) {
	n.d.t.Helper()
	if err := n.conn.Emit("/org/freedesktop/Notifications",
		"org.freedesktop.Notifications.ActionInvoked", notice.id, "default"); err != nil {
		n.d.t.Fatal(err)
	}
}

// startHub starts a fake hub with one model, the demo model, and returns its address.
func startHub(t *testing.T, id string) string {
	t.Helper()
	const commit = "c0ffee0000000000000000000000000000000000"
	entries, err := os.ReadDir("../../demo/model")
	if err != nil {
		t.Fatal(err)
	}
	files, listed := map[string][]byte{}, []map[string]any{}
	etag := func(data []byte) string {
		sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...))
		return hex.EncodeToString(sum[:])
	}
	for _, e := range entries {
		data, err := os.ReadFile(path.Join("../../demo/model", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() == "config.json" {
			data = append(data, '\n') // else it would count as a copy of the bundled model
		}
		files[e.Name()] = data
		listed = append(listed, map[string]any{"rfilename": e.Name(), "size": len(data),
			"blobId": etag(data)})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/models/"+id+"/revision/main" {
			_ = json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": listed})
			return
		}
		data, ok := files[strings.TrimPrefix(r.URL.Path, "/"+id+"/resolve/"+commit+"/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", `"`+etag(data)+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
