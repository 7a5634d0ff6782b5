package route

// Which requests may leave this machine, and with what. The router reads the model of a body and
// leaves the rest as it is, so a body that names another model to another program must not be sent
// on: the holder of a key with models would get other ones. What the holder of a named key may not
// decide here is not sent on either; engine/server refuses to unload models.

import (
	"fmt"
	"slices"
	"strings"

	"headroom/app/machines"
	"headroom/engine/jsonbody"
	"headroom/engine/problem"
)

// furtherModels are fields by which servers take models to use instead of that of the request:
// OpenRouter's models, and fallbacks of OpenRouter and LiteLLM.
var furtherModels = []string{"models", "fallbacks"}

// noteOther notes a field that may name a model in a way that the router does not follow, or that
// manages a machine. Some servers disregard case.
func (b *body) noteOther(name string, value []byte) {
	switch {
	case strings.EqualFold(name, "model"):
		b.likeModel = name
	case strings.EqualFold(name, "keep_alive"):
		if string(value) != "null" {
			b.managing = append(b.managing, change{value, "null"})
		}
	case strings.EqualFold(name, "priority"): // vLLM's, of which the smallest runs first
		if string(value) != "null" && (value[0] < '0' || value[0] > '9') {
			b.managing = append(b.managing, change{value, "0"})
		}
	case slices.ContainsFunc(furtherModels, func(one string) bool {
		return strings.EqualFold(name, one)
	}):
		b.further = name
	}
}

// bodyFor returns the body for a machine on which the model has a name. ok is false if it cannot be
// set.
func (q *question) bodyFor(model string) (_ []byte, ok bool) {
	var managing []change
	if q.Caller != nil {
		managing = slices.Clone(q.body.managing)
	}
	switch {
	case model != q.body.model:
		return withModel(q.Body, &q.body, model, managing...)
	case len(managing) > 0:
		return changed(q.Body, managing...), true
	}
	return q.Body, true
}

// mayLeave reports whether a request may go to those engines that are on other machines. If this
// one has the model, it answers a request that may not, and also one whose body is not valid: the
// dialect says what is wrong. Otherwise the error says why. A request of a key whose requests wait
// for those of others stays if the model is here: other machines do not know the key's priority.
func (q *question) mayLeave(engines []target) (bool, error) {
	if jsonbody.Check(q.Body) != nil {
		return false, nil
	}
	if q.here != "" && q.only == "" && q.Caller != nil && q.Caller.Priority < 0 {
		return false, nil
	}
	limited := q.Caller != nil && len(q.Caller.Models) > 0
	var err error
	switch {
	case q.body.likeModel != "":
		err = problem.New(problem.BadRequest,
			fmt.Sprintf("The field %q differs from \"model\" only in case", q.body.likeModel),
			"another machine may take it for the model", "Leave it out.")
	case limited && q.body.further != "" && slices.ContainsFunc(engines, func(e target) bool {
		return e.machine != nil && e.stored.Kind != machines.Headroom
	}):
		err = problem.New(problem.Forbidden, "An API key that is limited to models may not send "+
			fmt.Sprintf("the field %q to another machine", q.body.further),
			"it may name models that are not for the key", "Leave it out.")
	}
	if q.here != "" {
		return err == nil, nil
	}
	return err == nil, err
}
