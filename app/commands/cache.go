package commands

// The prefix cache in the terminal. The commands work on the cache's folder, whether or not a
// server uses it. For the conversations in memory, they ask the servers that use the same folder
// (cacheservers.go): ls and stats ask one server, rm and clear first make all of them free the
// memory, and move lets one of them move the cache.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"headroom/app/cache"
	"headroom/app/service"
	"headroom/engine/problem"
)

// Cache is `headroom cache`.
type Cache struct {
	Dir  string `name:"block-ssd-cache-dir" help:"Folder of the cache. Default: the settings' folder, or \"headroom/blocks\" in the user's cache folder." type:"path" placeholder:"DIR"`
	JSON bool   `name:"json" help:"Print JSON, for scripts."`

	Ls    CacheLs    `cmd:"" help:"List the cached conversations, most recently used first."`
	Show  CacheShow  `cmd:"" help:"Show one conversation and its files."`
	Rm    CacheRm    `cmd:"" help:"Remove conversations: their unshared files, and their cached prefixes in the memory of running servers."`
	Pin   CachePin   `cmd:"" help:"Protect conversations from eviction."`
	Unpin CacheUnpin `cmd:"" help:"Allow the eviction of pinned conversations again."`
	Move  CacheMove  `cmd:"" help:"Move the cache to another folder or disk, even while a server runs."`
	Stats CacheStats `cmd:"" help:"Print the cache's statistics."`
	Clear CacheClear `cmd:"" help:"Remove all conversations, or those of one model."`

	Save   CacheSave   `cmd:"" help:"Compute a prompt and write its cache to a file, which run goes on with."`
	Export CacheExport `cmd:"" help:"Write a conversation of the cache to a file, which is not encrypted."`
	Import CacheImport `cmd:"" help:"Add a conversation from a file to the cache."`

	ExportKey CacheExportKey `cmd:"" help:"Write the key of the cache's folder to a file, to read a copy of the folder on another computer."`
	ImportKey CacheImportKey `cmd:"" help:"Use a folder that was encrypted on another computer, with its exported key."`
}

// CacheLs is `headroom cache ls`.
type CacheLs struct{}

// CacheShow is `headroom cache show`.
type CacheShow struct {
	Key string `arg:"" help:"Key of the conversation, or at least its first 4 digits."`
}

// CacheRm is `headroom cache rm`.
type CacheRm struct {
	Keys []string `arg:"" name:"key" help:"Keys of the conversations, or at least their first 4 digits."`
}

// CachePin is `headroom cache pin`.
type CachePin struct {
	Keys []string `arg:"" name:"key" help:"Keys of the conversations, or at least their first 4 digits."`
}

// CacheUnpin is `headroom cache unpin`.
type CacheUnpin struct {
	Keys []string `arg:"" name:"key" help:"Keys of the conversations, or at least their first 4 digits."`
}

// CacheStats is `headroom cache stats`.
type CacheStats struct{}

// CacheClear is `headroom cache clear`.
type CacheClear struct {
	Model string `help:"Only this model: its name, or its fingerprint from ls --json." placeholder:"MODEL"`
}

// folder returns the folder and limits of the cache, even if it is off in the settings.
func (c *Cache) folder() (cache.Options, error) {
	s := service.OpenSettings().Get().Cache
	s.Off = false
	o := CacheFlags{BlockSSDCacheDir: c.Dir}.ssd(s, true)
	if o.Dir == "" {
		return o, problem.New(problem.NotFound, "There is no cache folder",
			"this user has no home folder",
			"Name one with --block-ssd-cache-dir.")
	}
	// These commands take the cache as it is: they neither encrypt it nor refuse it.
	if o.Key = nil; cache.Encrypted(o.Dir) {
		o.Key = service.OpenVault().Key
	}
	return o, nil
}

// with calls do with the cache, or with nil if the folder has none. It never creates a cache.
func (c *Cache) with(do func(dir string, kept *cache.Cache) error) error {
	o, err := c.folder()
	if err != nil {
		return err
	}
	if !cache.Exists(o.Dir) {
		return do(o.Dir, nil)
	}
	kept, err := cache.Open(o)
	if err != nil {
		return openFailed(err, o.Dir)
	}
	defer kept.Close()
	return do(o.Dir, kept)
}

// openFailed returns the Problem of an error of opening the cache in dir.
func openFailed(err error, dir string) error {
	if known := (*problem.Problem)(nil); errors.As(err, &known) {
		return known
	}
	return problem.Wrap(problem.Internal, err, "The cache in "+dir+" cannot be opened", "")
}

