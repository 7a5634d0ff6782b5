package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestFirstStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Get(); !reflect.DeepEqual(got, Default()) {
		t.Errorf("got %+v, want the defaults", got)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("Open made a folder")
	}
}

func TestChange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "headroom")
	f, _ := Open(dir, nil)
	cache := Cache{Dir: "/c", MaxSize: 20e9, MinFree: 1 << 30, DailyWrites: Unlimited,
		MemoryCacheSize: 1e6, PromptCacheSize: 3, PreferPrefill: true, MaxPrefillStallMs: 100}
	models := map[string]Model{"org/name": {KVFormat: "affine", KVBits: "8", KVGroupSize: "32",
		KVBoundaryLayers: new(int), KVBoundaryBits: 8, MaxSequences: 2}}
	if err := f.Change(func(s *Settings) {
		s.Model, s.EngineOn, s.ModelFolders, s.Cache, s.Models = "org/name", false, []string{"a"},
			cache, models
	}); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{Version: version, Model: "org/name", Port: 11811, Notifications: true,
		SaveOnBattery: true, ThrottleWhenHot: true, LoadOnRequest: true, FreeUnderPressure: true,
		ModelFolders: []string{"a"}, Cache: cache, Models: models}
	if got := again.Get(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("the folder has %d entries, want only the file", len(entries))
	}
	info, _ := entries[0].Info()
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %o, want 600", got)
	}
}

func TestNoChangeWritesNothing(t *testing.T) {
	dir := t.TempDir()
	f, _ := Open(dir, nil)
	if err := f.Change(func(*Settings) {}); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("%d files were written", len(entries))
	}
}

func TestGetIsACopy(t *testing.T) {
	f, _ := Open(t.TempDir(), nil)
	_ = f.Change(func(s *Settings) {
		s.ModelFolders, s.Models = []string{"a"},
			map[string]Model{"m": {KVBoundaryLayers: new(int)}}
	})
	got := f.Get()
	got.ModelFolders[0] = "b"
	*got.Models["m"].KVBoundaryLayers = 7
	got.Models["x"] = Model{}
	got = f.Get()
	if got.ModelFolders[0] != "a" || *got.Models["m"].KVBoundaryLayers != 0 ||
		len(got.Models) != 1 {
		t.Errorf("a caller changed the settings to %+v", got)
	}
}

