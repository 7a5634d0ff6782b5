package importer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/jobs"
	"headroom/engine"
)

// TestPacking converts the bundled model, then the result by its folder. The plan says the size,
// the models stay, and a job that is recreated from its memo converts, too.
func TestPacking(t *testing.T) {
	b := newFixture(t, func(o *Options) { o.Describe = engine.Describe })
	plan := b.PlanConversion("headroom-demo", "", Packing{Bits: 3, Group: 32})
	if len(plan.Items) != 1 || plan.Items[0].Refused != nil ||
		plan.Items[0].Name != "headroom-demo-3bit" {
		t.Fatalf("%+v", plan.Items)
	}
	item := plan.Items[0]
	dir, err := b.Import(t.Context(), item, &jobs.Progress{})
	info, failed := os.Stat(filepath.Join(dir, "model.safetensors"))
	if err != nil || failed != nil || info.Size() != item.Bytes || item.WrittenBytes != item.Bytes {
		t.Fatalf("%s, %v, %v: the plan says %+v", dir, err, failed, item)
	}
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil || !strings.Contains(string(config), `"bits": 3`) {
		t.Errorf("%v, %s", err, config)
	}
	again := b.PlanConversion(dir, "named", Packing{Mode: "mxfp4"}).Items[0]
	if again.Refused != nil || again.Name != "named" {
		t.Fatalf("%+v", again)
	}
	var memo Memo
	if err := json.Unmarshal(b.Job(again).Memo, &memo); err != nil {
		t.Fatal(err)
	}
	list := jobs.NewList()
	defer list.Close()
	job, err := list.Wait(t.Context(), list.Start(b.Recreate(memo)).ID)
	if err != nil || job.Err != nil || job.Result != filepath.Join(b.root, "named") {
		t.Errorf("%+v, %v", job, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err != nil {
		t.Error("the source is gone")
	}
}

// TestPackingRefused: what cannot be converted is refused in the plan, with the reason.
func TestPackingRefused(t *testing.T) {
	b := newFixture(t, func(o *Options) { o.Describe = engine.Describe })
	path := b.plantGGUF("tiny.gguf")
	if err := os.MkdirAll(filepath.Join(b.root, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		model, name string
		packing     Packing
		want        string
	}{
		{"headroom-demo", "", Packing{Bits: 7}, "7 bits"},
		{"headroom-demo", "taken", Packing{Bits: 3}, "already exists"},
		{"headroom-demo", "", Packing{Mode: "mxfp4", Bits: 8}, "mxfp4"},
		{filepath.Dir(path), "", Packing{}, "GGUF"},
		{filepath.Join(b.from, "no"), "", Packing{}, "no"},
	} {
		items := b.PlanConversion(c.model, c.name, c.packing).Items
		if len(items) != 1 || items[0].Refused == nil ||
			!strings.Contains(items[0].Refused.Error(), c.want) {
			t.Errorf("%+v: %+v", c, items)
		}
	}
}
