package control

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"headroom/app/update"
	"headroom/engine/problem"
)

// fakeUpdates records its calls. Check fails with err.
type fakeUpdates struct {
	calls []string
	err   error
}

func (u *fakeUpdates) Status() update.Status {
	return update.Status{Phase: update.Available, Version: "0.2.0", Err: u.err}
}
func (u *fakeUpdates) Check(context.Context) error {
	u.calls = append(u.calls, "check")
	return u.err
}

func (u *fakeUpdates) note(call string) error {
	u.calls = append(u.calls, call)
	return nil
}

func (u *fakeUpdates) Download() error { return u.note("download") }
func (u *fakeUpdates) Cancel() error   { return u.note("cancel") }
func (u *fakeUpdates) Back() error     { return u.note("back") }

// TestUpdateRoutes: each route does one thing and returns the status; errors are Problems.
func TestUpdateRoutes(t *testing.T) {
	w := newGeneral(t)
	u := &w.updates
	for _, action := range []string{"check", "download", "cancel", "back"} {
		status, _, text := do(t, "POST", w.url+"/control/update/"+action, "", TokenHeader, "T")
		var s UpdateStatus
		if err := json.Unmarshal([]byte(text), &s); err != nil || status != http.StatusOK ||
			s.Phase != update.Available || s.Version != "0.2.0" || s.Error != nil {
			t.Errorf("%s: %d %s", action, status, text)
		}
	}
	if want := []string{"check", "download", "cancel", "back"}; !slices.Equal(u.calls, want) {
		t.Errorf("calls %q, want %q", u.calls, want)
	}
	u.err = problem.New(problem.Forbidden, "The signature is not valid", "why", "fix")
	if status, _, text := do(t, "POST", w.url+"/control/update/check", "", TokenHeader,
		"T"); status != http.StatusForbidden || !strings.Contains(text, "signature is not valid") {
		t.Errorf("%d %s", status, text)
	}
	_, _, text := do(t, "GET", w.url+"/control/update", "", TokenHeader, "T")
	if !strings.Contains(text, `"message":"The signature is not valid"`) {
		t.Error(text)
	}
}

// TestReportRoute: a bug report has no secret.
func TestReportRoute(t *testing.T) {
	w := newGeneral(t)
	w.put(t, `{"apiKey":"k-very-secret"}`)
	status, _, text := do(t, "GET", w.url+"/control/report", "", TokenHeader, "T")
	var r BugReport
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK ||
		len(r.Parts) != 5 || strings.Contains(text, "k-very-secret") ||
		!strings.Contains(text, "(hidden)") {
		t.Errorf("%d %s", status, text)
	}
}
