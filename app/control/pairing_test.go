package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"headroom/app/pairing"
	"headroom/engine/problem"
)

// fakePairing records its calls. They fail with err.
type fakePairing struct {
	calls []string
	err   error
}

func (p *fakePairing) note(format string, arguments ...any) error {
	p.calls = append(p.calls, fmt.Sprintf(format, arguments...))
	return p.err
}

func (p *fakePairing) Sharing() Sharing {
	return Sharing{On: true, Name: "studio", Addresses: []string{"10.0.0.1"},
		Code:  PairingCode{Phase: pairing.Open, Code: "1234 5678"},
		Users: []PairedMachine{}, Found: []FoundMachine{},
		ReadOnly: []string{}}
}

func (p *fakePairing) ChangeSharing(share, find *bool) error {
	return p.note("change %v %v", share != nil && *share, find != nil && *find)
}

func (p *fakePairing) ShowCode(both bool) error { return p.note("code %v", both) }
func (p *fakePairing) HideCode()                { _ = p.note("hide") }

func (p *fakePairing) Join(_ context.Context, address, code string, both bool) (JoinedMachine,
	error) {
	return JoinedMachine{Name: "studio"}, p.note("join %s %s %v", address, code, both)
}

// TestPairingRoutes: each route does one thing and returns the state; errors are Problems.
func TestPairingRoutes(t *testing.T) {
	w := newGeneral(t)
	p := &w.pairing
	for _, c := range []struct{ method, path, body, call string }{
		{"GET", "", "", ""},
		{"PUT", "", `{"on":true}`, "change true false"},
		{"PUT", "", `{"find":true}`, "change false true"},
		{"POST", "/code", `{"both":true}`, "code true"},
		{"POST", "/code", "", "code false"},
		{"DELETE", "/code", "", "hide"},
		{"POST", "/join", `{"address":"a","code":"c"}`, "join a c false"},
	} {
		p.calls = nil
		status, _, text := do(t, c.method, w.url+"/control/pairing"+c.path, c.body, TokenHeader,
			"T")
		var s Sharing
		if err := json.Unmarshal([]byte(text), &s); err != nil || status != http.StatusOK ||
			s.Name != "studio" {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
		if strings.Join(p.calls, "|") != c.call {
			t.Errorf("%s %s %s: calls %q", c.method, c.path, c.body, p.calls)
		}
	}
	status, _, text := do(t, "POST", w.url+"/control/pairing/join", `{"addres":"a"}`, TokenHeader,
		"T")
	if status != http.StatusBadRequest || !strings.Contains(text, "addres") {
		t.Errorf("a misspelt field: %d %s", status, text)
	}
	p.err = problem.New(problem.Unauthorized, "The code is wrong", "", "fix")
	status, _, text = do(t, "POST", w.url+"/control/pairing/join", `{}`, TokenHeader, "T")
	if status != http.StatusUnauthorized || !strings.Contains(text, "The code is wrong") {
		t.Errorf("a wrong code: %d %s", status, text)
	}
	if status, _, _ := do(t, "GET", w.url+"/control/pairing", ""); status != 401 {
		t.Errorf("without the token: %d", status)
	}
}
