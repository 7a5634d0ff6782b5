package commands

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"headroom/app/cache"
	"headroom/app/settings"
	"headroom/engine"
)

// flagsOf parses the flags of a command that runs a model.
func flagsOf(t *testing.T, args ...string) *ModelFlags {
	t.Helper()
	var f ModelFlags
	parser, err := kong.New(&f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &f
}

// TestOldFlags: the names that three flags had before are still accepted.
func TestOldFlags(t *testing.T) {
	f := flagsOf(t, "--hot-cache-size", "2GB", "--max-stall", "1s")
	if f.MemoryCacheSize != 2e9 || f.MaxPrefillStall != time.Second {
		t.Errorf("got %v and %v", f.MemoryCacheSize, f.MaxPrefillStall)
	}
	var serve Serve
	parser, err := kong.New(&serve)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"--rest-after", "5m"}); err != nil {
		t.Fatal(err)
	}
	if serve.IdleUnload != 5*time.Minute {
		t.Errorf("--rest-after 5m: got %v", serve.IdleUnload)
	}
}

// TestFlagsOverrideSettings: a flag overrides the settings of the cache and of the model. Without a
// flag, the settings apply.
func TestFlagsOverrideSettings(t *testing.T) {
	none, on := 0, true
	s := settings.Settings{
		Cache: settings.Cache{MemoryCacheSize: 1e9, PromptCacheSize: 5, PreferPrefill: true,
			MaxPrefillStallMs: 100},
		Models: map[string]settings.Model{"m": {ContextTokens: 4096, MaxSequences: 2,
			KVFormat: "q8_0", KVBits: "4", KVGroupSize: "32",
			KVBoundaryLayers: &none, KVBoundaryBits: 6, KVStartTokens: 700, MaxKVTokens: 64,
			StateFormat: "bf16", Speculate: "off", SnapKV: &on, SnapKVTokens: 900}},
	}
	cases := []struct {
		name  string
		model string
		args  []string
		want  engine.Options
	}{
		{"settings", "m", nil, engine.Options{ContextTokens: 4096, MaxSequences: 2,
			KVFormat: "q8_0", KVBits: "4", KVGroupSize: "32", KVBoundaryLayers: -1,
			KVBoundaryBits: 6, KVStartTokens: 700, MaxKVTokens: 64, StateFormat: "bf16",
			SnapKV: true, SnapKVTokens: 900, Speculate: "off", MemoryCacheBytes: 1e9,
			PromptCacheSize: 5, PreloadBytes: preloadBytes,
			PreferPrefill: true, MaxPrefillStall: 100 * time.Millisecond}},
		{"another model", "x", nil,
			engine.Options{Speculate: "auto", MemoryCacheBytes: 1e9, PromptCacheSize: 5,
				PreloadBytes: preloadBytes, PreferPrefill: true,
				MaxPrefillStall: 100 * time.Millisecond}},
		{"flags", "m", strings.Fields(
			"--context 100 --max-sequences 3 --kv-format affine --kv-bits 8 --kv-group-size 64 " +
				"--kv-boundary-layers 1 --kv-boundary-bits 5" +
				" --quantized-kv-start 5000 --max-kv-size 96 --state-format int8 " +
				"--no-snapkv " +
				"--memory-cache-size 2GB --prompt-cache-size 7 --no-prefer-prefill " +
				"--max-prefill-stall 1s --threads 4 --speculate auto"),
			engine.Options{Threads: 4, ContextTokens: 100, MaxSequences: 3, KVFormat: "affine",
				KVBits: "8", KVGroupSize: "64", KVBoundaryLayers: 1,
				KVBoundaryBits: 5, KVStartTokens: 5000, MaxKVTokens: 96, StateFormat: "int8",
				SnapKVTokens: 900, Speculate: "auto", MemoryCacheBytes: 2e9, PromptCacheSize: 7,
				PreloadBytes:    preloadBytes,
				MaxPrefillStall: time.Second}},
		{"SnapKV", "x", []string{"--snapkv", "--snapkv-tokens=8"},
			engine.Options{SnapKV: true, SnapKVTokens: 8, Speculate: "auto", MemoryCacheBytes: 1e9,
				PromptCacheSize: 5, PreloadBytes: preloadBytes, PreferPrefill: true,
				MaxPrefillStall: 100 * time.Millisecond}},
		{"no preloading", "x", []string{"--no-preload"},
			engine.Options{Speculate: "auto", MemoryCacheBytes: 1e9, PromptCacheSize: 5,
				PreferPrefill: true, MaxPrefillStall: 100 * time.Millisecond}},
		{"no limit", "x", []string{"--memory-cache-size", "none"},
			engine.Options{Speculate: "auto", PromptCacheSize: 5, PreloadBytes: preloadBytes,
				PreferPrefill: true, MaxPrefillStall: 100 * time.Millisecond}},
	}
	for _, c := range cases {
		c.want.Tuning = tuningDir() // always that of this installation
		if got := flagsOf(t, c.args...).options(s, c.model); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// TestCacheFolder: the cache is on by default for a server and off for a single run. Flags and
// settings override the default.
func TestCacheFolder(t *testing.T) {
	home := isolate(t)
	usual := filepath.Join(home, "cache", "headroom", "blocks")
	limits := func(size, free, daily int64) engine.BlockStoreOptions {
		return engine.BlockStoreOptions{MaxBytes: size, MinFreeBytes: free, DailyWriteBytes: daily}
	}
	shared := filepath.Join(home, "shared")
	if err := os.Mkdir(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shared, "report.docx"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name      string
		args      string
		settings  settings.Cache
		byDefault bool
		want      cache.Options
	}{
		{"serve", "", settings.Cache{}, true, cache.Options{Dir: usual}},
		{"run", "", settings.Cache{}, false, cache.Options{}},
		{"run with the folder of the settings", "", settings.Cache{Dir: "/s"}, false,
			cache.Options{}},
		{"run with a folder", "--block-ssd-cache-dir /f", settings.Cache{}, false,
			cache.Options{Dir: "/f"}},
		{"off", "--no-ssd-cache", settings.Cache{}, true, cache.Options{}},
		{"off overrides a folder", "--no-ssd-cache --block-ssd-cache-dir /f", settings.Cache{},
			true, cache.Options{}},
		{"off in the settings", "", settings.Cache{Off: true}, true, cache.Options{}},
		{"a folder overrides off in the settings", "--block-ssd-cache-dir /f",
			settings.Cache{Off: true, Dir: "/s"}, true, cache.Options{Dir: "/f"}},
		{"the settings' folder", "", settings.Cache{Dir: "/s"}, true, cache.Options{Dir: "/s"}},
		{"a folder with other files", "--block-ssd-cache-dir " + shared, settings.Cache{}, true,
			cache.Options{Dir: filepath.Join(shared, "headroom-blocks")}},
		{"a folder with other files in the settings", "", settings.Cache{Dir: shared}, true,
			cache.Options{Dir: filepath.Join(shared, "headroom-blocks")}},
		{"limits of the settings", "",
			settings.Cache{MaxSize: 1, MinFree: 2, DailyWrites: settings.Unlimited}, true,
			cache.Options{Dir: usual, Limits: limits(1, 2, -1)}},
		{"limits",
			"--block-ssd-cache-max-size 5GB --block-ssd-cache-min-free none " +
				"--block-ssd-cache-daily-writes 1.5GB", settings.Cache{MaxSize: 1, MinFree: 2},
			true, cache.Options{Dir: usual, Limits: limits(5e9, -1, 1.5e9)}},
	}
	for _, c := range cases {
		got := flagsOf(t, strings.Fields(c.args)...).ssd(c.settings, c.byDefault)
		if encrypted := got.Key != nil; encrypted != (c.want.Dir != "") {
			t.Errorf("%s: encrypted %v", c.name, encrypted)
		}
		if remembered := got.Folders != nil; remembered != (c.want.Dir != "") {
			t.Errorf("%s: the folder is remembered: %v", c.name, remembered)
		}
		if got.Key, got.Folders = nil, nil; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	for name, o := range map[string]cache.Options{
		"flag":     flagsOf(t, "--no-ssd-cache-encryption").ssd(settings.Cache{}, true),
		"settings": flagsOf(t).ssd(settings.Cache{Unencrypted: true}, true)} {
		if o.Dir != usual || o.Key != nil {
			t.Errorf("encryption turned off by a %s: %+v", name, o)
		}
	}
}

// TestRunKeepsConversations: with a folder, a second run reuses the prompt that the first one
// cached. Without a folder, run leaves no files.
func TestRunKeepsConversations(t *testing.T) {
	home := isolate(t)
	long := strings.Repeat("Keys and values are kept for each token. ", 80) + question
	if code, _, errOut := headroom("", "run", long); code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	if _, err := os.Stat(filepath.Join(home, "cache")); !os.IsNotExist(err) {
		t.Errorf("run without a cache folder left files: %v", err)
	}
	dir := filepath.Join(home, "blocks")
	_, first, errOut := headroom("", "run", "--block-ssd-cache-dir", dir, long)
	if strings.Contains(errOut, "cached") {
		t.Errorf("the first time: %s", errOut)
	}
	_, again, errOut := headroom("", "run", "--block-ssd-cache-dir", dir, long)
	if again != first || !strings.Contains(errOut, " cached") {
		t.Errorf("the second time output %q after %q; %s", again, first, errOut)
	}
}

// TestGiven: given returns the cache flags as settings, which the Settings page cannot change.
func TestGiven(t *testing.T) {
	f := flagsOf(t, strings.Fields(
		"--block-ssd-cache-dir /f --block-ssd-cache-max-size 5GB --block-ssd-cache-min-free none "+
			"--block-ssd-cache-daily-writes 1GB")...)
	want := settings.Cache{Dir: "/f", MaxSize: 5e9, MinFree: settings.Unlimited, DailyWrites: 1e9}
	if got := f.given(false); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := flagsOf(t).given(false); got != (settings.Cache{}) {
		t.Errorf("no flags: %+v", got)
	}
	if !flagsOf(t, "--no-ssd-cache").given(false).Off || !flagsOf(t).given(true).Off {
		t.Error("--no-ssd-cache does not turn the cache off")
	}
}
