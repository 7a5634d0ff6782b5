package control

import (
	"testing"

	"headroom/app/host"
)

// TestCheckRoutes starts, follows and stops a check. A second one is refused with the host's words.
func TestCheckRoutes(t *testing.T) {
	_, _, server := newAPI(t)
	url := server + "/control/models/o%2Fm/check"
	expect := func(method, url string, wantStatus int, want host.CheckStatus) {
		t.Helper()
		if status, c := ask[host.ModelCheck](t, method, url, ""); status != wantStatus ||
			c.Status != want || want != "" && (c.Model != "o/m" || c.Rows == nil) {
			t.Errorf("%s %s: %d, %+v, want %d, %s", method, url, status, c, wantStatus, want)
		}
	}
	expect("GET", url, 200, host.NotChecked)
	expect("POST", url, 202, host.Checking)
	if status, c := ask[host.ModelCheck](t, "GET", url, ""); status != 200 || c.Step != 1 ||
		c.Steps != 5 || c.What != "plain" {
		t.Errorf("progress: %d, %+v", status, c)
	}
	_, state := ask[host.State](t, "GET", server+"/control/state", "")
	if state.Checking != "o/m" || state.ChecksVersion != 1 {
		t.Errorf("state: %q, %d", state.Checking, state.ChecksVersion)
	}
	if status, b := ask[ErrorBody](t, "POST", url, ""); status != 503 && status != 429 ||
		b.Error == nil || b.Error.Why != "o/m is being checked" || b.Error.Fix == "" {
		t.Errorf("a second one: %d, %+v", status, b.Error)
	}
	expect("POST", url+"/stop", 204, "")
	expect("GET", url, 200, host.CheckStopped)
	expect("GET", server+"/control/models/x/check", 404, "")
}

// Models lists o/m and what a test has added.
func (h *fakeHost) Models(contextTokens int) host.ModelList {
	return host.ModelList{Models: append(h.list, host.Model{ID: "o/m"}),
		ContextTokens: contextTokens}
}
