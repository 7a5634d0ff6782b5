package commands

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/route"
)

// TestMachinesCommands adds, lists, checks, changes and removes machines. Wrong input gets a
// sentence, and nothing is added.
func TestMachinesCommands(t *testing.T) {
	home := isolate(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "autolaunch:") // no keychain
	desk := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer hr-desk":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/api/machine":
			_, _ = io.WriteString(w, `{"id":"desk","models":[{"id":"o/m","loaded":true,"requests":2}]}`)
		}
	}))
	defer desk.Close()
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"id":"a"},{"id":"b"}]}`)
	}))
	defer cloud.Close()
	secure := httptest.NewTLSServer(cloud.Config.Handler)
	defer secure.Close()
	key := filepath.Join(home, "key")
	if err := os.WriteFile(key, []byte("hr-desk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, errOut := headroom("", append([]string{"machines"}, args...)...)
		if code != want {
			t.Fatalf("%q: exit %d, %s%s", args, code, out, errOut)
		}
		return out + errOut
	}
	says := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%q lacks %q", text, part)
			}
		}
	}
	says(run(0), "no other machines", "headroom machines add ADDRESS")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{desk.URL}, []string{"it wants an API key", "--api-key-file"}},
		{[]string{"127.0.0.1:1"}, []string{"connection refused", "running"}},
		{[]string{"a b"}, []string{"is not the address of a machine"}},
		{[]string{desk.URL, "--api-key-file", filepath.Join(home, "none")},
			[]string{"could not be read"}},
		{[]string{secure.URL}, []string{"--certificate"}},
		{[]string{cloud.URL + "/x"}, []string{"no such address"}},
		{[]string{cloud.URL, "--name", "a@b"}, []string{"characters"}},
		{[]string{cloud.URL, "--certificate", "00"}, []string{"64 hexadecimal digits"}},
		{[]string{secure.URL, "--certificate", "zz"}, []string{`got "zz"`}},
	} {
		says(run(1, append([]string{"add"}, c.args...)...), c.want...)
	}
	says(run(0), "no other machines")
	says(run(0, "add", desk.URL, "--name", "desk", "--api-key-file", key),
		"a Headroom with 1 model")
	says(run(0, "add", cloud.URL+"/v1", "--model", "a", "--model", "c"),
		"a server with OpenAI's API", "2 models", "no model c now")
	says(run(1, "add", desk.URL, "--name", "DESK", "--api-key-file", key), "already")
	says(run(1, "add", desk.URL, "--name", "other", "--api-key-file", key),
		"was added already", "it is desk, at")
	says(run(0, "list"), "desk", "127.0.0.1", "a, c", "on")
	says(run(0, "check"), "desk answers in", "o/m, in memory, 2 requests", "2 models")
	says(run(0, "check", "127.0.0.1"), "It has no model c", "  b, in memory, not used\n",
		"  a, in memory\n")
	wrong := filepath.Join(home, "wrong")
	if err := os.WriteFile(wrong, []byte("hr-other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says(run(0, "set", "desk", "--api-key-file", wrong), "desk was changed")
	says(run(1, "check", "desk"), "it refuses the API key")
	t.Setenv("HEADROOM_MACHINE_KEY", "hr-desk")
	says(run(0, "set", "desk", "--all-models"), "desk was changed")
	says(run(1, "check", "desk"), "it refuses the API key") // a flag names another change
	says(run(0, "set", "desk"), "desk was changed")
	says(run(0, "check", "desk"), "desk answers in")
	t.Setenv("HEADROOM_MACHINE_KEY", "")
	desk.Close()
	out := run(1, "check", "--json", "desk")
	var list struct {
		Machines []struct {
			Name, Error string
			Models      []route.Model
		}
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&list); err != nil ||
		len(list.Machines) != 1 || !strings.Contains(list.Machines[0].Error, "refused") {
		t.Errorf("%s, %v", out, err)
	}
	says(run(1, "set", "desk"), "nothing to change")
	says(run(0, "set", "desk", "--rename", "table", "--off"), "table was changed")
	says(run(0, "list"), "table", "off")
	says(run(0, "check", "table"), "table (off: it is sent nothing): ", "refused")
	says(run(1, "remove", "desk"), "The machines are table, 127.0.0.1.")
	says(run(0, "remove", "table"), "was removed")
	says(run(0, "rm", "127.0.0.1"), "was removed")
	says(run(0, "list", "--json"), `"machines": []`)
}

// TestBenchRoute prints the figures of a small simulation.
func TestBenchRoute(t *testing.T) {
	code, out, errOut := headroom("", "bench", "route", "--machines", "3", "--sessions", "30",
		"--turns", "3", "--json")
	var got struct{ Results []route.Simulated }
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got.Results) != 2 ||
		got.Results[0].Requests != 90 || got.Results[0].HitRate <= got.Results[1].HitRate {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
	if code, out, _ := headroom("", "bench", "route", "--machines=2", "--sessions=5",
		"--turns=2"); code != 0 || !strings.Contains(out, "in turn") ||
		!strings.Contains(out, "are simulated") || !strings.Contains(out, "µs") {
		t.Errorf("exit %d, %s", code, out)
	}
	// No prompt repeats another, so no cache can hit.
	if code, out, errOut := headroom("", "bench", "route", "--machines=1", "--sessions=1",
		"--turns=1", "--json"); code != 0 || !strings.Contains(out, `"of_possible": 1`) {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
	if code, _, errOut := headroom("", "bench", "route", "--load", "0"); code == 0 ||
		!strings.Contains(errOut, "--load") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}
