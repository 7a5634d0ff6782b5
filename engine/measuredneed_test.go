package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/shirou/gopsutil/v3/process"

	"headroom/engine"
)

// TestMeasuredNeed: the memory that a model takes is within 10 % of what it was said to need. It
// has a real shape with random weights, and answers one conversation of the whole context. With
// HEADROOM_LONG there are more shapes.
func TestMeasuredNeed(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector takes memory of its own")
	}
	shapes := []string{"qwen3-0.6b"}
	if long() {
		shapes = append(shapes, "qwen3_5-0.8b", "gemma3-1b", "llama-3.2-3b", "lfm2-8b-a1b")
	}
	for _, name := range shapes {
		config, err := os.ReadFile(filepath.Join("..", "app", "commands", "shapes", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		measureNeed(t, name, config, engine.Options{ContextTokens: 512, MaxSequences: 1,
			KVFormat: "f16", NoPrefixCache: true})
	}
}

func measureNeed(t *testing.T, name string, config []byte, o engine.Options) {
	dir := t.TempDir()
	if err := engine.WriteRandom(dir, config); err != nil {
		t.Fatal(err)
	}
	src := engine.Source{Dir: dir}
	d, err := engine.Describe(src, o)
	if err != nil {
		t.Fatal(err)
	}
	said := d.NeedAt(o.ContextTokens)
	before := residentBytes(t)
	e, err := engine.Open(context.Background(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rest := residentBytes(t) - before
	answer(t, submit(t, e, engine.Request{Prompt: someIDs(1, o.ContextTokens-4), MaxTokens: 4,
		IgnoreEOS: true}))
	got := residentBytes(t) - before
	t.Logf("%s: %d MB at rest, %d MB with a conversation, said were %d MB: %+v", name, rest>>20,
		got>>20, said.TotalBytes()>>20, said)
	if most := said.TotalBytes(); got > most+most/10 || got < most-most/10 {
		t.Errorf("%s: it takes %d bytes, said were %d: %+v", name, got, most, said)
	}
	if e.Shrink(0); runtime.GOOS == "linux" { // elsewhere the system takes it when it needs it
		if left := got - (residentBytes(t) - before); left < said.KVBytes-said.KVBytes/10 {
			t.Errorf("%s: %d bytes were returned to the system, of %d of keys and values", name,
				left, said.KVBytes)
		}
	}
	if rest > said.TotalBytes()+said.TotalBytes()/10 {
		t.Errorf("%s: at rest it takes %d bytes, said were %d", name, rest, said.TotalBytes())
	}
}

// residentBytes returns the resident memory of this process.
func residentBytes(t *testing.T) int64 {
	debug.FreeOSMemory()
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.MemoryInfo()
	if err != nil {
		t.Fatal(err)
	}
	return int64(m.RSS)
}
