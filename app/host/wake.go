package host

// Requests wake models. A request that names a model which is not loaded waits until it is. The
// loader loads the models in the order in which they were asked for (loader.go), and makes room for
// them (room.go). A request holds its model until its answer has ended, so that no model is
// unloaded under it, except by a person.

import (
	"cmp"
	"context"
	"sync"
	"time"

	"headroom/app/library"
	"headroom/engine"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/server"
)

const (
	// defaultWait is how long a request waits for its model, unless RequestRules.Wait says
	// otherwise. Agents give up after ten minutes, too.
	defaultWait = 10 * time.Minute
	// failurePause is the time for which a failure of loading also answers later requests for the
	// model. After that, a request loads it again.
	failurePause = 10 * time.Second
)

func (h *Host) requestRules() RequestRules {
	var r RequestRules
	if h.options.Requests != nil {
		r = h.options.Requests()
	}
	r.Wait = cmp.Or(r.Wait, defaultWait)
	return r
}

// Wake implements server.Models: it returns the model that id names. It first loads a model that
// was unloaded by itself, and any other if RequestRules.Load allows it. It waits for its turn and
// for the load, at most for RequestRules.Wait, and as long for the first scan. The error is
// a Problem, or the error of ctx.
func (h *Host) Wake(ctx context.Context, id string) (server.Model, error) {
	rules := h.requestRules()
	early, cancel := context.WithTimeout(ctx, rules.Wait)
	defer cancel()
	if h.AwaitStart(early) != nil {
		return server.Model{}, cmp.Or(ctx.Err(), errBegins())
	}
	models := h.models.list()
	h.mu.Lock()
	i, a, err := h.ask(id, models, rules)
	if err != nil {
		h.mu.Unlock()
		return server.Model{}, err
	}
	if i.answers() {
		defer h.mu.Unlock()
		return h.use(i, a), nil
	}
	patient := 0
	if guard.PriorityOf(ctx) < 0 {
		patient = 1
	}
	i.waiting++
	i.patient += patient
	h.wakeLoader() // a model for which only patient requests have waited comes sooner now
	changed := make(chan struct{}, 1)
	h.subscribers[changed] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subscribers, changed)
		i.waiting--
		i.patient -= patient
		h.withdraw(i)
	}()
	late := time.NewTimer(rules.Wait)
	defer late.Stop()
	for {
		m, err := h.awaited(i, a)
		if err != nil || m.Engine != nil {
			return m, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return server.Model{}, ctx.Err()
		case <-late.C:
			return server.Model{}, h.tooLate(i, rules.Wait)
		}
	}
}

// ask returns the instance that a request means, and its adapter; nil: none. If the model is not
// loaded, it makes it wanted. The caller holds mu.
func (h *Host) ask(id string, models []library.Model, rules RequestRules) (*instance,
	*engine.Adapter, error) {
	if h.closed {
		return nil, nil, errShutDown()
	}
	i, m, a, err := h.asked(id, models, rules)
	if err != nil {
		return nil, nil, err
	}
	if i == nil {
		if !rules.Load || m.Err != nil {
			return nil, nil, h.refusal(nil, m, id)
		}
		i = h.instanceOf(m)
	}
	i.usedAt = h.options.now()
	switch {
	case i.want == nil:
		if !rules.Load && i.unloaded == notUnloaded {
			return nil, nil, h.refusal(i, m, id)
		}
		h.log.Info("loading a model for a request", "model", i.model.ID)
		h.setWanted(i, &target{requestsWait: true})
	case i.failure != nil:
		again := i.want.retryAt.IsZero() && (rules.Load || i.ran) &&
			h.options.now().Sub(i.failedAt) >= failurePause
		if !again {
			return nil, nil, h.refusal(i, m, id)
		}
		h.setWanted(i, &target{requestsWait: true})
	case i.running() == nil && !i.want.requestsWait && !rules.Load:
		return nil, nil, h.refusal(i, m, id)
	}
	return i, a, nil
}

// answers reports whether requests can use the model now.
func (i *instance) answers() bool { return i.running() != nil && !i.draining }

// awaited returns the model if it is loaded, the zero value while it is not, or a Problem if it
// will not be.
func (h *Host) awaited(i *instance, a *engine.Adapter) (server.Model, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case i.answers():
		return h.use(i, a), nil
	case h.closed:
		return server.Model{}, errShutDown()
	case i.failure != nil:
		return server.Model{}, i.want.refusal(i.failure)
	case i.want == nil:
		return server.Model{}, problem.New(problem.NotRunning,
			"The model "+i.model.ID+" was stopped", "", "Send the request again to load it.")
	}
	return server.Model{}, nil
}

// use returns the model for a request, which must release it, with its adapter. The caller holds
// mu.
func (h *Host) use(i *instance, a *engine.Adapter) server.Model {
	i.uses++
	i.usedAt = h.options.now()
	id := i.model.ID
	var once sync.Once
	return server.Model{ID: id, Engine: i.have.engine, Adapter: a,
		Release: func(keepAlive *time.Duration) {
			if keepAlive != nil && h.options.Model != nil && h.options.Model(id).Pinned {
				keepAlive = nil // a request does not decide over a model that a person has pinned
			}
			once.Do(func() { h.release(i, keepAlive) })
		}}
}

// release ends a request's use of a model. As in Ollama, what a request says of the time holds
// until another one says something else, or the model is unloaded. A request of an API without such
// a field says nothing.
func (h *Host) release(i *instance, keepAlive *time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i.uses--
	i.usedAt, i.observed = h.options.now(), i.running()
	if keepAlive != nil && i.running() != nil {
		i.keepAlive = keepAlive
	}
	h.awaitKeepAlive(i)
	if i.keepAlive != nil && *i.keepAlive == 0 && i.running() != nil && !i.busy() {
		h.log.Info("unloading a model, as its last request wants", "model", i.model.ID)
		h.setUnloaded(i, forIdleness)
	}
	h.wakeLoader() // a model may wait for this one's memory
}

// awaitKeepAlive lets the model be unloaded as soon as the time of keepAlive is over. The caller
// holds mu.
func (h *Host) awaitKeepAlive(i *instance) {
	if i.keepAliveEnds != nil {
		i.keepAliveEnds.Stop()
	}
	if i.keepAlive != nil && *i.keepAlive > 0 {
		i.keepAliveEnds = time.AfterFunc(*i.keepAlive, func() { h.unloadIdle(h.options.now()) })
	}
}

// withdraw takes a model out of the queue if no request waits for it any more and loading it has
// not begun. The caller holds mu.
func (h *Host) withdraw(i *instance) {
	t := i.want
	if t == nil || i.waiting > 0 || t.byPerson || t.reload || i.have != nil || i.opening ||
		i.failure != nil {
		return
	}
	h.setWanted(i, nil)
	i.unloaded = t.was
}

// tooLate returns the Problem of a request that has waited for too long.
func (h *Host) tooLate(i *instance, waited time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	why := "it is still being loaded"
	if !i.opening {
		why = "the requests of other models need the memory"
	}
	p := problem.New(problem.Loading, "The model "+i.model.ID+" was not ready within "+
		waited.String(), why, "Try again later, or load fewer models at once.")
	p.RetryAfter = lateRetry
	return p
}

// lateRetry is the time after which a request that has waited for too long may be sent again.
const lateRetry = 30 * time.Second