func TestParse(t *testing.T) {
	d := Default()
	with := func(change func(*Settings)) Settings { s := Default(); change(&s); return s }
	cases := []struct {
		name, file string
		want       Settings
		wantErr    string
	}{
		{"empty object: version 0, all defaults", `{}`, d, ""},
		{"one field", `{"version":1,"model":"m"}`, with(func(s *Settings) { s.Model = "m" }), ""},
		{"engine off", `{"version":1,"engineOn":false}`,
			with(func(s *Settings) { s.EngineOn = false }), ""},
		{"unknown fields", `{"version":1,"theme":"dark"}`,
			with(func(s *Settings) { s.unknown.top = members{"theme": []byte(`"dark"`)} }), ""},
		{"no folders", `{"version":1,"modelFolders":null}`, d, ""},
		{"port 0", `{"version":1,"port":0}`, d, "port: 0 is out of range"},
		{"port too high", `{"version":1,"port":65536}`, d, "port: 65536 is out of range"},
		{"negative minutes", `{"idleUnloadMinutes":-1,"model":"m"}`,
			with(func(s *Settings) { s.Model = "m" }), "idleUnloadMinutes: -1 is out of range"},
		{"minutes that overflow a duration", `{"idleUnloadMinutes":153722868,"model":"m"}`,
			with(func(s *Settings) { s.Model = "m" }),
			"idleUnloadMinutes: 153722868 is out of range"},
		{"a stall that overflows a duration", `{"cache":{"maxPrefillStallMs":9223372036855}}`, d,
			"cache.maxPrefillStallMs: 9223372036855 is out of range"},
		{"a negative number of conversations", `{"cache":{"promptCacheSize":-5,"off":true}}`,
			with(func(s *Settings) { s.Cache.Off = true }),
			"cache.promptCacheSize: -5 is negative"},
		{"a relative folder", `{"cache":{"dir":"blocks","off":true}}`,
			with(func(s *Settings) { s.Cache.Off = true }),
			`cache.dir: "blocks" is not an absolute path`},
		{"a relative import folder", `{"importFolder":"models","model":"m"}`,
			with(func(s *Settings) { s.Model = "m" }),
			`importFolder: "models" is not an absolute path`},
		{"an unknown level", `{"logLevel":"loud","model":"m"}`,
			with(func(s *Settings) { s.Model = "m" }), `logLevel: "loud" is not a level`},
		{"a cache",
			`{"version":1,"cache":{"off":true,"dir":"/c","maxSize":"1.5 GB","minFree":5000000,"dailyWrites":"none","promptCacheSize":0,"maxStallMs":0}}`,
			with(func(s *Settings) {
				s.Cache = Cache{Off: true, Dir: "/c", MaxSize: 1.5e9, MinFree: 5e6,
					DailyWrites: Unlimited}
			}), ""},
		{"keys of version 1",
			`{"version":1,"restMinutes":30,"easeWhenHot":false,"theme":"dark",` +
				`"cache":{"hotSize":"2GB","maxStallMs":100,"maxSize":5000000}}`,
			with(func(s *Settings) {
				s.unknown.top = members{"theme": []byte(`"dark"`)}
				s.IdleUnloadMinutes, s.ThrottleWhenHot = 30, false
				s.Cache = Cache{MemoryCacheSize: 2e9, MaxPrefillStallMs: 100, MaxSize: 5e6}
			}), ""},
		{"keys of version 1 without a version", `{"restMinutes":30,"cache":{"hotSize":1000000}}`,
			with(func(s *Settings) {
				s.IdleUnloadMinutes, s.Cache.MemoryCacheSize = 30, 1e6
			}), ""},
		{"an old and its new key", `{"version":1,"restMinutes":30,"idleUnloadMinutes":5}`,
			with(func(s *Settings) { s.IdleUnloadMinutes = 5 }), ""},
		{"old keys in another case", `{"version":1,"RestMinutes":30,"Cache":{"HotSize":1000000}}`,
			with(func(s *Settings) {
				s.IdleUnloadMinutes, s.Cache.MemoryCacheSize = 30, 1e6
			}), ""},
		{"version 1 without a cache", `{"version":1,"cache":null}`, d, ""},
		{"a cache that is not an object", `{"version":1,"cache":[1],"model":"m"}`,
			with(func(s *Settings) { s.Model = "m" }), "cache: expected an object, got array"},
		{"an invalid size in version 1", `{"version":1,"cache":{"hotSize":"1.5 GX"}}`, d,
			`cache.memoryCacheSize: "1.5 GX" is not a size`},
		{"an invalid size", `{"version":1,"cache":{"maxSize":"1.5 GX","minFree":5000000}}`,
			with(func(s *Settings) { s.Cache.MinFree = 5e6 }), `no unit "GX"`},
		{"an invalid value of a model",
			`{"models":{"org/m":{"kvFormat":"q8_0","contextTokens":"4096"},"b":{"contextTokens":1}}}`,
			with(func(s *Settings) {
				s.Models = map[string]Model{"org/m": {KVFormat: "q8_0"}, "b": {ContextTokens: 1}}
			}), "models.org/m.contextTokens: expected an integer, got string"},
		{"a model",
			`{"version":1,"models":{"org/m":{"kvFormat":"q8_0","kvBits":"(8, 4)","kvBoundaryLayers":0,"contextTokens":4096}}}`,
			with(func(s *Settings) {
				s.Models = map[string]Model{"org/m": {KVFormat: "q8_0", KVBits: "(8, 4)",
					KVBoundaryLayers: new(int), ContextTokens: 4096}}
			}), ""},
		{"a value that a model refuses",
			`{"models":{"a":{"kvBits":"9","contextTokens":4},"b":{"kvBits":"8"}}}`,
			with(func(s *Settings) {
				s.Models = map[string]Model{"a": {ContextTokens: 4}, "b": {KVBits: "8"}}
			}), "models.a.kvBits: 9 bits"},
		{"values that contradict each other",
			`{"model":"m","models":{"a":{"kvFormat":"f16","kvBits":"8","contextTokens":4}}}`,
			with(func(s *Settings) {
				s.Model, s.Models = "m", map[string]Model{"a": {ContextTokens: 4, KVBits: "8"}}
			}), "models.a.kvFormat: f16 has no bits"},
		{"a later version", `{"version":7,"port":80}`,
			with(func(s *Settings) { s.Version, s.Port = 7, 80 }), ""},
		{"negative version", `{"version":-1,"port":80}`, with(func(s *Settings) { s.Port = 80 }),
			"version: -1 is not a version"},
		{"huge version", `{"version":1e30}`, d, "version: 1e30 is not a version"},
		{"an unknown launch", `{"launch":"maybe","model":"m"}`,
			with(func(s *Settings) { s.Model = "m" }), `launch: "maybe" is not a value`},
		{"truncated", `{"version":1,`, Settings{}, "unexpected end"},
		{"a number that is too large", `{"models":{"org/m":{"temperature":1e400}}}`,
			with(func(s *Settings) { s.Models = map[string]Model{"org/m": {}} }),
			"models.org/m.temperature: the number 1e400 is too large"},
		{"not an object", `[1]`, Settings{}, "cannot unmarshal array"},
		{"null", `null`, Settings{}, "not a JSON object"},
		{"wrong type", `{"version":1,"port":"x","model":"m"}`,
			with(func(s *Settings) { s.Model = "m" }), "port: expected an integer, got string"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, invalid, err := parse([]byte(c.file), fakeCheck)
			err = errors.Join(append(invalid, err)...)
			switch {
			case c.wantErr == "" && err != nil:
				t.Fatal(err)
			case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)):
				t.Fatalf("error %v, want one with %q", err, c.wantErr)
			case !reflect.DeepEqual(got, c.want):
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// fakeCheck refuses 9 bits, and any bits beside f16.
func fakeCheck(m Model) error {
	switch {
	case m.KVBits == "9":
		return fmt.Errorf("%s bits", m.KVBits)
	case m.KVBits != "" && m.KVFormat == "f16":
		return fmt.Errorf("%s has no bits", m.KVFormat)
	}
	return nil
}

func TestForModel(t *testing.T) {
	s := Settings{Models: map[string]Model{"Org/A": {ContextTokens: 1}, "org/a": {ContextTokens: 2},
		"org/b": {ContextTokens: 3}}}
	for id, want := range map[string]int{"Org/A": 1, "org/a": 2, "ORG/B": 3, "b": 0, "": 0} {
		if got := s.ForModel(id).ContextTokens; got != want {
			t.Errorf("ForModel(%q) has a context of %d, want %d", id, got, want)
		}
	}
}

func TestDamagedFileIsCopied(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	writeFile(t, path, "{")
	f, err := Open(dir, nil)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name the file", err)
	}
	want := Default()
	want.APIKey = f.Get().APIKey // a random one; see TestKeySurvives
	if got := f.Get(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want the defaults", got)
	}
	if err := f.Change(func(s *Settings) { s.Model = "m" }); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(path + ".damaged-1"); string(data) != "{" {
		t.Errorf("the copy is %q", data)
	}
}

func TestLaterFileIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	later := `{"version":3,"model":"a","secret":"kept"}`
	writeFile(t, path, later)
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Change(func(s *Settings) { s.Model = "b" }); err != nil {
		t.Fatal(err)
	}
	if got := f.Get().Model; got != "b" {
		t.Errorf("model %q, want b for this run", got)
	}
	if data, _ := os.ReadFile(path); string(data) != later {
		t.Errorf("the file is now %s", data)
	}
}