// existing is like with, but fails if the folder has no cache.
func (c *Cache) existing(do func(dir string, kept *cache.Cache) error) error {
	return c.with(func(dir string, kept *cache.Cache) error {
		if kept == nil {
			return problem.New(problem.NotFound, "Nothing is cached in "+dir+" yet", "", "")
		}
		return do(dir, kept)
	})
}

// list returns the cache's conversations and statistics. fromServer reports whether they come from
// a server, which knows what is in memory.
func (c *Cache) list(ctx context.Context) (list cache.List, fromServer bool, err error) {
	err = c.with(func(dir string, kept *cache.Cache) error {
		if list, fromServer = askServers(ctx, dir); fromServer {
			return nil
		}
		list, err = kept.List(nil)
		list.Stats.Dir = dir
		return err
	})
	return list, fromServer, err
}

// askTimeout bounds how long a server may take to answer. It answers between two forward passes.
const askTimeout = 3 * time.Second

// askServers asks the running server that keeps its cache in dir.
func askServers(ctx context.Context, dir string) (list cache.List, found bool) {
	eachServer(func(s runningServer) bool {
		var got cache.List
		if s.ask(ctx, askTimeout, http.MethodGet, "control/cache", &got) == nil &&
			hasCacheIn(got.Stats, dir) {
			list, found = got, true
		}
		return !found
	})
	return list, found
}

// Run prints the table.
func (*CacheLs) Run(ctx context.Context, c *Cache, t *terminal) error {
	list, fromServer, err := c.list(ctx)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printJSON(t.out, list)
	case len(list.Conversations) == 0:
		fmt.Fprintf(t.out, "Nothing is cached in %s yet.\n", list.Stats.Dir)
		return nil
	}
	now, names := time.Now(), adapterNames{}
	table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table,
		"KEY\tMODEL\tTITLE\tTOKENS\tIN MEMORY\tSIZE\tSHARED\tLAST HIT\tHITS\tSAVED\tPINNED")
	for _, k := range list.Conversations {
		pinned := ""
		if k.Pinned {
			pinned = "yes"
		}
		key := "-"
		if k.Key != "" {
			key = k.Key[:min(keyDigits, len(k.Key))]
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", key, names.of(&k),
			clip(k.Title, titleWidth), k.Tokens, formatInMemory(k, fromServer),
			formatBytes(k.Bytes), formatBytes(k.SharedBytes), ago(now, k.LastHitAtUnixMs), k.Hits,
			formatSeconds(k.SecondsSaved), pinned)
	}
	return table.Flush()
}

const (
	keyDigits  = 12 // of a key in tables: enough for millions of keys
	titleWidth = 40
)

// formatInMemory returns how much of a conversation is in memory; "?" if no server was asked.
func formatInMemory(k cache.Conversation, fromServer bool) string {
	switch {
	case !fromServer:
		return "?"
	case k.MemoryTokens == 0:
		return "no"
	}
	return fmt.Sprintf("%d %%", 100*k.MemoryTokens/max(k.Tokens, 1))
}

// Run prints the conversation.
func (s *CacheShow) Run(c *Cache, t *terminal) error {
	return c.existing(func(_ string, kept *cache.Cache) error {
		d, err := kept.Show(s.Key, nil)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(t.out, d)
		}
		now := time.Now()
		table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
		pinned := "no"
		if d.Pinned {
			pinned = "yes"
		}
		for _, line := range [][2]string{{"key", d.Key},
			{"title", cmp.Or(clip(d.Title, 10*titleWidth), "-")},
			{"model", oneLine(d.Model) + ", " + d.Format},
			{"tokens", fmt.Sprint(d.Tokens)},
			{"size", formatBytes(d.Bytes) + ", and " + formatBytes(d.SharedBytes) +
				" shared with other conversations"},
			{"written", ago(now, d.CreatedAtUnixMs)},
			{"last hit", fmt.Sprintf("%s; %d in all, %s saved", ago(now, d.LastHitAtUnixMs), d.Hits,
				formatSeconds(d.SecondsSaved))}, {"pinned", pinned}} {
			fmt.Fprintf(table, "%s\t%s\n", line[0], line[1])
		}
		fmt.Fprintln(table, "\nFILE\tKIND\tTOKENS\tSIZE\tHITS\tSHARED")
		for _, e := range d.Entries {
			shared := ""
			if e.Shared {
				shared = "yes"
			}
			positions := fmt.Sprintf("%d to %d", e.From, e.To)
			if e.Kind == "state" {
				positions = fmt.Sprintf("after %d", e.To)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", e.Key[:min(keyDigits, len(e.Key))],
				e.Kind, positions, formatBytes(e.Bytes), e.Hits, shared)
		}
		return table.Flush()
	})
}

