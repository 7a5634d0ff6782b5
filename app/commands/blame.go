package commands

// Flags and settings that a person should hear of: those that an error may come from, and those
// that have no effect.

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"headroom/app/demo"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
)

// blamable has the codes of errors that settings of the model may cause, and which settings may;
// none: all with which it is loaded.
var blamable = map[problem.Code][]string{
	problem.BadRequest:      nil,
	problem.DoesNotFit:      nil,
	problem.ContextExceeded: {"contextTokens"},
}

// blameSettings adds to an error which settings the model has that may cause it, and in which file
// they are, if it has some. model is an ID or an alias; "": the bundled model.
func blameSettings(err error, s *settings.File, model string) error {
	if err == nil {
		return nil
	}
	suspects, ok := blamable[problem.From(err).Code]
	if !ok {
		return err
	}
	model = cmp.Or(model, demo.ID)
	given := slices.DeleteFunc(settingsOf(s.Get(), model).OfLoading(), func(name string) bool {
		return suspects != nil && !slices.Contains(suspects, name)
	})
	if len(given) == 0 {
		return err
	}
	named := *problem.From(err)
	named.Fix = strings.TrimSpace(fmt.Sprintf("%s This model's settings have %s, in %s.", named.Fix,
		strings.Join(given, ", "), s.Path()))
	return &named
}

// settingsOf returns the settings of the model with this ID or alias.
func settingsOf(s settings.Settings, name string) settings.Model {
	for id, m := range s.Models {
		if slices.ContainsFunc(m.Aliases,
			func(alias string) bool { return strings.EqualFold(alias, name) }) {
			return s.ForModel(id)
		}
	}
	return s.ForModel(name)
}

// flagRule is a rule about a flag, and the setting of the same name, that needs others.
type flagRule struct {
	flag, setting string
	// given reports whether the flag is given, and works whether it has an effect with the settings
	// of a model.
	given func(f *ModelFlags) bool
	works func(f *ModelFlags, m settings.Model) bool
	// set reports whether the settings of a model have it, and do not turn off what it needs: a
	// person who turns that off may keep the rest for later.
	set   func(m settings.Model) bool
	needs string
	// refused reports whether other flags rule out that it has an effect, whatever the settings
	// are: then it is an error. Otherwise settings may give it one, and there is a warning.
	refused func(f *ModelFlags) bool
}

// flagRules are the flags of ModelFlags that have no effect alone. A way to decode ahead without
// what drafts for it is not among them: only the loaded model shows that (engine.Open warns).
var flagRules = []flagRule{
	{flag: "--draft-model", setting: "draftModel",
		given:   func(f *ModelFlags) bool { return f.DraftModel != "" },
		works:   func(*ModelFlags, settings.Model) bool { return true },
		set:     func(m settings.Model) bool { return m.DraftModel != "" },
		needs:   "--speculate auto, draft, dflash or mtp",
		refused: func(f *ModelFlags) bool { return f.speculatesWithoutModel() }},
	{flag: "--num-draft-tokens", setting: "numDraftTokens",
		given: func(f *ModelFlags) bool { return f.NumDraftTokens > 0 },
		works: func(f *ModelFlags, m settings.Model) bool {
			return f.DraftModel != "" || m.DraftModel != ""
		},
		set:     func(m settings.Model) bool { return m.NumDraftTokens > 0 },
		needs:   "a draft model: --draft-model, or draftModel in the model's settings",
		refused: func(f *ModelFlags) bool { return f.speculatesWithoutModel() }},
	{flag: "--snapkv-tokens", setting: "snapKVTokens",
		given: func(f *ModelFlags) bool { return f.SnapKVTokens > 0 },
		works: func(f *ModelFlags, m settings.Model) bool {
			return f.SnapKV != nil || m.SnapKV != nil && *m.SnapKV
		},
		set:     func(m settings.Model) bool { return m.SnapKVTokens > 0 && m.SnapKV == nil },
		needs:   "--snapkv, or snapKV in the model's settings",
		refused: func(f *ModelFlags) bool { return f.SnapKV != nil && !*f.SnapKV }},
}

// speculatesWithoutModel reports whether --speculate rules out a draft model.
func (f *ModelFlags) speculatesWithoutModel() bool {
	return f.Speculate != "" && !engine.UsesDraftModel(f.Speculate)
}

// checkTogether returns an error for a flag that other flags deprive of its effect.
func (f *ModelFlags) checkTogether() error {
	for _, r := range flagRules {
		if r.given(f) && r.refused(f) {
			return fmt.Errorf("%s has no effect with the other flags: it needs %s", r.flag, r.needs)
		}
	}
	return nil
}

// warnOfFlags logs which flags have no effect for any model, as the settings are, and which
// settings have none for their model.
func (f *ModelFlags) warnOfFlags(s settings.Settings) {
	for _, id := range slices.Sorted(maps.Keys(s.Models)) {
		for _, r := range flagRules {
			if m := s.Models[id]; r.set(m) && !r.works(f, m) {
				slog.Warn("a setting has no effect", "setting", "models."+id+"."+r.setting,
					"needs", r.needs)
			}
		}
	}
	for _, r := range flagRules {
		works := r.works(f, settings.Model{})
		for _, m := range s.Models {
			works = works || r.works(f, m)
		}
		if r.given(f) && !works {
			slog.Warn("a flag has no effect", "flag", r.flag, "needs", r.needs)
		}
	}
}
