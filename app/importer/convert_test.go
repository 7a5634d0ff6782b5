package importer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/app/jobs"
	"headroom/engine"
	"headroom/engine/convert"
	"headroom/engine/problem"
)

// plantGGUF copies a small GGUF file to a name in the fixture's folder, and returns its path.
func (b *fixture) plantGGUF(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "engine", "testdata", "gguf", "qwen3.gguf"))
	path := filepath.Join(b.from, name)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return path
}

// names returns what is in the root.
func (b *fixture) names() (names []string) {
	entries, _ := os.ReadDir(b.root)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestConvert imports a GGUF file by its path, and the only one of a folder. The model in the root
// is one in MLX's format, the file stays, and Headroom's own engine describes the result.
func TestConvert(t *testing.T) {
	for name, at := range map[string]string{"tiny": "tiny.gguf", "folder": "folder/a-Q4_0.gguf"} {
		b := newFixture(t, func(o *Options) { o.Describe = engine.Describe })
		path := b.plantGGUF(at)
		given := path
		if name == "folder" {
			given = filepath.Dir(path)
		}
		plan := b.Plan([]string{given}, Move, "")
		if len(plan.Items) != 1 || plan.Items[0].Refused != nil {
			t.Fatalf("%+v", plan.Items)
		}
		item := plan.Items[0]
		p := &jobs.Progress{}
		dir, err := b.Import(t.Context(), item, p)
		if err != nil || dir != filepath.Join(b.root, name) || !item.Converts {
			t.Fatalf("%s, %v", dir, err)
		}
		info, err := os.Stat(filepath.Join(dir, "model.safetensors"))
		if err != nil || info.Size() != item.Bytes || item.WrittenBytes != item.Bytes ||
			item.Clones {
			t.Errorf("%d bytes, and the plan says %+v, %v", info.Size(), item, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the file is gone: %v", err)
		}
		if left := b.names(); !slices.Equal(left, []string{name}) {
			t.Errorf("the root has %q", left)
		}
		again := b.Plan([]string{given}, Copy, "")
		if problem.From(again.Items[0].Refused).Code != problem.Exists {
			t.Errorf("a second import: %v", again.Items[0].Refused)
		}
	}
}

// TestConvertStops: what an import that was stopped leaves behind goes with Discard, or is begun
// again if the file has changed. A complete conversion that was never moved to its target is.
func TestConvertStops(t *testing.T) {
	b := newFixture(t, func(o *Options) { o.Describe = engine.Describe })
	path := b.plantGGUF("m.gguf")
	item := b.Plan([]string{path}, Copy, "other").Items[0]
	dir := unfinished(item)
	stop := errors.New("stop")
	begin := func() {
		_, err := convert.RunGGUF(t.Context(), item.Source, dir, convert.Options{
			Verify: func(string) error { return stop }})
		if !errors.Is(err, stop) || len(b.names()) != 1 {
			t.Fatalf("the root has %q, %v", b.names(), err)
		}
	}
	begin()
	if err := b.Discard(item); err != nil || len(b.names()) != 0 {
		t.Errorf("after Discard the root has %q, %v", b.names(), err)
	}
	if err := b.Discard(item); err != nil {
		t.Errorf("with nothing to discard: %v", err)
	}
	begin()
	if err := os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	made, err := b.Import(t.Context(), item, &jobs.Progress{})
	if err != nil || made != filepath.Join(b.root, "other") || len(b.names()) != 1 {
		t.Errorf("%s, %q, %v", made, b.names(), err)
	}
	item = b.Plan([]string{path}, Copy, "third").Items[0]
	dir = unfinished(item)
	if _, err := convert.RunGGUF(t.Context(), item.Source, dir, convert.Options{}); err != nil {
		t.Fatal(err)
	}
	if made, err = b.Import(t.Context(), item, &jobs.Progress{}); err != nil ||
		made != filepath.Join(b.root, "third") || len(b.names()) != 2 {
		t.Errorf("%s, %q, %v", made, b.names(), err)
	}
}

// TestConvertRefused: a model that the engine cannot run leaves nothing behind.
func TestConvertRefused(t *testing.T) {
	b := newFixture(t, func(o *Options) {
		o.Describe = func(engine.Source, engine.Options) (engine.Description, error) {
			return engine.Description{}, refusal("refused", "", "")
		}
	})
	item := b.Plan([]string{b.plantGGUF("m.gguf")}, Copy, "").Items[0]
	_, err := b.Import(t.Context(), item, &jobs.Progress{})
	var p *problem.Problem
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "refused") || len(b.names()) != 0 {
		t.Errorf("the root has %q, %v", b.names(), err)
	}
}
