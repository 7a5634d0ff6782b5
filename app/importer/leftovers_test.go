package importer

// What an import that does not succeed leaves beside its target: nothing, or a copy that the next
// import resumes.

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headroom/app/jobs"
	"headroom/engine"
	"headroom/engine/problem"
)

// TestNothingCopied: an import that fails before a file was copied leaves nothing behind.
func TestNothingCopied(t *testing.T) {
	b := newFixture(t, func(o *Options) { o.write = func() error { return syscall.EIO } })
	plant(t, b.from, "m/config.json = x", "m/sub/a.txt = y")
	if wrong := b.importAll(Copy, "m"); len(wrong) != 1 {
		t.Errorf("errors %q", wrong)
	}
	left, err := os.ReadDir(b.root)
	if err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestRefusedCopy: a copy that can never be completed leaves nothing behind. The same import would
// be refused again, and one under another name would not find the files.
func TestRefusedCopy(t *testing.T) {
	blob := strings.Repeat("ab", 32) // not the checksum of its text
	for name, c := range map[string]struct {
		files  []string
		path   string
		during string // a file of the root that is created during the copy
		refuse bool   // the finished copy
		want   string
	}{
		"the target was created": {[]string{"m/a.txt = 1", "m/config.json = x"}, "m",
			"m/config.json = old", false, "already exists"},
		"the copy is no model": {[]string{"m/a.txt = 1", "m/config.json = x"}, "m", "", true,
			"refused"},
		"a damaged blob": {[]string{"models--o--m/blobs/" + blob + " = wrong",
			"models--o--m/snapshots/abc/config.json = x",
			"models--o--m/snapshots/abc/model.safetensors -> ../../blobs/" + blob},
			"models--o--m", "", false, "checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			var b *fixture
			b = newFixture(t, func(o *Options) {
				describe := o.Describe
				o.Describe = func(s engine.Source, e engine.Options) (engine.Description, error) {
					if c.refuse && strings.Contains(s.Dir, ".headroom-import-") {
						return engine.Description{}, refusal("refused", "", "")
					}
					return describe(s, e)
				}
				o.write = func() error {
					if c.during != "" {
						plant(t, b.root, c.during)
					}
					return nil
				}
			})
			plant(t, b.from, c.files...)
			item := b.Plan([]string{filepath.Join(b.from, c.path)}, Copy, "").Items[0]
			_, err := b.Import(context.Background(), item, new(jobs.Progress))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if p := (*problem.Problem)(nil); !errors.As(err, &p) {
				t.Errorf("the error is a %T, want a Problem", err)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(item.Target),
				".headroom-import-*")); len(left) > 0 {
				t.Errorf("it left %s", left)
			}
			left, err := os.ReadDir(b.root)
			for _, e := range left { // a publisher's folder, say
				if c.during == "" {
					t.Errorf("it left %s, %v", e, err)
				}
			}
		})
	}
}

// TestRenameFails: a finished copy keeps its journal until it has its name. Otherwise what a killed
// import leaves would be in the way of the next one.
func TestRenameFails(t *testing.T) {
	writes := 0
	b := newFixture(t, func(o *Options) { o.write = func() error { writes++; return nil } })
	plant(t, b.from, "m/config.json = x")
	item := b.Plan([]string{b.from + "/m"}, Copy, "").Items[0]
	item.Target = filepath.Join(b.root, strings.Repeat("m", 300))
	for range 2 {
		_, err := b.Import(context.Background(), item, new(jobs.Progress))
		if !errors.Is(err, syscall.ENAMETOOLONG) || writes != 1 {
			t.Errorf("%v after %d writes", err, writes)
		}
	}
	if err := b.Discard(item); err != nil {
		t.Error(err)
	}
	expectTree(t, b.root)
}