// TestRenamedKeysAreWrittenBack: a file with old keys keeps its values, and the next change writes
// them under the new keys.
func TestRenamedKeysAreWrittenBack(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	writeFile(t, path, `{"version":1,"model":"m","restMinutes":30,"easeWhenHot":false,`+
		`"cache":{"hotSize":"2GB","maxStallMs":100}}`)
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := f.Get()
	if err := f.Change(func(s *Settings) { s.Port = 80 }); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	for _, names := range []map[string]string{renamedKeys, renamedCacheKeys} {
		for old, name := range names {
			if strings.Contains(string(data), `"`+old+`"`) ||
				!strings.Contains(string(data), `"`+name+`"`) {
				t.Errorf("%s is not written as %s:\n%s", old, name, data)
			}
		}
	}
	again, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	before.Port = 80
	if got := again.Get(); !reflect.DeepEqual(got, before) || got.IdleUnloadMinutes != 30 {
		t.Errorf("got %+v, want %+v", got, before)
	}
}

// TestUnknownFieldsStay: fields that this version does not know survive changes, also those of the
// cache and of models, and a second reading. A reset removes them.
func TestUnknownFieldsStay(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	writeFile(t, path, `{"version":2,"theme":{"dark":[true,1e400]},"Port":80,"cache":{"tier":3},`+
		`"models":{"org/a":{"contextTokens":4,"draft":"org/b"},"org/c":{"later":null},"org/d":{}}}`)
	expect := func(want string) {
		t.Helper()
		data, err := os.ReadFile(path)
		var got, expected any
		if err == nil {
			err = errors.Join(decode(data, &got), decode([]byte(want), &expected))
		}
		if err != nil || !reflect.DeepEqual(got, expected) {
			t.Errorf("the file has %s, expected %s; %v", data, want, err)
		}
	}
	const rest = `"version":2,"model":"","engineOn":true,"modelFolders":[],` +
		`"loadOnRequest":true,"notifications":true,"saveOnBattery":true,"throttleWhenHot":true,` +
		`"freeUnderPressure":true`
	for port := 81; port < 83; port++ { // written twice
		f, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Change(func(s *Settings) { s.Port = port }); err != nil {
			t.Fatal(err)
		}
		expect(fmt.Sprintf(`{%s,"port":%d,"theme":{"dark":[true,1e400]},"cache":{"tier":3},`+
			`"models":{"org/a":{"contextTokens":4,"draft":"org/b"},"org/c":{"later":null},`+
			`"org/d":{}}}`, rest, port))
	}
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Change(func(s *Settings) {
		s.ForgetModel("org/a")
		s.Models["ORG/C"] = Model{TopK: new(3)} // as the API spells it
		delete(s.Models, "org/c")
		s.Cache.MaxSize = 5e9
	}); err != nil {
		t.Fatal(err)
	}
	expect(`{` + rest + `,"port":82,"theme":{"dark":[true,1e400]},` +
		`"cache":{"tier":3,"maxSize":"5GB"},"models":{"org/a":{"draft":"org/b"},` +
		`"ORG/C":{"topK":3,"later":null},"org/d":{}}}`)
	if err := f.Change(func(s *Settings) { *s = Default() }); err != nil {
		t.Fatal(err)
	}
	expect(`{` + rest + `,"port":11811,"cache":{}}`)
}

