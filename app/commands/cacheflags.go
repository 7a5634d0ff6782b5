package commands

// What is kept of conversations, in memory and on disk, as flags. The settings' "cache" section has
// the same, and flags beat it.

import (
	"cmp"
	"time"

	"headroom/app/cache"
	"headroom/app/host"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
)

// CacheFlags say what is kept of conversations, and how reading prompts and writing answers share
// the engine. The fields of settings.Cache mean the same.
type CacheFlags struct {
	BlockSSDCacheDir         string        `name:"block-ssd-cache-dir" help:"Folder of the cache on disk, in which conversations outlive the program." type:"path" placeholder:"DIR"`
	BlockSSDCacheMaxSize     settings.Size `name:"block-ssd-cache-max-size" help:"Most that its files take; unless given 20GB, or a tenth of the disk if that is less." placeholder:"SIZE"`
	BlockSSDCacheMinFree     settings.Size `name:"block-ssd-cache-min-free" help:"Free space on the disk that it leaves alone; 10GB unless given." placeholder:"SIZE"`
	BlockSSDCacheDailyWrites settings.Size `name:"block-ssd-cache-daily-writes" help:"Most that it writes in a day; 40GB unless given." placeholder:"SIZE"`
	NoSSDCache               bool          `name:"no-ssd-cache" help:"Keep nothing on disk."`
	HotCacheSize             settings.Size `name:"hot-cache-size" help:"Most memory for keys and values of ended requests; all that running ones leave unless given." placeholder:"SIZE"`
	PromptCacheSize          int           `name:"prompt-cache-size" help:"Most ended conversations that stay in memory; 0: no bound." placeholder:"N"`
	PreferPrefill            *bool         `name:"prefer-prefill" help:"Read waiting prompts before running answers go on." negatable:""`
	MaxStall                 time.Duration `name:"max-stall" help:"For how long reading a prompt may hold up running answers; 250ms unless given." placeholder:"DURATION"`
}

// or is the flags, and where they are silent the settings.
func (f CacheFlags) or(s settings.Cache) CacheFlags {
	f.NoSSDCache = f.NoSSDCache || s.Off && f.BlockSSDCacheDir == ""
	f.BlockSSDCacheMaxSize = cmp.Or(f.BlockSSDCacheMaxSize, s.MaxSize)
	f.BlockSSDCacheMinFree = cmp.Or(f.BlockSSDCacheMinFree, s.MinFree)
	f.BlockSSDCacheDailyWrites = cmp.Or(f.BlockSSDCacheDailyWrites, s.DailyWrites)
	f.HotCacheSize = cmp.Or(f.HotCacheSize, s.HotSize)
	f.PromptCacheSize = cmp.Or(f.PromptCacheSize, s.PromptCacheSize)
	f.MaxStall = cmp.Or(f.MaxStall, time.Duration(s.MaxStallMs)*time.Millisecond)
	if f.PreferPrefill == nil {
		f.PreferPrefill = &s.PreferPrefill
	}
	return f
}

// given is what the flags say about the cache on disk, as settings; noPrefixes leaves it no use.
func (f CacheFlags) given(noPrefixes bool) settings.Cache {
	return settings.Cache{Off: f.NoSSDCache ||
		noPrefixes, Dir: f.BlockSSDCacheDir, MaxSize: f.BlockSSDCacheMaxSize,
		MinFree:     f.BlockSSDCacheMinFree,
		DailyWrites: f.BlockSSDCacheDailyWrites}
}

// apply sets what concerns the engine alone.
func (f CacheFlags) apply(o engine.Options) engine.Options {
	o.HotCacheBytes = max(int64(f.HotCacheSize), 0) // no limit is the engine's 0
	o.PromptCacheSize, o.MaxPrefillStall = f.PromptCacheSize, f.MaxStall
	o.PreferPrefill = f.PreferPrefill != nil && *f.PreferPrefill
	return o
}

// ssd is the cache on disk: where a command has one by default, that of flags and settings;
// elsewhere only one whose folder is asked for.
func (f CacheFlags) ssd(s settings.Cache, byDefault bool) cache.Options {
	asked := f.or(s)
	dir := f.BlockSSDCacheDir
	if dir == "" && byDefault {
		dir = cmp.Or(s.Dir, cache.DefaultDir())
	}
	if asked.NoSSDCache || dir == "" {
		return cache.Options{}
	}
	return cache.Options{Dir: dir,
		Limits: engine.BlockStoreOptions{MaxBytes: int64(asked.BlockSSDCacheMaxSize),
			MinFreeBytes:    int64(asked.BlockSSDCacheMinFree),
			DailyWriteBytes: int64(asked.BlockSSDCacheDailyWrites)}}
}

// mover moves the cache of a host to another folder. The error is a Problem: where it lies has been
// said on the command line.
func (f CacheFlags) mover(h *host.Host, file *settings.File) (*cache.Mover, error) {
	if f.BlockSSDCacheDir != "" || f.NoSSDCache {
		return nil, problem.New(problem.BadRequest, "This is set on the command line",
			"the cache's folder was given when Headroom was started",
			"Start Headroom without that flag to move it.")
	}
	return &cache.Mover{
		Now: func() (string, engine.BlockStoreLimits) {
			s := h.State().Cache
			if !s.On {
				return "", engine.BlockStoreLimits{}
			}
			l := f.ssd(file.Get().Cache, true).Limits
			return s.Dir, engine.BlockStoreLimits{MaxBytes: l.MaxBytes,
				MinFreeBytes: l.MinFreeBytes}
		},
		Rest: h.WithCacheClosed,
		Keep: func(dir string) error {
			before := file.Get().Cache.Dir
			err := file.Change(func(s *settings.Settings) { s.Cache.Dir = dir })
			if err != nil { // it must not hold until Headroom ends either
				_ = file.Change(func(s *settings.Settings) { s.Cache.Dir = before })
				return problem.Wrap(problem.Internal, err, "The settings could not be kept",
					"The cache stays where it is. See that the settings' folder can be written "+
						"to, and go on.")
			}
			return nil
		},
	}, nil
}
