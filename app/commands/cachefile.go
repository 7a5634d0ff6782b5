package commands

// `headroom cache export` and `import`: a conversation of the store as a prompt cache in a file,
// to carry it to another computer. They work on the folder, as the other commands of `headroom
// cache` do, also while a server uses it.

import (
	"context"
	"fmt"

	"headroom/app/cache"
	"headroom/app/service"
)

// CacheExport is `headroom cache export`.
type CacheExport struct {
	Key   string `arg:"" help:"Key of the conversation, or at least its first 4 digits."`
	Path  string `arg:"" name:"file" help:"File to write. A prompt cache is replaced." type:"path" placeholder:"FILE"`
	Force bool   `help:"Replace a file that is not a prompt cache."`
}

// CacheImport is `headroom cache import`.
type CacheImport struct {
	Path string `arg:"" name:"file" help:"File that export or save has written. Import only files of people that you trust: what is in them decides answers." type:"path" placeholder:"FILE"`
}

// Run writes the file.
func (e *CacheExport) Run(ctx context.Context, c *Cache, t *terminal) error {
	return c.existing(func(_ string, kept *cache.Cache) error {
		x, err := kept.Export(ctx, e.Key, e.Path, e.Force)
		if err != nil {
			return err
		}
		return c.wrote(t.out, promptCacheDocument{File: e.Path, Key: x.Key, Model: x.Model,
			Tokens: x.Tokens, Bytes: x.FileBytes}, "")
	})
}

// Run adds the file's conversation to the cache. A folder that has no cache gets one, as the
// settings say.
func (i *CacheImport) Run(ctx context.Context, c *Cache, t *terminal) error {
	f, err := cache.OpenFile(i.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	o, err := c.folder()
	if err != nil {
		return err
	}
	if !cache.Exists(o.Dir) {
		s := service.OpenSettings().Get().Cache
		s.Off = false
		o = CacheFlags{BlockSSDCacheDir: c.Dir}.ssd(s, true)
	}
	kept, err := cache.Open(o)
	if err != nil {
		return openFailed(err, o.Dir)
	}
	defer kept.Close()
	x, err := kept.Import(ctx, f, i.Path)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(t.out, x)
	}
	_, err = fmt.Fprintf(t.out, "%s: %s of %s, %s written to %s\n", i.Path,
		count(x.Tokens, "token"), oneLine(x.Model), count(x.Entries, "file"), o.Dir)
	return err
}