// decode decodes JSON with exact numbers.
func decode(data []byte, v *any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

// TestDeepUnknownField: a field that would take much space with its nesting indented is written in
// one line, and one that no next start could read is refused.
func TestDeepUnknownField(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	deep := strings.Repeat("[", 9000) + strings.Repeat("1,", 100_000) + "1" +
		strings.Repeat("]", 9000)
	writeFile(t, path, `{"x":`+deep+`}`)
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Change(func(s *Settings) { s.Port = 80 }); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), deep) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	err = f.Change(func(s *Settings) { s.HubEndpoint = strings.Repeat("x", maxBytes) })
	if err == nil || !strings.Contains(err.Error(), "the limit is 1048576") {
		t.Errorf("a file that is too long: %v", err)
	}
	if again, err := Open(dir, nil); err != nil || again.Get().Port != 80 {
		t.Errorf("the next start: %v", err)
	}
}

func TestTooLongFile(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, fileName), strings.Repeat(" ", maxBytes+1))
	if _, err := Open(dir, nil); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("error %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"version":1,"port":1}`, `{"version":99}`, `null`,
		`{"version":2,"port":1}`, `{"restMinutes":1,"cache":{"hotSize":1000000}}`,
		`{"modelFolders":["a"]}`,
		`{"cache":{"maxSize":"1GB"},"models":{"m":{"kvBoundaryLayers":0}}}`,
		`{"":1,"x":"<","cache":{"x":[]},"models":{"m":{"x":{}},"M":{"topK":1,"y":2}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := parse(data, nil)
		if err != nil {
			return
		}
		if s.Version < version || s.Port < 1 || s.Port > 65535 || s.ModelFolders == nil {
			t.Errorf("%q gave %+v", data, s)
		}
		text := encode(s)
		if !json.Valid(text) {
			t.Error("does not encode")
		}
		again, _, err := parse(text, nil)
		if twice := encode(again); err != nil || !bytes.Equal(text, twice) {
			t.Errorf("%q gave %s, which gave %s, %v", data, text, twice, err)
		}
	})
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
