package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// What may change while the server runs is asked with each request; a key that was given at the
// start beats it.
func TestGuardChanges(t *testing.T) {
	var now Access
	ask := func(g *Guard, host, key string) int {
		r := httptest.NewRequest("GET", "http://"+host+"/", nil)
		r.Header.Set("X-Api-Key", key)
		w := httptest.NewRecorder()
		g.Origin(g.Key(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {}))).ServeHTTP(w, r)
		return w.Code
	}
	g := &Guard{Changing: func() Access { return now }}
	for i, c := range []struct {
		now       Access
		host, key string
		want      int
	}{
		{Access{}, "localhost", "", 200},
		{Access{}, "mac.lan", "", 403},
		{Access{AllowHosts: []string{"Mac.lan"}}, "mac.lan", "", 200},
		{Access{APIKey: "k"}, "localhost", "", 401},
		{Access{APIKey: "k"}, "localhost", "k", 200},
		{Access{}, "localhost", "", 200},
	} {
		now = c.now
		if got := ask(g, c.host, c.key); got != c.want {
			t.Errorf("%d: %d, want %d", i, got, c.want)
		}
	}
	now, g.APIKey = Access{APIKey: "settings"}, "flag"
	if ask(g, "localhost", "settings") != 401 || ask(g, "localhost", "flag") != 200 {
		t.Error("the key in the settings beats the flag")
	}
}
