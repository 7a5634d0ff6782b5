package control

// The settings of one model over HTTP, as app/settings.Model encodes them. A command-line flag
// overrides a setting for every model; ReadOnly lists these settings. New settings are checked
// against the headers of the model's files before they are saved. Sampling defaults, aliases, the
// pin and the idle time apply at once, everything else when the model is loaded again.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/problem"
)

// ModelSettings is the response of /control/models/{id}/settings.
type ModelSettings struct {
	Settings settings.Model `json:"settings"`
	ReadOnly []string       `json:"readOnly"` // names of the settings that the command line sets
}

// DraftModels is the response of /control/models/{id}/draft-models.
type DraftModels struct {
	Models []string `json:"models"` // IDs
}

func (a *API) modelSettingsRoutes() []Route {
	return []Route{
		route("GET /control/models/{id}/settings",
			"Returns the settings of a model. Encode the \"/\" in its ID as %2F.", "",
			func(r *http.Request, _ nothing) (ModelSettings, error) {
				return a.modelSettings(r.PathValue("id")), nil
			}),
		route("GET /control/models/{id}/draft-models",
			"Returns the IDs of the models here that can draft for a model: drafters made for it, "+
				"and smaller models with its vocabulary.", "",
			func(r *http.Request, _ nothing) (DraftModels, error) {
				ids, err := a.host.DraftModels(r.PathValue("id"))
				return DraftModels{Models: ids}, err
			}),
		route("PUT /control/models/{id}/settings",
			"Replaces the settings of a model; a missing one gets its default. Sampling defaults, "+
				"aliases, the pin and the idle time apply at once, the rest when the model is "+
				"loaded again.",
			`{"contextTokens": 32768}`,
			func(r *http.Request, m settings.Model) (ModelSettings, error) {
				id := r.PathValue("id")
				err := a.changeModel(id, m)
				return a.modelSettings(id), err
			}),
	}
}

func (a *API) modelSettings(id string) ModelSettings {
	return ModelSettings{Settings: a.settings.Get().ForModel(id),
		ReadOnly: slices.Sorted(maps.Keys(givenFields(a.modelFlags)))}
}

// RequestDefaults returns the parameters for requests that do not set them.
func RequestDefaults(m settings.Model) generate.Defaults {
	return generate.Defaults{MaxTokens: m.MaxTokens, Temperature: m.Temperature, TopP: m.TopP,
		TopK: m.TopK, MinP: m.MinP, RepetitionPenalty: m.RepetitionPenalty,
		PresencePenalty: m.PresencePenalty, FrequencyPenalty: m.FrequencyPenalty, Seed: m.Seed,
		TemplateKwargs: m.TemplateArguments}
}

// EngineOptions returns o with the settings of a model, except for ContextTokens and MaxSequences.
func EngineOptions(o engine.Options, m settings.Model) engine.Options {
	o.KVFormat, o.KVBits, o.KVGroupSize, o.KVBoundaryBits = m.KVFormat, m.KVBits, m.KVGroupSize,
		m.KVBoundaryBits
	o.KVStartTokens, o.StateFormat, o.MaxKVTokens = m.KVStartTokens, m.StateFormat, m.MaxKVTokens
	o.SnapKV, o.SnapKVTokens = m.SnapKV != nil && *m.SnapKV, m.SnapKVTokens
	o.Speculate = m.Speculate
	if n := m.KVBoundaryLayers; n != nil {
		o.KVBoundaryLayers = *n
		if *n == 0 {
			o.KVBoundaryLayers = -1 // none, where 0 would mean the default
		}
	}
	return o
}

// CheckModel returns an error if a setting is valid for no model.
func CheckModel(m settings.Model) error {
	switch {
	case m.ContextTokens < 0:
		return fmt.Errorf("the context is %d tokens, expected 0 or more", m.ContextTokens)
	case m.MaxSequences < 0 || m.MaxSequences > MaxSequences:
		return fmt.Errorf("%d requests at once, expected 0 to %d", m.MaxSequences, MaxSequences)
	case engine.CheckDraftTokens(m.NumDraftTokens) != nil:
		return fmt.Errorf("numDraftTokens: %w", engine.CheckDraftTokens(m.NumDraftTokens))
	case m.IdleUnloadMinutes != nil &&
		(*m.IdleUnloadMinutes < 0 || *m.IdleUnloadMinutes > settings.MaxIdleMinutes):
		return fmt.Errorf("%d idle minutes, expected 0 to %d", *m.IdleUnloadMinutes,
			settings.MaxIdleMinutes)
	case slices.ContainsFunc(m.Aliases, func(alias string) bool {
		return strings.TrimSpace(alias) != alias || alias == ""
	}):
		return errors.New("an alias is empty, or begins or ends with a space")
	}
	if err := RequestDefaults(m).Check(); err != nil {
		return err
	}
	return EngineOptions(engine.Options{}, m).Check()
}

// OpenSettings reads the user's settings. The file is usable even if there is an error, which then
// says what does not apply.
func OpenSettings(dir string) (*settings.File, error) {
	file, err := settings.Open(dir, CheckModel)
	file.CheckAccess(guard.ValidHost, guard.ValidOrigin)
	return file, err
}

// givenFields returns the settings that differ from their zero value, by their names in JSON.
func givenFields(m settings.Model) map[string]json.RawMessage {
	given := map[string]json.RawMessage{}
	_ = json.Unmarshal(mustMarshal(m), &given)
	return given
}

// changeModel checks the settings and saves them. The error is a Problem.
func (a *API) changeModel(id string, m settings.Model) error {
	if err := CheckModel(m); err != nil {
		return problem.Wrap(problem.BadRequest, err, "These settings are not valid",
			"Leave out a setting to get its default.")
	}
	set := func(s *settings.Settings) {
		if s.Models == nil {
			s.Models = map[string]settings.Model{}
		}
		s.ForgetModel(id)
		if len(givenFields(m)) > 0 {
			s.Models[id] = m
		}
	}
	if a.modelOptions != nil {
		trial := a.settings.Get()
		set(&trial)
		o := a.modelOptions(trial, id)
		if o.DraftModel != nil && m.DraftModel != "" { // whoever names it should hear what is wrong
			o.DraftModel.Required, o.AvailableBytes = true, 1<<50
		}
		if err := a.host.CheckModel(id, m, o); err != nil {
			return err
		}
	}
	if err := a.settings.Change(set); err != nil {
		return problem.Wrap(problem.Internal, err,
			"The settings could not be saved; they apply until Headroom quits", "")
	}
	a.host.RenewModel(id)
	return nil
}
