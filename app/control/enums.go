package control

// The values of the string types in the API's documents. Reflection cannot see a type's constants,
// so they are listed here; TestEnumsListEveryConstant compares them with the source.

import (
	"reflect"

	"headroom/app/agents"
	"headroom/app/host"
	"headroom/app/hub"
	"headroom/app/importer"
	"headroom/app/jobs"
	"headroom/app/keys"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/pairing"
	"headroom/app/power"
	"headroom/app/settings"
	"headroom/app/stored"
	"headroom/app/update"
	"headroom/app/wired"
	"headroom/engine/cachemiss"
	"headroom/engine/modelfile"
)

// enums holds the values of every string type with constants.
var enums = map[reflect.Type][]any{
	reflect.TypeFor[host.Status](): {host.Stopped, host.Loading, host.Ready, host.Busy,
		host.Failed, host.IdleUnloaded},
	reflect.TypeFor[host.CheckStatus](): {host.NotChecked, host.Checking, host.Checked,
		host.CheckFailed, host.CheckStopped},
	reflect.TypeFor[memory.Kind](): {memory.Weights, memory.KVUsed, memory.KVCached, memory.State,
		memory.Scratch, memory.Reserved, memory.Headroom, memory.Other, memory.Free},
	reflect.TypeFor[memory.Source](): {memory.Measured, memory.Reported, memory.Estimated},
	reflect.TypeFor[memory.Level](): {memory.Unreported, memory.Normal, memory.Warning,
		memory.Critical},
	reflect.TypeFor[memory.Fit]():   {memory.Yes, memory.Tight, memory.No},
	reflect.TypeFor[power.Source](): {power.Unknown, power.AC, power.Battery},
	reflect.TypeFor[power.ThermalState](): {power.Unmeasured, power.Nominal, power.Fair,
		power.Serious, power.Critical},
	reflect.TypeFor[library.State](): {library.Ready, library.Downloading, library.Broken,
		library.NotLoadable, library.Drafter},
	reflect.TypeFor[library.ChangeKind](): {library.Appeared, library.Changed, library.Finished,
		library.Vanished},
	reflect.TypeFor[library.Origin](): {library.HuggingFace, library.LMStudio, library.OMLX,
		library.Ollama, library.Folder},
	reflect.TypeFor[hub.TokenSource](): {hub.NoToken, hub.TokenEnvironment, hub.TokenKeychain,
		hub.TokenFile},
	reflect.TypeFor[settings.MenuBarFigure](): {settings.FigureNone, settings.FigureSpeed,
		settings.FigureMemory},
	reflect.TypeFor[settings.Launch](): {settings.LaunchAsLeft, settings.LaunchOn,
		settings.LaunchOff},
	reflect.TypeFor[pairing.Phase](): {pairing.NoCode, pairing.Open, pairing.Paired,
		pairing.Expired, pairing.Void},
	reflect.TypeFor[agents.State](): {agents.NotWritten, agents.Current, agents.Outdated,
		agents.Edited, agents.Manual},
	reflect.TypeFor[agents.LineKind](): {agents.Same, agents.Added, agents.Removed, agents.Gap},
	reflect.TypeFor[wired.Action]():    {wired.Set, wired.Persist, wired.Reset},
	reflect.TypeFor[jobs.State](): {jobs.Waiting, jobs.Running, jobs.Done, jobs.Failed,
		jobs.Stopped},
	reflect.TypeFor[jobs.Kind](): {jobs.Import, jobs.Download, jobs.Cache,
		jobs.Training},
	reflect.TypeFor[importer.Mode](): {importer.Copy, importer.Move, importer.Link},
	reflect.TypeFor[stored.Kind](): {stored.Chats, stored.Cache, stored.Batches, stored.Jobs,
		stored.Training, stored.Log, stored.Settings, stored.Keys, stored.Agents,
		stored.Models},
	reflect.TypeFor[update.Phase](): {update.Off, update.Idle, update.Checking, update.Available,
		update.Downloading, update.Ready},
	reflect.TypeFor[modelfile.Task](): {modelfile.Generate, modelfile.Embed, modelfile.Rerank},
	reflect.TypeFor[keys.Priority]():  {keys.Interactive, keys.Batch},
	reflect.TypeFor[cachemiss.Cause](): {cachemiss.NewConversation, cachemiss.Continued,
		cachemiss.HeadChanged, cachemiss.DateChanged, cachemiss.CounterChanged,
		cachemiss.ToolsReordered, cachemiss.ToolsChanged, cachemiss.ThinkingStripped,
		cachemiss.MessageEdited, cachemiss.Retokenized, cachemiss.Evicted, cachemiss.StateNotCached,
		cachemiss.CacheOff, cachemiss.FormatChanged, cachemiss.ModelChanged, cachemiss.Private},
}

// fieldEnums holds the values of fields that are plain strings in Go, by schema and field.
var fieldEnums = map[string][]any{
	"CacheEntry.kind":          {"block", "tail", "state"},
	"GeneralChange.logLevel":   {"debug", "info", "warn", "error"},
	"GeneralSettings.logLevel": {"debug", "info", "warn", "error"},
	"HostEngineState.drafter":  {"", "mtp", "draft", "dflash"},
	"HostRequest.phase":        {"waiting", "prefill", "decode"},
	"LogsLine.level":           {"DEBUG", "INFO", "WARN", "ERROR"},
	"TrainingSet.part":         {"train", "valid", "test"},
	"PowerMeasure.kind":        {"idle_unload", "reduce_writes", "throttle", "draft_less"},
}
