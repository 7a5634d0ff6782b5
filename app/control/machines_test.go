package control

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	routing "headroom/app/route"
)

// fakeRouter knows the states that a test sets.
type fakeRouter struct {
	states  []routing.MachineState
	running []routing.Running
	reloads int
}

func (r *fakeRouter) Running() []routing.Running     { return r.running }
func (r *fakeRouter) Cancel(id string) bool          { return id == "req_1" }
func (r *fakeRouter) States() []routing.MachineState { return r.states }
func (r *fakeRouter) Reload()                        { r.reloads++ }

// TestMachinesOverHTTP adds, lists, changes and removes a machine. Its API key is in no answer.
func TestMachinesOverHTTP(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "autolaunch:") // no keychain
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hr-secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"models":[{"id":"m","loaded":true}]}`)
	}))
	defer other.Close()
	w := newGeneral(t)
	send := func(method, path, body string) (status int, list MachineList, text string) {
		t.Helper()
		status, _, text = do(t, method, w.url+path, body, TokenHeader, "T")
		_ = json.Unmarshal([]byte(text), &list) // an error has another shape
		if strings.Contains(text, "hr-secret") {
			t.Errorf("%s %s: %s", method, path, text)
		}
		return status, list, text
	}
	for body, want := range map[string]string{
		`{"url":"` + other.URL + `"}`:                     "it wants an API key",
		`{"url":"` + other.URL + `","apiKey":"hr-other"}`: "it refuses the API key",
		`{"url":"nothing here"}`:                          "is not the address",
		`{"address":"x"}`:                                 "address",
	} {
		if status, _, text := send("POST", "/control/machines", body); status < 400 ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	status, list, text := send("POST", "/control/machines", `{"url":"`+other.URL+
		`","name":"desk","apiKey":"hr-secret"}`)
	if status != http.StatusOK || len(list.Machines) != 1 || list.Machines[0].Kind != "headroom" ||
		!list.Machines[0].HasKey || w.router.reloads == 0 {
		t.Fatalf("%d %s, %d reloads", status, text, w.router.reloads)
	}
	m := list.Machines[0]
	w.router.states = []routing.MachineState{{ID: m.ID, Err: errors.New("asleep"), Requests: 2,
		Info: routing.Info{RoomBytes: 9, Models: []routing.Model{{ID: "m", Loaded: true}}}}}
	w.router.running = []routing.Running{{ID: "req_1", Machine: "desk", Model: "m",
		Begun: time.UnixMilli(5), Answers: true}}
	_, list, text = send("PUT", "/control/machines/"+m.ID, `{"name":"table","off":true}`)
	if got := list.Machines[0]; got.Name != "table" || !got.Off || got.URL != m.URL ||
		!got.HasKey || got.Error != "asleep" || got.Requests != 2 || len(got.Models) != 1 {
		t.Error(text)
	}
	if _, _, text := send("GET", "/control/state", ""); !strings.Contains(text,
		`"machine":"desk","phase":"decode"`) {
		t.Error(text)
	}
	if status, _, text := send("POST", "/control/requests/req_1/cancel", ""); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	if _, list, text := send("DELETE", "/control/machines/"+m.ID, ""); len(list.Machines) != 0 {
		t.Error(text)
	}
	if status, _, text := send("DELETE", "/control/machines/"+m.ID, ""); status != 404 {
		t.Errorf("%d %s", status, text)
	}
}
