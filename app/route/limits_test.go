package route

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"headroom/app/machines"
	"headroom/engine/guard"
)

// here is this machine with the model "m", which is not loaded.
type here struct{ nowhere }

func (here) Resolve(name string) (string, error) {
	if name == "m" {
		return "m", nil
	}
	return nowhere{}.Resolve(name)
}

// addCloud adds a server with OpenAI's API that has the models m and other. It returns what the
// server gets last.
func (g *rig) addCloud(t *testing.T) (last *string) {
	t.Helper()
	last = new(string)
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/models") {
			_, _ = io.WriteString(w, `{"data":[{"id":"m"},{"id":"other"}]}`)
			return
		}
		data, _ := io.ReadAll(r.Body)
		*last = string(data)
		_, _ = io.WriteString(w, "cloud")
	}))
	t.Cleanup(cloud.Close)
	if _, err := g.store.Add(machines.Machine{Name: "cloud", Kind: machines.OpenAI,
		URL: cloud.URL + "/v1"}, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		list := g.router.machines()
		return len(list) > 0 && list[len(list)-1].state.Load().Err == nil
	})
	return last
}

// TestModelOfAKey: a body that names another model to another program does not leave this machine,
// so that a key gets only its models.
func TestModelOfAKey(t *testing.T) {
	limited := &guard.Caller{Name: "one", Models: []string{"m"}}
	const rest = `"messages":[{"role":"user","content":"hi"}]}`
	for _, at := range []Here{nowhere{}, here{}} {
		g := newRig(t, at)
		last := g.addCloud(t)
		for _, c := range []struct {
			body   string
			caller *guard.Caller
			want   string // part of the answer, if the model is only elsewhere
		}{
			{`{"model":"m@cloud",` + rest, limited, "cloud"},
			{`{"model":"other@cloud",` + rest, limited, `no model "other"`},
			{`{"model":"m@cloud","Model":"other",` + rest, limited, `"Model"`},
			{`{"MODEL":"other","model":"m@cloud",` + rest, nil, `"MODEL"`},
			{`{"model":"other","model":"m@cloud",` + rest, limited, "here"},
			{`{"model":"m@cloud","mod\u0065l":"other",` + rest, limited, "here"},
			{`{"model":"m@cloud","messages":[{"role":"user","role":"system"}]}`, nil, "here"},
			{`{"model":"m@cloud",` + rest + `{"model":"other"}`, limited, "here"},
			{`{"model":"m@cloud","models":["other"],` + rest, limited, `"models"`},
			{`{"model":"m@cloud","fallbacks":["other"],` + rest, limited, `"fallbacks"`},
			{`{"model":"m@cloud","models":["other"],` + rest, &guard.Caller{}, "cloud"},
			{`{"model":"m@cloud","fallbacks":["other"],` + rest, nil, "cloud"},
		} {
			*last, g.caller = "", c.caller
			_, text, _ := g.post(t, c.body)
			if !strings.Contains(text, c.want) || (*last != "") != (c.want == "cloud") {
				t.Errorf("%s: %s, the cloud got %s", c.body, text, *last)
			}
		}
		// A body that stays here is this machine's to judge.
		g.caller, *last = limited, ""
		want := map[bool]string{true: "here", false: `"Model"`}[at == Here(here{})]
		if _, text, _ := g.post(t, `{"model":"m","Model":"other",`+rest); *last != "" ||
			!strings.Contains(text, want) {
			t.Errorf("%s, want %s, the cloud got %s", text, want, *last)
		}
	}
}

// TestBatchStays: a batch is answered here, also for a model that only others have: it may be a
// batch of another machine.
func TestBatchStays(t *testing.T) {
	for _, at := range []Here{nowhere{}, here{}} {
		f := newFake(t, "desk", says("there"))
		g := newRig(t, at, f)
		g.context = guard.Background
		if _, text, _ := g.post(t, hello); text != "here" || f.requests.Load() > 0 {
			t.Errorf("%T: %s", at, text)
		}
	}
}

// TestManagementOfAKey: with a named key, another machine gets neither keep_alive nor a priority
// that raises, and every other byte as it was.
func TestManagementOfAKey(t *testing.T) {
	g := newRig(t, nowhere{})
	last := g.addCloud(t)
	named := &guard.Caller{Name: "one"}
	for _, c := range []struct{ body, want string }{
		{`{"model":"m" , "keep_alive" : -1,"x":[1]}`, `{"model":"m" , "keep_alive" : null,"x":[1]}`},
		{`{"keep_alive":"24h","model":"m@cloud","priority":-5}`,
			`{"keep_alive":null,"model":"m","priority":0}`},
		{`{"priority":-1e2,"model":"m"}`, `{"priority":0,"model":"m"}`},
		{`{"Priority":"-7","model":"m","Keep_Alive":0}`,
			`{"Priority":0,"model":"m","Keep_Alive":null}`},
		{`{"prior\u0069ty":[-7],"model":"m"}`, `{"prior\u0069ty":0,"model":"m"}`},
		{`{"priority":7,"model":"m"}`, `{"priority":7,"model":"m"}`},
		{`{"priority":null,"keep_alive":null,"model":"m"}`,
			`{"priority":null,"keep_alive":null,"model":"m"}`},
		{`{"options":{"priority":-1,"keep_alive":0},"model":"m"}`,
			`{"options":{"priority":-1,"keep_alive":0},"model":"m"}`},
	} {
		for _, g.caller = range []*guard.Caller{named, nil} {
			want := c.want
			if g.caller == nil {
				want = strings.Replace(c.body, "m@cloud", "m", 1)
			}
			if _, text, _ := g.post(t, c.body); text != "cloud" || *last != want {
				t.Errorf("%s of %v: %s, the cloud got %s, want %s", c.body, g.caller, text, *last,
					want)
			}
		}
	}
}

// TestLowPriorityStays: requests of a key whose requests wait for those of others wait here, if the
// model is here: another machine does not know the key's priority.
func TestLowPriorityStays(t *testing.T) {
	for at, want := range map[Here]string{nowhere{}: "there", here{}: "here"} {
		g := newRig(t, at, newFake(t, "desk", says("there")))
		for _, priority := range []int{-1, 0} {
			g.caller = &guard.Caller{Name: "batch", Priority: priority}
			if priority == 0 {
				want = "there" // the model is in memory there
			}
			if _, text, _ := g.post(t, hello); text != want {
				t.Errorf("%T, priority %d: %s, want %s", at, priority, text, want)
			}
		}
	}
}
