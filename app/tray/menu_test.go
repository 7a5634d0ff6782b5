package tray

import (
	"bytes"
	"fmt"
	"image/png"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"headroom/app/cache"
	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/power"
	"headroom/app/update"
)

const gib = 1 << 30

// state returns the state of a 32 GB machine with the demo model, a large model and a broken one.
func state(status host.Status, change func(*State)) State {
	s := State{CanCopy: true, Watch: host.ModelsWatch{On: true}, State: host.State{
		Engine:   host.EngineState{Status: status},
		Endpoint: host.Endpoint{URL: "http://127.0.0.1:11811/v1"},
		Cache:    cache.Stats{On: true, Bytes: 3_210_000_000, MaxBytes: 20e9},
		Memory:   memory.Ledger{TotalBytes: 32 * gib, HeadroomBytes: 13207024435}, // 12.3 * 2^30

		RoomBytes: 13207024435,
	}, Models: []host.Model{
		{ID: "headroom-demo", Architecture: "qwen3_5_moe", Quantization: "4-bit, group 64",
			SizeBytes: 11_400_000, NeedBytes: 64 << 20, Fits: memory.Yes, Bundled: true},
		// 19.4 * 2^30
		{ID: "org/large", SizeBytes: 18_600_000_000, NeedBytes: 20_830_000_000, Fits: memory.No},
		{ID: "org/broken", Error: "model.safetensors ends too early", Fits: memory.No},
	}}
	if status != host.Stopped {
		s.Engine.Model = "headroom-demo"
	}
	if change != nil {
		change(&s)
	}
	return s
}

// beside adds the large model with this status.
func beside(status host.Status) func(*State) {
	return func(s *State) {
		s.Engines = []host.EngineState{s.Engine, {Status: status, Model: "org/large"}}
	}
}

func downloading(done, total int64) func(*State) {
	return func(s *State) {
		s.Models = append(s.Models,
			host.Model{ID: "org/new", State: library.Downloading, Fits: memory.No,
				Error:    "The model is not complete yet",
				Download: &host.Download{DoneBytes: done, TotalBytes: total}})
	}
}

// segments sets the memory of Headroom, of other apps, and what is free, in GiB.
func segments(own, other, free float64) func(*State) {
	bytes := func(n float64) int64 { return int64(n * gib) }
	return func(s *State) {
		s.Memory.Segments = []memory.Segment{{Kind: memory.Weights, Bytes: bytes(own)},
			{Kind: memory.Other, Bytes: bytes(other)}, {Kind: memory.Free, Bytes: bytes(free)}}
	}
}

func TestTitle(t *testing.T) {
	answering := func(f Figure, speed float64) State {
		return state(host.Busy, func(s *State) {
			s.Figure, s.Speed.DecodeTokensPerSecond = f, speed
		})
	}
	for _, c := range []struct {
		state State
		want  string
	}{
		{answering("", 43.21), ""},
		{answering(FigureSpeed, 43.21), "43.2 tok/s"},
		{answering(FigureSpeed, 0), ""},
		{answering(FigureMemory, 43.21), "12.3 GB"},
		{State{Figure: FigureMemory}, ""},
	} {
		if got := title(c.state); got != c.want {
			t.Errorf("%q: %q, want %q", c.state.Figure, got, c.want)
		}
	}
}

func TestTimeLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{59 * time.Second: "under 1 min left",
		time.Minute: "1 min left", 59*time.Minute + 59*time.Second: "59 min left",
		125 * time.Minute: "2 h 5 min left"} {
		if got := timeLeft(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func onBattery(s *State) {
	s.Power.Measures = power.Decide(power.State{Source: power.Battery},
		power.Policy{SaveOnBattery: true}).Describe()
}

func failed(s *State) {
	s.Engine.Error = &host.Error{Message: "The model does not fit",
		Why: "it needs 19.4 GB, 12.3 GB are free", Fix: "Close other apps."}
}

// retried is a model that has crashed several times and is loaded again later.
func retried(s *State) {
	s.Engine.Error = &host.Error{Message: "The model crashed 3 times in a row",
		Why: "it was killed"}
	s.Engine.RetryAtUnixMs = time.Date(2026, 11, 23, 14, 5, 7, 0, time.Local).UnixMilli()
}

// drafted is a model that was loaded a while ago.
func drafted(s *State) {
	s.Engine.GeneratedTokens, s.Engine.DraftTokens, s.Engine.AcceptedTokens = 100, 60, 41
}

// picture returns a menu as text, with one line for each row: its title, then its action.
func picture(items []Item, indent string) string {
	var b strings.Builder
	for _, i := range items {
		if i.Hidden {
			continue
		}
		if i.Separator {
			b.WriteString(indent + "--\n")
			continue
		}
		mark := " "
		if i.Checked {
			mark = "*"
		}
		line := indent + mark + i.Title
		if i.Disabled {
			line += " (grey)"
		} else if i.Click.Verb != Nothing {
			line += strings.TrimRight(fmt.Sprintf(" -> %s %s", i.Click.Verb, i.Click.Text), " ")
		}
		b.WriteString(line + "\n" + picture(i.Submenu, indent+"  "))
	}
	return b.String()
}

func TestWholeMenu(t *testing.T) {
	want := ` Ready, headroom-demo (grey)
 Stop Engine -> stop
 Models
  *headroom-demo, 11.4 MB -> stop headroom-demo
   org/large, needs 19.4 GB, 12.3 GB available (grey)
   org/broken, cannot be used (grey)
 Chats
   New Chat -> open page=chat&chat=new
--
 12.3 GB available for a model (grey)
 SSD cache: 3.2 GB of 20.0 GB (grey)
 Copy http://127.0.0.1:11811/v1 -> copy http://127.0.0.1:11811/v1
 Pause Watching Folders -> pause
--
 Open Headroom -> open
 Quit Headroom -> quit
`
	if got := picture(menuFor(state(host.Ready, nil)), ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRows(t *testing.T) {
	cases := []struct {
		name  string
		state State
		want  string // a line of the picture
		not   string // no line contains it; "": not checked
	}{
		{"stopped", state(host.Stopped, nil), " Stopped (grey)", "*"},
		{"stopped: start", state(host.Stopped, nil), " Start Engine -> start", "stop"},
		{"loading", state(host.Loading, func(s *State) { s.Engine.Progress = 0.404 }),
			" Loading headroom-demo, 40 % (grey)", "Stop"},
		{"loading: cancel", state(host.Loading, nil), " Cancel Loading -> stop", ""},
		{"loading: mark", state(host.Loading, nil),
			"  *headroom-demo, 11.4 MB -> stop headroom-demo",
			""},
		{"busy before the first token", state(host.Busy, nil), " Answering, headroom-demo (grey)",
			"tok/s"},
		{"busy", state(host.Busy, func(s *State) { s.Speed.DecodeTokensPerSecond = 43.21 }),
			" Answering, headroom-demo, 43.2 tok/s (grey)", ""},
		{"fast", state(host.Busy, func(s *State) { s.Speed.DecodeTokensPerSecond = 104.6 }),
			" Answering, headroom-demo, 105 tok/s (grey)", ""},
		{"failed", state(host.Failed, failed), " headroom-demo did not start (grey)", "*"},
		{"unloaded", state(host.IdleUnloaded, nil), " Unloaded, headroom-demo (grey)", "tok/s"},
		{"unloaded: stop", state(host.IdleUnloaded, nil), " Stop Engine -> stop", ""},
		{"failed: why", state(host.Failed, failed), " It needs 19.4 GB, 12.3 GB are free. -> open",
			""},
		{"failed: again", state(host.Failed, failed), " Try Again -> start headroom-demo", ""},
		{"loaded again", state(host.Failed, retried),
			" Loading headroom-demo again at 14:05:07 (grey)", "did not start"},
		{"loaded again: why", state(host.Failed, retried), " It was killed. -> open", ""},
		{"loaded again: now", state(host.Failed, retried), " Try Now -> start headroom-demo",
			"Try Again"},
		{"notice", state(host.Stopped, func(s *State) { s.Notice = "Port 11811 is taken" }),
			" Port 11811 is taken -> open", ""},
		{"failure before notice",
			state(host.Failed, func(s *State) { failed(s); s.Notice = "Port" }),
			" It needs 19.4 GB, 12.3 GB are free. -> open", "Port"},
		{"on battery", state(host.Ready, onBattery), " On battery: unloads sooner -> open",
			"tok/s"},
		{"notice before battery",
			state(host.Ready, func(s *State) { onBattery(s); s.Notice = "Port 11811 is taken" }),
			" Port 11811 is taken -> open", "battery"},
		{"drafts", state(host.Busy, drafted),
			" Decoded ahead: 68 % accepted, 1.7 tokens a pass (grey)", "60"},
		{"drafts of an idle model", state(host.Ready, drafted),
			" Decoded ahead: 68 % accepted, 1.7 tokens a pass (grey)", ""},
		{"what drafts gained", state(host.Ready, func(s *State) {
			drafted(s)
			s.Engine.Speedup = 1.416
		}), " Decoded ahead: 68 % accepted, 1.7 tokens a pass, 1.42x (grey)", ""},
		{"a drafter that drafts nothing", state(host.Ready, idleDrafter),
			" Nothing decoded ahead lately (grey)", "accepted"},
		{"lookups that find nothing", state(host.Ready, func(s *State) {
			idleDrafter(s)
			s.Engine.Drafter = ""
		}), " Decoded ahead: 68 % accepted, 1.7 tokens a pass (grey)", "lately"},
		{"no draft was accepted", state(host.Ready, func(s *State) {
			drafted(s)
			s.Engine.AcceptedTokens = 0
		}), " Decoded ahead: 0 % accepted, 1.0 tokens a pass (grey)", ""},
		{"no drafts", state(host.Ready, func(s *State) { s.Engine.GeneratedTokens = 100 }),
			" Ready, headroom-demo (grey)", "ahead"},
		{"drafts of a model that was unloaded", state(host.IdleUnloaded, drafted),
			" Unloaded, headroom-demo (grey)", "ahead"},
		{"battery before drafts", state(host.Ready, func(s *State) { onBattery(s); drafted(s) }),
			" On battery: unloads sooner -> open", "ahead"},
		{"notice before drafts", state(host.Ready, func(s *State) {
			drafted(s)
			s.Notice = "Port 11811 is taken"
		}), " Port 11811 is taken -> open", "ahead"},
		{"memory is short", state(host.Ready, func(s *State) {
			segments(8, 24, 0)(s)
			s.Pressure.Level = memory.Warning
			s.Pressure.Advice = []host.UnloadAdvice{{Model: "org/large", FreesBytes: 19 * gib}}
		}), " ███▒▒▒▒▒▒▒▒▒  Memory is short: org/large holds 19.0 GB -> open page=memory",
			"available for"},
		{"memory is very short, without a model", state(host.Stopped, func(s *State) {
			s.Pressure.Level = memory.Critical
		}), " Memory is very short -> open page=memory", "holds"},
		{"an update", state(host.Ready, func(s *State) {
			drafted(s)
			s.Update = update.Known{Version: "1.4.0"}
		}), " Headroom 1.4.0 is available -> open page=settings", "ahead"},
		{"an update that is ready", state(host.Ready, func(s *State) {
			s.Update = update.Known{Version: "1.4.0", Ready: true}
		}), " Headroom 1.4.0 is installed on Quit -> open page=settings", "available ->"},
		{"battery before an update", state(host.Ready, func(s *State) {
			onBattery(s)
			s.Update = update.Known{Version: "1.4.0"}
		}), " On battery: unloads sooner -> open", "1.4.0"},
		{"no clipboard", state(host.Stopped, func(s *State) { s.CanCopy = false }),
			" http://127.0.0.1:11811/v1 -> open", "Copy"},
		{"no endpoint", state(host.Stopped, func(s *State) { s.Endpoint.URL = "" }),
			" No endpoint yet (grey)", "copy"},
		{"memory not known", state(host.Stopped, func(s *State) { s.Memory = memory.Ledger{} }),
			" Available memory unknown (grey)", ""},
		{"memory full", state(host.Stopped, func(s *State) { s.Memory.HeadroomBytes = 49 << 20 }),
			" No memory available for a model (grey)", "MB available for"},
		{"megabytes", state(host.Stopped, func(s *State) { s.Memory.HeadroomBytes = 512 << 20 }),
			" 512 MB available for a model (grey)", ""},
		{"never 1000 MB", state(host.Stopped,
			func(s *State) { s.Memory.HeadroomBytes = 1023 << 20 }),
			" 1.0 GB available for a model (grey)", ""},
		{"the memory bar", state(host.Ready, segments(8, 16, 8)),
			" ███▒▒▒▒▒▒░░░  12.3 GB available for a model (grey)", ""},
		{"little of Headroom's is seen", state(host.Ready, segments(0.1, 31.9, 0)),
			" █▒▒▒▒▒▒▒▒▒▒▒  12.3 GB available for a model (grey)", "░"},
		{"a model's speed", state(host.Busy, func(s *State) {
			s.Engine.DecodeTokensPerSecond = 43.21
			s.Engines = []host.EngineState{s.Engine}
		}), "  *headroom-demo, 11.4 MB, 43.2 tok/s -> stop headroom-demo", ""},
		{"chats", state(host.Stopped, func(s *State) {
			s.Chats = []Chat{{ID: "c&1", Title: "Plan a week"}, {ID: "c2"}}
		}), "   Plan a week -> open page=chat&chat=c%261", ""},
		{"a chat without a title", state(host.Stopped, func(s *State) {
			s.Chats = []Chat{{ID: "c2"}}
		}), "   Untitled -> open page=chat&chat=c2", ""},
		{"a running download", state(host.Stopped, func(s *State) {
			s.Downloads = []Download{{"org/new", 19, 40, 200 * time.Second}}
		}), " Downloading org/new, 47 %, 3 min left -> open page=models", ""},
		{"a download that has just begun", state(host.Stopped, func(s *State) {
			s.Downloads = []Download{{"org/new", 0, 0, -1}}
		}), " Downloading org/new -> open page=models", "left"},
		{"two downloads", state(host.Stopped, func(s *State) {
			s.Downloads = []Download{{"org/new", 10, 40, time.Hour}, {"org/b", 0, 60, -1}}
		}), " 2 downloads, 10 % -> open page=models", "left"},
		{"no models", state(host.Stopped, func(s *State) { s.Models = nil }), " Models (grey)", ""},
		{"a download", state(host.Stopped, downloading(19, 40)),
			"   org/new, 47 % downloaded (grey)", "org/new, cannot"},
		{"a download that says 100 %", state(host.Stopped, downloading(40, 40)),
			"   org/new, 99 % downloaded (grey)", ""},
		{"a download of unknown size", state(host.Stopped, downloading(19, 0)),
			"   org/new, downloading (grey)", ""},
		{"a model that can never run", state(host.Stopped,
			func(s *State) { s.Models[2].State = library.NotLoadable }),
			"   headroom-demo, 11.4 MB -> start headroom-demo", "org/broken"},
		{"a running model that no longer fits can be unloaded",
			state(host.Ready, func(s *State) { s.Models[0].Fits = memory.No }),
			"  *headroom-demo, needs 64 MB, 12.3 GB available -> stop headroom-demo", ""},
		{"another model is loaded, too", state(host.Ready, beside(host.Ready)),
			" Ready, headroom-demo and 1 more (grey)", ""},
		{"another model is busy", state(host.Ready, beside(host.Busy)),
			" Answering, headroom-demo and 1 more (grey)", ""},
		{"another model is loaded, too: stop", state(host.Ready, beside(host.Ready)),
			" Stop All Models -> stop", "Stop Engine"},
		{"another model is loaded, too: mark", state(host.Ready, beside(host.Loading)),
			"  *org/large, needs 19.4 GB, 12.3 GB available -> stop org/large", ""},
		{"another model was unloaded", state(host.Ready, beside(host.IdleUnloaded)),
			" Ready, headroom-demo (grey)", "*org/large"},
		{"a model that failed is started again", state(host.Failed, failed),
			"   headroom-demo, 11.4 MB -> start headroom-demo", "stop"},
		{"no cache on disk", state(host.Stopped, func(s *State) { s.Cache.On = false }),
			" Stopped (grey)", "SSD cache"},
		{"a cache without a cap", state(host.Stopped, func(s *State) { s.Cache.MaxBytes = -1 }),
			" SSD cache: 3.2 GB (grey)", " of "},
		{"watching is paused", state(host.Stopped,
			func(s *State) { s.Watch = host.ModelsWatch{Paused: true} }),
			" Resume Watching Folders -> resume", "Pause"},
		{"folders are not watched",
			state(host.Stopped, func(s *State) { s.Watch = host.ModelsWatch{} }),
			" Stopped (grey)", "Watching"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := picture(menuFor(c.state), "")
			if !slices.Contains(strings.Split(got, "\n"), c.want) {
				t.Errorf("no line %q in\n%s", c.want, got)
			}
			if c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("%q in\n%s", c.not, got)
			}
		})
	}
}

func TestManyModels(t *testing.T) {
	s := state(host.Stopped, func(s *State) {
		for i := range 30 {
			s.Models = append(s.Models, host.Model{ID: fmt.Sprintf("m%d", i), Fits: memory.Yes})
		}
	})
	sub := menuFor(s)[3].Submenu
	if len(sub) != maxModels+1 {
		t.Fatalf("%d rows, want %d", len(sub), maxModels+1)
	}
	if last := sub[maxModels]; last.Title != "13 more models in Headroom" ||
		last.Click.Verb != Open {
		t.Errorf("the last row is %+v", last)
	}
}

// The loaded model comes first, then the recently used ones, then the others in list order.
func TestOrderOfModels(t *testing.T) {
	s := state(host.Ready, func(s *State) {
		s.Models = nil
		for _, id := range []string{"a", "b", "c", "headroom-demo", "d"} {
			s.Models = append(s.Models, host.Model{ID: id, Fits: memory.Yes})
		}
		s.Recent = []string{"d", "gone", "b", "headroom-demo"}
	})
	order := func() (ids string) {
		for _, row := range menuFor(s)[3].Submenu {
			name, _, _ := strings.Cut(row.Title, ",")
			ids += name + " "
		}
		return ids
	}
	if got := order(); got != "headroom-demo d b a c " {
		t.Errorf("running: %s", got)
	}
	s.Engine = host.EngineState{Status: host.Stopped}
	if got := order(); got != "d b headroom-demo a c " {
		t.Errorf("stopped: %s", got)
	}
	if s.Models[0].ID != "a" {
		t.Error("the caller's list was sorted")
	}
}

func idleDrafter(s *State) {
	drafted(s)
	s.Engine.Drafter = "mtp"
	s.Engine.NoDrafts = "Drafts would have cost more time than they save."
}

func TestDraftsTooltip(t *testing.T) {
	row := menuFor(state(host.Ready, drafted))[1]
	if row.Tooltip != "The model accepted 41 of 60 drafts since it was loaded." || !row.Disabled {
		t.Errorf("%+v", row)
	}
	row = menuFor(state(host.Ready, func(s *State) {
		idleDrafter(s)
		s.Engine.Speedup = 1.416
	}))[1]
	if row.Tooltip != "Drafts would have cost more time than they save. The model accepted 41 of "+
		"60 drafts since it was loaded. Decoding was about 1.42 times as fast as without drafts." {
		t.Errorf("%+v", row)
	}
}

// In every state the menu has the same number of rows, at most 12 and two separators, and no title
// is too long.
func TestShapeOfMenu(t *testing.T) {
	long := func(s *State) {
		failed(s)
		s.Engine.Model = strings.Repeat("ä", 300)
		s.Engine.Error.Why = strings.Repeat("why ", 100)
		s.Models[0].ID = "a\nb\t" + strings.Repeat("x", 300) + "\xff"
		s.Notice = strings.Repeat("n", 300)
	}
	for _, status := range []host.Status{host.Stopped, host.Loading, host.Ready, host.Busy,
		host.Failed, host.IdleUnloaded, "unheard of"} {
		for _, change := range []func(*State){nil, long} {
			menu := menuFor(state(status, change))
			if len(menu) != len(menuFor(State{})) || len(menu) > 12+2 {
				t.Errorf("%s: %d rows", status, len(menu))
			}
			for i, row := range menu {
				if row.Separator != menuFor(State{})[i].Separator {
					t.Errorf("%s: row %d is a separator in some states only", status, i)
				}
				for _, item := range append(row.Submenu, row) {
					if n := utf8.RuneCountInString(item.Title); n > 96 ||
						strings.ContainsAny(item.Title, "\n\t") || !utf8.ValidString(item.Title) {
						t.Errorf("%s: a row of %d characters: %q", status, n, item.Title)
					}
				}
			}
		}
	}
}

func TestShorten(t *testing.T) {
	cases := []struct {
		text string
		most int
		want string
	}{
		{"", 5, ""},
		{"12345", 5, "12345"},
		{"123456", 5, "12…56"},
		{"äöüäöü", 4, "ä…öü"},
	}
	for _, c := range cases {
		if got := shorten(c.text, c.most); got != c.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestIcons(t *testing.T) {
	seen := map[string]Icon{}
	for _, status := range []host.Status{host.Stopped, host.Loading, host.Ready, host.Busy} {
		icon := iconFor(status)
		for _, data := range [][]byte{icon.Template(), icon.Coloured()} {
			if other, twice := seen[string(data)]; twice {
				t.Errorf("%s has the picture of %s", icon, other)
			}
			seen[string(data)] = icon
			picture, err := png.Decode(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if size := picture.Bounds().Size(); size.X != 44 || size.Y != 44 {
				t.Errorf("%s is %v", icon, size)
			}
		}
	}
	if len(seen) != 2*len(Icons) {
		t.Errorf("%d pictures of %d icons", len(seen), len(Icons))
	}
	if iconFor(host.Failed) != IconStopped {
		t.Error("a failed engine does not look stopped")
	}
}
