package control

// What the results of a search would need on this machine. That takes the config.json of each,
// which the hub's list does not have. They are fetched together, and what has not come in time
// stays unknown: a search must not wait for the slowest of fifty answers.

import (
	"context"
	"sync"
	"time"

	"headroom/app/hub"
	"headroom/engine/problem"
)

const (
	judgeTime  = 4 * time.Second
	judgeAtOne = 8
	// maxConfigs bounds the memory of judged: a config.json has a few KB.
	maxConfigs = 500
)

// judged has the config.json files that were fetched, by the model's ID and the time of its last
// change. The zero value has none.
type judged struct {
	mu      sync.Mutex
	configs map[configKey][]byte
}

type configKey struct {
	id              string
	updatedAtUnixMs int64
}

// judge sets the judgement of every model that Headroom can run. A model that turns out not to be
// supported is marked so.
func (a *API) judge(ctx context.Context, c *hub.Client, models []HubModel) {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	var all sync.WaitGroup
	slots := make(chan struct{}, judgeAtOne)
	for i := range models {
		m := &models[i]
		if !m.Supported {
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			config := a.config(ctx, c, configKey{m.ID, m.UpdatedAtUnixMs})
			if config == nil {
				return
			}
			judgement, err := a.host.Judge(m.ID, config, m.SizeBytes)
			if err != nil && problem.From(err).Code == problem.UnknownArchitecture {
				m.Supported, m.Why = false, problem.From(err).Why
			}
			if err != nil {
				return
			}
			m.Judgement = judgement
		})
	}
	all.Wait()
}

// config returns a model's config.json; nil if the hub does not give it.
func (a *API) config(ctx context.Context, c *hub.Client, key configKey) []byte {
	a.judged.mu.Lock()
	config := a.judged.configs[key]
	a.judged.mu.Unlock()
	if config != nil {
		return config
	}
	config, err := c.Config(ctx, key.id, "")
	if err != nil {
		a.log.Debug("a model of the hub cannot be judged", "model", key.id, "err", err)
		return nil
	}
	a.judged.mu.Lock()
	defer a.judged.mu.Unlock()
	if len(a.judged.configs) >= maxConfigs || a.judged.configs == nil {
		a.judged.configs = map[configKey][]byte{}
	}
	a.judged.configs[key] = config
	return config
}
