package control

// Sharing this machine with others, and pairing: with a code that one machine shows and a person
// types on the other; see app/pairing.

import (
	"context"
	"net/http"

	"headroom/app/pairing"
)

// Pairing is what the routes of this file use. *service.Service implements it.
type Pairing interface {
	// Sharing returns the state.
	Sharing() Sharing
	// ChangeSharing switches sharing and finding on or off; nil: as it is. The errors are Problems.
	ChangeSharing(share, find *bool) error
	ShowCode(both bool) error
	HideCode()
	Join(ctx context.Context, address, code string, both bool) (JoinedMachine, error)
}

// Sharing is the response of the routes of /control/pairing.
type Sharing struct {
	On      bool   `json:"on"`      // other machines that were paired may use this one
	Open    bool   `json:"open"`    // the port is open
	Problem *Error `json:"problem"` // why it is not; null: it is, or sharing is off
	Name    string `json:"name"`    // by which this machine introduces itself
	// Addresses are those of this machine that may be typed on another one.
	Addresses   []string        `json:"addresses"`
	Port        int             `json:"port"`
	Certificate string          `json:"certificate"` // its SHA-256 begins so; "": not known yet
	Code        PairingCode     `json:"code"`
	Users       []PairedMachine `json:"users"` // machines that may use this one
	Find        bool            `json:"find"`  // others on the local network are listed
	FindProblem *Error          `json:"findProblem"`
	Found       []FoundMachine  `json:"found"`
	// ReadOnly names the fields above that the command line sets.
	ReadOnly []string `json:"readOnly"`
}

// PairingCode is the code that this machine shows, or what has become of the last one.
type PairingCode struct {
	Phase           pairing.Phase `json:"phase"`
	Code            string        `json:"code"` // "1234 5678"; "": none is shown
	ExpiresAtUnixMs int64         `json:"expiresAt"`
	Tries           int           `json:"tries"`   // how often it may still be tried
	Machine         string        `json:"machine"` // the machine that was paired with it
}

// PairedMachine is a machine that may use this one.
type PairedMachine struct {
	KeyID            string `json:"keyId"` // of its API key; see /control/keys
	Name             string `json:"name"`
	Certificate      string `json:"certificate"` // its SHA-256 begins so
	PairedAtUnixMs   int64  `json:"pairedAt"`
	LastUsedAtUnixMs int64  `json:"lastUsedAt"` // 0: never
}

// FoundMachine is a machine on the local network that can be paired.
type FoundMachine struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// JoinedMachine is the response of POST /control/pairing/join.
type JoinedMachine struct {
	Name    string `json:"name"` // of the machine that can be used from now on
	Address string `json:"address"`
	Both    bool   `json:"both"` // it may use this machine, too
}

// SharingChange is the body of PUT /control/pairing. A missing field does not change.
type SharingChange struct {
	On   *bool `json:"on"`
	Find *bool `json:"find"`
}

// CodeRequest is the body of POST /control/pairing/code.
type CodeRequest struct {
	Both bool `json:"both"` // this machine would like to use the other one, too
}

// JoinRequest is the body of POST /control/pairing/join.
type JoinRequest struct {
	Address string `json:"address"`
	Code    string `json:"code"`
	Both    bool   `json:"both"` // the other machine may use this one, too
}

func (a *API) pairingRoutes() []Route {
	state := func() (Sharing, error) { return a.pairing.Sharing(), nil }
	return []Route{
		route("GET /control/pairing", "Returns whether other machines may use this one, the code "+
			"that is shown, and machines that were found.", "",
			func(*http.Request, nothing) (Sharing, error) { return state() }),
		route("PUT /control/pairing", "Switches sharing and finding on or off, at once.",
			`{"on": true}`,
			func(_ *http.Request, c SharingChange) (Sharing, error) {
				if err := a.pairing.ChangeSharing(c.On, c.Find); err != nil {
					return Sharing{}, err
				}
				return state()
			}).withKnownFields(),
		route("POST /control/pairing/code", "Shows a new code. Another machine may be "+
			"paired with it for two minutes.", `{"both": false}`,
			func(_ *http.Request, c CodeRequest) (Sharing, error) {
				if err := a.pairing.ShowCode(c.Both); err != nil {
					return Sharing{}, err
				}
				return state()
			}).withKnownFields(),
		route("DELETE /control/pairing/code", "Ends the code that is shown.", "",
			func(*http.Request, nothing) (Sharing, error) {
				a.pairing.HideCode()
				return state()
			}),
		route("POST /control/pairing/join", "Pairs this machine with one that shows a code, and "+
			"stores that one as a machine whose engines can be used.",
			`{"address": "studio.local", "code": "1234 5678"}`,
			func(r *http.Request, j JoinRequest) (JoinedMachine, error) {
				return a.pairing.Join(r.Context(), j.Address, j.Code, j.Both)
			}).withKnownFields(),
	}
}
