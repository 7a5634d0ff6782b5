package guard

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"headroom/engine/problem"
)

// fakeKeys are named keys by their text.
type fakeKeys map[string]*Caller

func (k fakeKeys) Any() bool               { return len(k) > 0 }
func (k fakeKeys) Find(key string) *Caller { return k[key] }

// TestNamedKeys: a named key passes beside the one without a name, in either header. The handler
// learns who sends the request, and nobody learns it of a request that needs no key.
func TestNamedKeys(t *testing.T) {
	named := fakeKeys{"n": {Name: "laptop"}}
	unnamed := func() Access { return Access{APIKey: "u"} }
	token := func(r *http.Request) bool { return r.Header.Get("Token") != "" }
	for _, c := range []struct {
		name          string
		guard         Guard
		header, value string
		refused       bool
		caller        string
		keyed         bool // the network gets answers too: there is a key
	}{
		{"no keys", Guard{}, "", "", false, "", false},
		{"no keys, some sent", Guard{}, "X-Api-Key", "n", false, "", false},
		{"none of the keys", Guard{Keys: fakeKeys{}}, "", "", false, "", false},
		{"missing", Guard{Keys: named}, "", "", true, "", true},
		{"empty", Guard{Keys: named}, "X-Api-Key", "", true, "", true},
		{"wrong", Guard{Keys: named}, "X-Api-Key", "N", true, "", true},
		{"X-Api-Key", Guard{Keys: named}, "X-Api-Key", "n", false, "laptop", true},
		{"Bearer", Guard{Keys: named}, "Authorization", "Bearer n", false, "laptop", true},
		{"bearer", Guard{Keys: named}, "Authorization", "bearer  n ", false, "laptop", true},
		{"Basic", Guard{Keys: named}, "Authorization", "Basic n", true, "", true},
		{"token", Guard{Keys: named, Bypass: token}, "Token", "t", false, "", true},
		{"both, named", Guard{Keys: named, Live: unnamed}, "X-Api-Key", "n", false, "laptop", true},
		{"both, unnamed", Guard{Keys: named, Live: unnamed}, "X-Api-Key", "u", false, "", true},
		{"both, neither", Guard{Keys: named, Live: unnamed}, "X-Api-Key", "x", true, "", true},
		{"flag", Guard{Keys: named, APIKey: "f"}, "X-Api-Key", "f", false, "", true},
		{"flag, named", Guard{Keys: named, APIKey: "f"}, "X-Api-Key", "n", false, "laptop", true},
		{"only unnamed", Guard{Live: unnamed}, "X-Api-Key", "n", true, "", true},
		{"open on purpose", Guard{Keys: named, NoKey: true}, "", "", true, "", true},
	} {
		for _, listen := range []string{"127.0.0.1", "0.0.0.0"} {
			g := c.guard
			g.Listen = listen
			var refused error
			passed, caller := false, ""
			r := httptest.NewRequest("POST", "http://localhost/", nil)
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			g.Key(func(_ http.ResponseWriter, _ *http.Request, err error) { refused = err },
				http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					passed = true
					if c := CallerOf(r); c != nil {
						caller = c.Name
					}
				})).ServeHTTP(httptest.NewRecorder(), r)
			want := c.refused || listen == "0.0.0.0" && !c.keyed
			if passed == want || (refused != nil) != want || caller != c.caller ||
				want && problem.From(refused).Code != problem.Unauthorized {
				t.Errorf("%s on %s: passed %t as %q, %v", c.name, listen, passed, caller, refused)
			}
			if open := listen == "0.0.0.0" && !c.keyed; g.Open() != open {
				t.Errorf("%s on %s: open %t", c.name, listen, g.Open())
			}
		}
	}
}

// TestAllows: a key without models may use all, another one its own, without regard to case.
func TestAllows(t *testing.T) {
	all, some := &Caller{}, &Caller{Models: []string{"org/A", "b"}}
	for model, want := range map[string]bool{"org/a": true, "B": true, "a": false, "": false,
		"org/ab": false} {
		if !all.Allows(model) || some.Allows(model) != want {
			t.Errorf("%q: %t", model, some.Allows(model))
		}
	}
}

// TestBothHeaders: one valid key is enough, in whichever header, beside a placeholder or nothing.
func TestBothHeaders(t *testing.T) {
	g := &Guard{Keys: fakeKeys{"n": {Name: "laptop"}, "m": {Name: "phone"}}, APIKey: "u"}
	for _, c := range []struct {
		authorization, apiKey string
		passes                bool
		caller                string
	}{
		{"Bearer any", "n", true, "laptop"},
		{"Bearer any", "u", true, ""},
		{"Bearer n", "any", true, "laptop"},
		{"Bearer u", "any", true, ""},
		{"Bearer ", "n", true, "laptop"},
		{"Bearer", "u", true, ""},
		{"Basic abc", "n", true, "laptop"},
		{"Bearer m", "n", true, "phone"},
		{"Bearer u", "n", true, ""},
		{"Bearer n", "u", true, "laptop"},
		{"Bearer any", "other", false, ""},
		{"Bearer ", "", false, ""},
		{"n", "", false, ""},
	} {
		r := httptest.NewRequest("POST", "http://localhost/", nil)
		r.Header.Set("Authorization", c.authorization)
		r.Header.Set("X-Api-Key", c.apiKey)
		passed, caller := false, ""
		g.Key(func(http.ResponseWriter, *http.Request, error) {}, http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				passed = true
				if c := CallerOf(r); c != nil {
					caller = c.Name
				}
			})).ServeHTTP(httptest.NewRecorder(), r)
		if passed != c.passes || caller != c.caller {
			t.Errorf("%q and %q: passed %t as %q", c.authorization, c.apiKey, passed, caller)
		}
	}
}
