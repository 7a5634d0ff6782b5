package control

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"headroom/app/chats"
)

// TestChats opens one conversation in two pages. Each write is announced to the other page, and a
// write to an outdated revision is refused.
func TestChats(t *testing.T) {
	w := newGeneral(t)
	w.api.intervals = eventIntervals{busy: time.Millisecond, idle: testTimeout,
		heartbeat: testTimeout}
	lines := events(t, w.url)
	waitFor(t, lines, `data: {"version":`)
	address := w.url + "/control/chats/c-1"
	status, first := ask[chats.Summary](t, "PUT", address, chatExample)
	if status != http.StatusOK || first.Revision != 1 || first.Messages != 1 {
		t.Fatalf("%d %+v", status, first)
	}
	waitFor(t, lines, `data: {"version":`)
	if status, list := ask[ChatList](t, "GET", w.url+"/control/chats?search=HELL",
		""); status != 200 || len(list.Chats) != 1 || list.Chats[0] != first {
		t.Errorf("%d %+v", status, list)
	}
	if status, list := ask[ChatList](t, "GET", w.url+"/control/chats?search=nothing",
		""); status != 200 || len(list.Chats) != 0 {
		t.Errorf("%d %+v", status, list)
	}
	const next = `{"revision":1,"title":"Hello","updatedAt":9,"from":1,` +
		`"messages":[{"id":"2","role":"assistant","content":"Hi"}]}`
	if status, _ := ask[chats.Summary](t, "PUT", address, next); status != 200 {
		t.Errorf("second write: %d", status)
	}
	if status, _, text := do(t, "PUT", address, next, TokenHeader,
		"T"); status != http.StatusConflict || !strings.Contains(text, `"code":"changed"`) {
		t.Errorf("write to an outdated revision: %d %s", status, text)
	}
	if status, c := ask[chats.Chat](t, "GET", address, ""); status != 200 || len(c.Messages) != 2 ||
		c.Messages[1].Content != "Hi" {
		t.Errorf("%d %+v", status, c)
	}
	if status, _, text := do(t, "PUT", w.url+"/control/chats/..%2Fx", chatExample, TokenHeader,
		"T"); status != 400 {
		t.Errorf("an ID that leaves the folder: %d %s", status, text)
	}
	long := `{"title":"` + strings.Repeat("x", maxBodyBytes) + `"}`
	if status, _, text := do(t, "PUT", w.url+"/control/chats/long", long, TokenHeader,
		"T"); status != 200 {
		t.Errorf("a body longer than maxBodyBytes: %d %.200s", status, text)
	}
	if status, _, _ := do(t, "DELETE", address, "", TokenHeader,
		"T"); status != http.StatusNoContent {
		t.Errorf("removing: %d", status)
	}
	if _, err := os.Stat(first.Path); err == nil {
		t.Error("the file is still there")
	}
}
