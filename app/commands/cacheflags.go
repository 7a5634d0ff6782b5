package commands

// The flags of the prefix cache, in memory and on disk. They override the "cache" section of the
// settings.

import (
	"cmp"
	"time"

	"headroom/app/cache"
	"headroom/app/host"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
)

// CacheFlags configure the prefix cache, and how prefill and decode share the engine. They mean the
// same as the fields of settings.Cache.
type CacheFlags struct {
	BlockSSDCacheDir         string        `name:"block-ssd-cache-dir" help:"Folder of the prefix cache on disk, which survives restarts." type:"path" placeholder:"DIR"`
	BlockSSDCacheMaxSize     settings.Size `name:"block-ssd-cache-max-size" help:"Maximum size of the cache on disk. Default: 20GB, or a tenth of the disk if that is less." placeholder:"SIZE"`
	BlockSSDCacheMinFree     settings.Size `name:"block-ssd-cache-min-free" help:"Disk space that the cache leaves free. Default: 10GB." placeholder:"SIZE"`
	BlockSSDCacheDailyWrites settings.Size `name:"block-ssd-cache-daily-writes" help:"Maximum amount that the cache writes per day. Default: 40GB." placeholder:"SIZE"`
	NoSSDCache               bool          `name:"no-ssd-cache" help:"Keep no prefix cache on disk."`
	NoSSDCacheEncryption     bool          `name:"no-ssd-cache-encryption" help:"Do not encrypt the prefix cache on disk."`
	MemoryCacheSize          settings.Size `name:"memory-cache-size" aliases:"hot-cache-size,prompt-cache-bytes" help:"Maximum memory for cached prefixes. Default: all that running requests leave free." placeholder:"SIZE"`
	PromptCacheSize          int           `name:"prompt-cache-size" help:"Maximum number of conversations in the prefix cache in memory. Default: no limit." placeholder:"N"`
	NoPreload                bool          `name:"no-preload" help:"Read no conversation from disk before it is continued. Default: the last used ones are read when a model is loaded."`
	PreferPrefill            *bool         `name:"prefer-prefill" help:"Prefill waiting prompts before running answers continue." negatable:""`
	MaxPrefillStall          time.Duration `name:"max-prefill-stall" aliases:"max-stall" help:"Longest time that prefill may stall running answers. Default: 250ms." placeholder:"DURATION"`
}

// preloadBytes is the memory for conversations that are read from disk when a model is loaded. The
// engine takes less if it has little.
const preloadBytes = 1e9

// The method or returns the flags, with the settings in place of flags that were not given.
func (f CacheFlags) or(s settings.Cache) CacheFlags {
	f.NoSSDCache = f.NoSSDCache || s.Off && f.BlockSSDCacheDir == ""
	f.NoPreload = f.NoPreload || s.NoPreload
	f.NoSSDCacheEncryption = f.NoSSDCacheEncryption || s.Unencrypted
	f.BlockSSDCacheMaxSize = cmp.Or(f.BlockSSDCacheMaxSize, s.MaxSize)
	f.BlockSSDCacheMinFree = cmp.Or(f.BlockSSDCacheMinFree, s.MinFree)
	f.BlockSSDCacheDailyWrites = cmp.Or(f.BlockSSDCacheDailyWrites, s.DailyWrites)
	f.MemoryCacheSize = cmp.Or(f.MemoryCacheSize, s.MemoryCacheSize)
	f.PromptCacheSize = cmp.Or(f.PromptCacheSize, s.PromptCacheSize)
	stall := time.Duration(s.MaxPrefillStallMs) * time.Millisecond
	f.MaxPrefillStall = cmp.Or(f.MaxPrefillStall, stall)
	if f.PreferPrefill == nil {
		f.PreferPrefill = &s.PreferPrefill
	}
	return f
}

// given returns the flags of the cache on disk as settings; zero fields were not given. With
// noPrefixes the cache is off.
func (f CacheFlags) given(noPrefixes bool) settings.Cache {
	return settings.Cache{Off: f.NoSSDCache || noPrefixes, Dir: f.BlockSSDCacheDir,
		MaxSize: f.BlockSSDCacheMaxSize, MinFree: f.BlockSSDCacheMinFree,
		DailyWrites: f.BlockSSDCacheDailyWrites, Unencrypted: f.NoSSDCacheEncryption}
}

// apply returns o with the options that concern the engine.
func (f CacheFlags) apply(o engine.Options) engine.Options {
	o.MemoryCacheBytes = max(int64(f.MemoryCacheSize), 0) // the engine's 0 means no limit
	if !f.NoPreload {
		o.PreloadBytes = preloadBytes
	}
	o.PromptCacheSize, o.MaxPrefillStall = f.PromptCacheSize, f.MaxPrefillStall
	o.PreferPrefill = f.PreferPrefill != nil && *f.PreferPrefill
	return o
}

// ssd returns the options of the cache on disk. An empty Dir means no cache. Without byDefault,
// there is a cache only if the flags name its folder. In a folder with other files, the cache gets
// a folder of its own, as in a move.
func (f CacheFlags) ssd(s settings.Cache, byDefault bool) cache.Options {
	flags := f.or(s)
	dir := f.BlockSSDCacheDir
	if dir == "" && byDefault {
		dir = cmp.Or(s.Dir, cache.DefaultDir())
	}
	if flags.NoSSDCache || dir == "" {
		return cache.Options{}
	}
	o := cache.Options{Dir: cache.Target(dir),
		Limits: engine.BlockStoreOptions{MaxBytes: int64(flags.BlockSSDCacheMaxSize),
			MinFreeBytes:    int64(flags.BlockSSDCacheMinFree),
			DailyWriteBytes: int64(flags.BlockSSDCacheDailyWrites)},
		Folders: service.CacheFolders()}
	if !flags.NoSSDCacheEncryption {
		o.Key = service.OpenVault().Key
	}
	return o
}

// mover returns the Mover that moves a host's cache to another folder. The error is a Problem: a
// flag sets the folder.
func (f CacheFlags) mover(h *host.Host, file *settings.File) (*cache.Mover, error) {
	if f.BlockSSDCacheDir != "" || f.NoSSDCache {
		return nil, problem.New(problem.BadRequest, "The cache cannot be moved",
			"its folder was set on the command line",
			"Start Headroom without that flag.")
	}
	return &cache.Mover{
		Current: func() (string, engine.BlockStoreLimits) {
			s := h.State().Cache
			if !s.On {
				return "", engine.BlockStoreLimits{}
			}
			l := f.ssd(file.Get().Cache, true).Limits
			return s.Dir, engine.BlockStoreLimits{MaxBytes: l.MaxBytes,
				MinFreeBytes: l.MinFreeBytes}
		},
		WithClosed: h.WithCacheClosed,
		Folders:    service.CacheFolders(),
		Save: func(dir string) error {
			before := file.Get().Cache.Dir
			err := file.Change(func(s *settings.Settings) { s.Cache.Dir = dir })
			if err != nil { // undo the change in memory too
				_ = file.Change(func(s *settings.Settings) { s.Cache.Dir = before })
				return problem.Wrap(problem.Internal, err, "The settings could not be saved",
					"The cache stays where it is. Make the settings' folder writable, and resume "+
						"the move.")
			}
			return nil
		},
	}, nil
}