// Run removes the conversations and stops at the first that cannot be removed.
func (r *CacheRm) Run(ctx context.Context, c *Cache, t *terminal) error {
	return c.existing(func(dir string, kept *cache.Cache) error {
		servers := serversWithCache(ctx, dir)
		for _, key := range r.Keys {
			freedBytes := freeMemory(ctx, servers, key, "", t.err)
			removed, err := kept.Remove(key)
			if err != nil {
				return err
			}
			removed.MemoryBytes = freedBytes
			if err := c.removed(t.out, key, removed); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Cache) removed(out io.Writer, what string, removed cache.Removed) error {
	if c.JSON {
		return printJSON(out, removed)
	}
	memory := ""
	if removed.MemoryBytes > 0 {
		memory = ", and " + formatBytes(removed.MemoryBytes) + " of memory"
	}
	_, err := fmt.Fprintf(out, "%s: %s removed, %s%s\n", what, count(removed.Entries, "file"),
		formatBytes(removed.Bytes), memory)
	return err
}

// Run pins the conversations.
func (p *CachePin) Run(c *Cache) error { return c.pin(p.Keys, true) }

// Run unpins the conversations.
func (p *CacheUnpin) Run(c *Cache) error { return c.pin(p.Keys, false) }

func (c *Cache) pin(keys []string, pinned bool) error {
	return c.existing(func(_ string, kept *cache.Cache) error {
		for _, key := range keys {
			if err := kept.Pin(key, pinned); err != nil {
				return err
			}
		}
		return nil
	})
}

// Run empties the cache.
func (r *CacheClear) Run(ctx context.Context, c *Cache, t *terminal) error {
	return c.with(func(dir string, kept *cache.Cache) error {
		var removed cache.Removed
		if kept != nil {
			freedBytes := freeMemory(ctx, serversWithCache(ctx, dir), "", r.Model, t.err)
			var err error
			if removed, err = kept.Clear(r.Model); err != nil {
				return err
			}
			removed.MemoryBytes = freedBytes
		}
		return c.removed(t.out, cmp.Or(r.Model, dir), removed)
	})
}

// Run prints the statistics.
func (*CacheStats) Run(ctx context.Context, c *Cache, t *terminal) error {
	list, fromServer, err := c.list(ctx)
	s := list.Stats
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printJSON(t.out, s)
	case !s.On:
		fmt.Fprintf(t.out, "Nothing is cached in %s yet.\n", s.Dir)
		return nil
	}
	table := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	line := func(name, format string, values ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, values...))
	}
	line("folder", "%s", s.Dir)
	line("size", "%s (%s), %s, %s", formatBytes(s.Bytes), formatLimit(s.MaxBytes),
		count(s.Entries, "file"), count(onDisk(list), "conversation"))
	line("disk", "%s free; the cache leaves %s free", formatBytes(s.FreeBytes),
		formatBytes(max(s.MinFreeBytes, 0)))
	line("written", "%s today (%s), %s in total", formatBytes(s.TodayBytes),
		formatLimit(s.DailyWriteBytes), formatBytes(s.WrittenBytes))
	line("hits", "%d, %s saved", s.Hits, formatSeconds(s.SecondsSaved))
	line("misses", "%d", s.Misses)
	line("not saved", "%s because the disk was too slow, %d because of a limit; %s failed",
		count(s.Dropped, "conversation"), s.Skipped, count(s.SaveErrors, "file"))
	line("removed", "%s evicted, %d damaged, %d of other versions", count(s.Evicted, "file"),
		s.Damaged, s.OtherVersions)
	if fromServer {
		line("in memory", "%s of ended conversations", formatBytes(s.MemoryBytes))
	}
	if s.Error != "" {
		line("last error", "%s", s.Error)
	}
	return table.Flush()
}

// onDisk counts the conversations on disk.
func onDisk(list cache.List) (n int) {
	for _, c := range list.Conversations {
		if c.Key != "" {
			n++
		}
	}
	return n
}

func printJSON(out io.Writer, document any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(document)
}
